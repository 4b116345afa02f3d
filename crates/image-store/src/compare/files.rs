//! Which files differ between two snapshots.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cas_core::{ObjectId, Store};
use manifest::snapshot::{OutsideSection, WorkspaceSection};
use manifest::stored::FromStore;
use manifest::{BlobRef, Entry, ManifestObject, Node, Snapshot, Tree};

use super::{Change, FileChange};
use crate::error::Result;

/// Directories are not followed deeper than paths can be long.
const MAX_DEPTH: usize = 2048;

/// The files of the workspace and those outside, sorted by path.
pub(super) fn changes(store: &Store, before: &Snapshot, after: &Snapshot) -> Result<Vec<FileChange>> {
    let mut walk = Walk { store, changes: Vec::new() };
    let workspace = |snapshot: &Snapshot| snapshot.get::<WorkspaceSection>();
    let (old, new) = (workspace(before)?, workspace(after)?);
    // A branch has its files elsewhere; they are the same files.
    let root = new.as_ref().or(old.as_ref()).map(|section| path_of(section.root.as_bytes()));
    let tree = |section: Option<WorkspaceSection>| section.and_then(|section| section.tree).map(|(id, _)| id);
    walk.tree(&root.unwrap_or_default(), tree(old), tree(new), 0)?;
    let outside = |snapshot: &Snapshot| -> Result<Option<ObjectId>> {
        Ok(snapshot.get::<OutsideSection>()?.and_then(|section| section.tree).map(|(id, _)| id))
    };
    walk.tree(Path::new("/"), outside(before)?, outside(after)?, 0)?;
    walk.changes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(walk.changes)
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

struct Walk<'a> {
    store: &'a Store,
    changes: Vec<FileChange>,
}

impl Walk<'_> {
    fn tree(
        &mut self,
        path: &Path,
        before: Option<ObjectId>,
        after: Option<ObjectId>,
        depth: usize,
    ) -> Result<()> {
        if before == after || depth > MAX_DEPTH {
            return Ok(());
        }
        let (old, new) = (self.load(before)?, self.load(after)?);
        for entry in old.entries() {
            self.entry(path, Some(entry), new.get(entry.name.as_bytes()), depth)?;
        }
        for entry in new.entries().iter().filter(|entry| old.get(entry.name.as_bytes()).is_none()) {
            self.entry(path, None, Some(entry), depth)?;
        }
        Ok(())
    }

    fn load(&self, tree: Option<ObjectId>) -> Result<Tree> {
        match tree {
            None => Ok(Tree::default()),
            Some(id) => Ok(Tree::load(&FromStore(self.store), &id)?),
        }
    }

    fn entry(
        &mut self,
        path: &Path,
        before: Option<&Entry>,
        after: Option<&Entry>,
        depth: usize,
    ) -> Result<()> {
        let Some(name) = after.or(before).map(|entry| &entry.name) else { return Ok(()) };
        let path = path.join(OsStr::from_bytes(name.as_bytes()));
        let directory = |entry: Option<&Entry>| match entry.map(|entry| &entry.node) {
            Some(Node::Dir { tree }) => Some(*tree),
            _ => None,
        };
        let file = |entry: Option<&Entry>| entry.is_some() && directory(entry).is_none();
        // A directory is what is in it; a file may have come in its place.
        self.tree(&path, directory(before), directory(after), depth + 1)?;
        let change = match (before.filter(|_| file(before)), after.filter(|_| file(after))) {
            (None, None) => return Ok(()),
            (None, Some(_)) => Change::Added,
            (Some(_), None) => Change::Removed,
            (Some(old), Some(new)) if is_same(old, new) => return Ok(()),
            (Some(_), Some(_)) => Change::Changed,
        };
        let stored = (content(before), content(after));
        self.changes.push(FileChange { path, change, before: size(before), after: size(after), stored });
        Ok(())
    }
}

/// Whether nobody would see a difference, times apart. A file whose content was not captured is known by its time alone.
fn is_same(old: &Entry, new: &Entry) -> bool {
    let captured = |entry: &Entry| !matches!(entry.node, Node::File { content: None, .. });
    let same_time = captured(old) || captured(new) || old.mtime == new.mtime;
    old.node == new.node && (old.mode, old.uid, old.gid) == (new.mode, new.uid, new.gid) && same_time
}

fn content(entry: Option<&Entry>) -> Option<BlobRef> {
    match entry.map(|entry| &entry.node) {
        Some(Node::File { content, .. }) => *content,
        _ => None,
    }
}

fn size(entry: Option<&Entry>) -> Option<u64> {
    match entry.map(|entry| &entry.node) {
        Some(Node::File { size, .. }) => Some(*size),
        _ => None,
    }
}
