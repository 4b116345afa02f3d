//! `tag`

use anyhow::Result;
use api::{CommitView, Nothing, TagRequest};
use cas_core::refs::{Expected, RefChange};
use cas_core::{ObjectId, Store, StoreError};
use manifest::Tag;
use serde::Serialize;

use super::online::Online;
use super::online::client::encoded;
use super::target::Target;
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
    let target = Target::of(context)?;
    let Some(name) = &args.name else {
        let store = match target.open(context) {
            // A daemon's store is made with its first snapshot.
            Err(error) if matches!(error.downcast_ref(), Some(CliError::NothingYet { .. })) => return Ok(()),
            opened => opened?,
        };
        return list(context, &store);
    };
    let tag = Tag::new(name.as_str())?;
    let store = target.open(context)?;
    // The daemon tells whoever looks at the history.
    let online = if target.is_daemons() { Some(Online::new(context)?) } else { None };
    if args.delete {
        delete(context, &store, &tag, online.as_ref())
    } else {
        let id = revision::resolve(&store, args.revision.as_deref())?;
        create(context, &store, &tag, id, online.as_ref())
    }
}

fn create(
    context: &Context,
    store: &Store,
    tag: &Tag,
    id: ObjectId,
    online: Option<&Online<'_>>,
) -> Result<()> {
    match online {
        Some(online) => {
            let request =
                TagRequest { name: tag.as_str().to_owned(), commit: id.to_string(), move_it: false };
            let _made: CommitView = online.post("/v1/tags", &request)?;
        }
        None => {
            let change = RefChange { name: tag.ref_path(), expected: Expected::Absent, new: Some(id) };
            store.refs().update(&[change])?;
        }
    }
    let done = Change { message_type: "tag_created", tag: tag.as_str(), commit: id.to_string() };
    context.printer.data(&done, &[format!("tag {tag} is snapshot {}", id.short())])?;
    Ok(())
}

fn delete(context: &Context, store: &Store, tag: &Tag, online: Option<&Online<'_>>) -> Result<()> {
    let name = tag.ref_path();
    let id = store.refs().get(&name)?.ok_or_else(|| StoreError::RefMissing { name: name.clone() })?;
    match online {
        Some(online) => {
            let _gone: Nothing = online.delete(format!("/v1/tags/{}", encoded(tag.as_str())))?;
        }
        None => store.refs().update(&[RefChange { name, expected: Expected::At(id), new: None }])?,
    }
    let done = Change { message_type: "tag_deleted", tag: tag.as_str(), commit: id.to_string() };
    context.printer.data(&done, &[format!("deleted tag {tag}, which was snapshot {}", id.short())])?;
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
