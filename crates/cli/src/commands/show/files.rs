//! The files of a workspace.

use anyhow::Result;
use cas_core::{ObjectId, Store};
use jiff::Timestamp;
use manifest::tree::Time;
use manifest::{ByteText, Entry, ManifestObject, Node, RootTarget, Snapshot, Tree};
use serde::Serialize;

use crate::context::Context;
use crate::format;
use crate::objects::FromStore;

#[derive(Serialize)]
struct FileLine {
    message_type: &'static str,
    path: ByteText,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: Option<String>,
    size: Option<u64>,
    id: Option<String>,
    target: Option<ByteText>,
}

/// Lists every tree of a snapshot, one entry per line as it is read: a workspace may have a million files.
pub(super) fn list(context: &Context, store: &Store, snapshot: &Snapshot) -> Result<()> {
    if !context.printer.is_json() {
        context.printer.line("")?;
    }
    for root in snapshot.sections().iter().flat_map(|section| &section.roots) {
        if let RootTarget::Tree(tree) = root.target {
            directory(context, store, tree)?;
        }
    }
    Ok(())
}

fn directory(context: &Context, store: &Store, root: ObjectId) -> Result<()> {
    let mut rest: Vec<(Vec<u8>, Entry)> = Vec::new();
    let open = |prefix: &[u8], id: &ObjectId, rest: &mut Vec<(Vec<u8>, Entry)>| -> Result<()> {
        let tree = Tree::load(&FromStore(store), id)?;
        // The last one pushed is the next one listed.
        for entry in tree.entries().iter().rev() {
            let path = [prefix, entry.name.as_bytes()].concat();
            rest.push((path, entry.clone()));
        }
        Ok(())
    };
    open(b"", &root, &mut rest)?;
    while let Some((mut path, entry)) = rest.pop() {
        show(context, &path, &entry)?;
        if let Node::Dir { tree } = &entry.node {
            path.push(b'/');
            open(&path, tree, &mut rest)?;
        }
    }
    Ok(())
}

fn show(context: &Context, path: &[u8], entry: &Entry) -> Result<()> {
    let (kind, size, id, target) = match &entry.node {
        Node::File { size, content } => ("file", Some(*size), content.map(|content| content.id), None),
        Node::Dir { tree } => ("dir", None, Some(*tree), None),
        Node::Symlink { target } => ("symlink", None, None, Some(target.clone())),
        Node::Fifo => ("fifo", None, None, None),
        Node::Socket => ("socket", None, None, None),
        Node::Char { .. } => ("char", None, None, None),
        Node::Block { .. } => ("block", None, None, None),
    };
    let mtime = timestamp(entry.mtime);
    let line = FileLine {
        message_type: "file",
        path: ByteText::new(path),
        kind,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        mtime: mtime.map(|time| time.to_string()),
        size,
        id: id.map(|id| id.to_string()),
        target,
    };
    let end = match &line.target {
        Some(target) => format!(" -> {}", format::safe_bytes(target.as_bytes())),
        None if kind == "dir" => "/".to_owned(),
        None => String::new(),
    };
    let text = format!(
        "{:04o}  {:>10}  {:<17}  {}{end}",
        entry.mode,
        size.map_or_else(|| kind.to_owned(), format::size),
        mtime.map(format::minute).unwrap_or_default(),
        format::safe_bytes(path)
    );
    Ok(context.printer.data(&line, &[text])?)
}

/// `None` for times that no calendar has.
fn timestamp(time: Time) -> Option<Timestamp> {
    Timestamp::new(time.seconds, i32::try_from(time.nanoseconds).ok()?).ok()
}
