//! `tag`

use anyhow::Result;
use cas_core::refs::{Expected, RefChange};
use cas_core::{Store, StoreError};
use manifest::Tag;
use serde::Serialize;

use super::online::{self, Online};
use crate::args::TagArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::format;
use crate::revision;

#[derive(Serialize)]
struct Change<'a> {
    message_type: &'static str,
    tag: &'a str,
    commit: String,
}

pub(crate) fn run(context: &Context, args: &TagArgs) -> Result<()> {
    // Without a store of one's own, what is meant are the snapshots that the daemon keeps.
    if !context.has_store() {
        match online::prune::tag(&Online::new(context)?, args) {
            // Neither is there: that there is no store is what is said then.
            Err(error) if matches!(error.downcast_ref(), Some(CliError::NoDaemon { .. })) => {}
            done => return done,
        }
    }
    let store = context.open()?;
    let Some(name) = &args.name else { return list(context, &store) };
    let tag = Tag::new(name.as_str())?;
    if args.delete { delete(context, &store, &tag) } else { create(context, &store, &tag, args) }
}

fn create(context: &Context, store: &Store, tag: &Tag, args: &TagArgs) -> Result<()> {
    let id = revision::resolve(store, args.revision.as_deref())?;
    let change = RefChange { name: tag.ref_path(), expected: Expected::Absent, new: Some(id) };
    store.refs().update(&[change])?;
    let done = Change { message_type: "tag_created", tag: tag.as_str(), commit: id.to_string() };
    context.printer.data(&done, &[format!("tag {tag} is commit {}", id.short())])?;
    Ok(())
}

fn delete(context: &Context, store: &Store, tag: &Tag) -> Result<()> {
    let name = tag.ref_path();
    let id = store.refs().get(&name)?.ok_or_else(|| StoreError::RefMissing { name: name.clone() })?;
    store.refs().update(&[RefChange { name, expected: Expected::At(id), new: None }])?;
    let done = Change { message_type: "tag_deleted", tag: tag.as_str(), commit: id.to_string() };
    context.printer.data(&done, &[format!("deleted tag {tag}, which was commit {}", id.short())])?;
    Ok(())
}

/// Damaged tags do not hide the others.
fn list(context: &Context, store: &Store) -> Result<()> {
    let mut damaged = None;
    let mut rows = Vec::new();
    for (path, target) in store.refs().list(Tag::PREFIX)? {
        let name = path.strip_prefix(Tag::PREFIX).unwrap_or(&path);
        match target {
            Ok(id) if context.printer.is_json() => {
                context.printer.json(&Change { message_type: "tag", tag: name, commit: id.to_string() })?;
            }
            Ok(id) => rows.push(vec![format::safe(name), id.short()]),
            Err(error) => {
                context.printer.warning(&format!("tag `{}` cannot be read", format::safe(name)));
                damaged = damaged.or(Some(error));
            }
        }
    }
    for line in format::table(&rows, &[]) {
        context.printer.line(&line)?;
    }
    damaged.map_or(Ok(()), |error| Err(error.into()))
}

/// The ref that shall lead to what was imported: a thread or a tag.
pub(crate) fn new_name(thread: Option<&str>, tag: Option<&str>) -> Result<Option<String>> {
    match (thread, tag) {
        (Some(name), None) => Ok(Some(manifest::Thread::new(name)?.ref_path())),
        (None, Some(name)) => Ok(Some(Tag::new(name)?.ref_path())),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(CliError::Usage { what: "a thread or a tag, not both".into() }.into()),
    }
}
