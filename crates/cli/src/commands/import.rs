//! `import`

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use anyhow::Result;
use cas_core::archive;
use cas_core::refs::{Expected, RefChange};
use cas_core::{ObjectId, Store, StoreError, WriteTransaction};
use manifest::history::{self, Grafts};
use manifest::{COMMIT, Commit, ManifestObject, Thread};
use serde::Serialize;

use super::{checkpoint_archive, tag, target};
use crate::args::ImportArgs;
use crate::context::Context;
use crate::format;
use crate::objects::{FromStore, History, ManifestReferences};

#[derive(Serialize)]
struct Imported<'a> {
    message_type: &'static str,
    commit: String,
    #[serde(rename = "ref")]
    name: Option<&'a str>,
    objects: u64,
    content_bytes: u64,
    new_objects: u64,
    new_stored_bytes: u64,
}

pub(crate) fn run(context: &Context, args: &ImportArgs) -> Result<()> {
    // A name that cannot be used is found before anything is read.
    let name = tag::new_name(args.thread.as_deref(), args.tag.as_deref())?;
    let store = target::open_to_fill(context)?;
    let (path, input): (&Path, Box<dyn Read>) = if args.file == Path::new("-") {
        (Path::new("stdin"), Box::new(io::stdin()))
    } else {
        let file = File::open(&args.file).map_err(StoreError::io("open", &args.file))?;
        (&args.file, Box::new(file))
    };
    let mut input = BufReader::with_capacity(1 << 20, input);
    let mut head = Vec::new();
    (&mut input)
        .take(archive::MAGIC.len() as u64)
        .read_to_end(&mut head)
        .map_err(StoreError::io("read", path))?;
    let mut input = io::Cursor::new(head.clone()).chain(input);
    if head != archive::MAGIC {
        return checkpoint_archive::import(context, args, &store, name.as_deref(), &mut input);
    }
    let transaction = store.write(&[])?;
    let references = ManifestReferences::default();
    let moved = transaction.import(path, &mut input, &references, &context.meter)?;
    if moved.kind != COMMIT {
        return Err(StoreError::damaged("export file", path, "is not about a commit").into());
    }
    transaction.flush()?;
    let mut changes: Vec<RefChange> = recall(&store, &transaction, &references)?.into_iter().collect();
    if let Some(name) = &name {
        changes.extend(change(&store, name, moved.root)?);
    }
    let stats = transaction.commit(&changes)?;
    let done = Imported {
        message_type: "imported",
        commit: moved.root.to_string(),
        name: name.as_deref(),
        objects: moved.objects,
        content_bytes: moved.bytes,
        new_objects: stats.new_objects,
        new_stored_bytes: stats.new_stored,
    };
    let line = format!(
        "read commit {}: {} with {} of content, {} of them new",
        moved.root.short(),
        format::plural(moved.objects, "object"),
        format::size(moved.bytes),
        format::count(stats.new_objects)
    );
    context.printer.data(&done, &[line])?;
    warn_unnamed(context, name.as_deref(), &moved.root);
    Ok(())
}

/// What has no name is on its way out.
pub(super) fn warn_unnamed(context: &Context, name: Option<&str>, id: &ObjectId) {
    if name.is_none() {
        let id = id.short();
        context.printer.warning(&format!(
            "nothing leads to it yet: give it a name with `infinijup tag NAME {id}`, or gc deletes it"
        ));
    }
}

/// What was forgotten and has come back is not forgotten any more.
pub(super) fn recall(
    store: &Store,
    transaction: &WriteTransaction,
    references: &ManifestReferences,
) -> Result<Option<RefChange>> {
    let (mut grafts, before) = Grafts::load_from(store)?;
    let mut back = Vec::new();
    for id in references.imported_commits() {
        if grafts.contains(&id) {
            back.push((id, Commit::load(&FromStore(store), &id)?.parents));
        }
    }
    if back.is_empty() {
        return Ok(None);
    }
    // That it cannot be told whether a commit is there is as bad as its absence: the gap is bridged.
    grafts.recall(&back, |parent| store.contains(parent).unwrap_or(false));
    Ok(Some(grafts.change(transaction, before)?))
}

/// A new name must be free. A thread may also move forward. What is as wanted already needs no change.
pub(super) fn change(store: &Store, name: &str, new: ObjectId) -> Result<Option<RefChange>> {
    let expected = match store.refs().get(name)? {
        Some(now) if now == new => return Ok(None),
        Some(now) if name.starts_with(Thread::PREFIX) && came_before(store, &now, &new)? => Expected::At(now),
        _ => Expected::Absent,
    };
    Ok(Some(RefChange { name: name.to_owned(), expected, new: Some(new) }))
}

/// A history that was left out answers "no": the thread then stays where it is.
fn came_before(store: &Store, old: &ObjectId, new: &ObjectId) -> Result<bool> {
    match history::is_ancestor(History::of(store)?, old, new) {
        Ok(answer) => Ok(answer),
        Err(manifest::ReadError::Source { source: StoreError::MissingObject { .. }, .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
