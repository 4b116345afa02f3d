//! From entries by path to trees in the store.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use cas_core::{ObjectId, WriteTransaction};
use manifest::{Entry, FileName, ManifestObject, Node, Tree};

use crate::error::Result;
use crate::listing::content;

/// A directory that is being put together.
#[derive(Default)]
pub(crate) struct Directory {
    entry: Option<Entry>,
    /// Its entry has its tree, and that is in the store.
    whole: bool,
    below: BTreeMap<Vec<u8>, Directory>,
}

impl Directory {
    /// Puts an entry at a path below this directory. What leads there is made.
    pub(crate) fn insert(&mut self, below: &Path, entry: Entry) {
        self.at(below).entry = Some(entry);
    }

    /// The same for a directory whose tree is there already, with all that is below it.
    pub(crate) fn insert_whole(&mut self, below: &Path, entry: Entry) {
        let at = self.at(below);
        (at.entry, at.whole) = (Some(entry), true);
    }

    fn at(&mut self, below: &Path) -> &mut Self {
        let mut at = self;
        for component in below.components() {
            let Component::Normal(name) = component else { continue };
            at = at.below.entry(name.as_bytes().to_vec()).or_default();
        }
        at
    }

    /// Saves it and everything below; says how many bytes the captured files have. Directories below it that were made are added to `made`, with their
    /// paths.
    pub(crate) fn save(
        self,
        transaction: &WriteTransaction,
        path: &Path,
        made: &mut Vec<(PathBuf, ObjectId)>,
    ) -> Result<(ObjectId, u64)> {
        let mut entries = Vec::with_capacity(self.below.len());
        let mut bytes = 0_u64;
        for (name, below) in self.below {
            let is_directory =
                below.entry.as_ref().is_none_or(|entry| matches!(entry.node, Node::Dir { .. }));
            let entry = if let (true, Some(entry)) = (below.whole, &below.entry) {
                entry.clone()
            } else if is_directory {
                let path = path.join(OsStr::from_bytes(&name));
                let mut entry = match &below.entry {
                    Some(entry) => entry.clone(),
                    None => directory_entry(FileName::new(name)?),
                };
                let (tree, size) = below.save(transaction, &path, made)?;
                bytes = bytes.saturating_add(size);
                made.push((path, tree));
                entry.node = Node::Dir { tree };
                entry
            } else {
                match below.entry {
                    Some(entry) => entry,
                    None => continue,
                }
            };
            bytes = bytes.saturating_add(content(&entry).map_or(0, |content| content.len));
            entries.push(entry);
        }
        let tree = Tree::new(entries)?;
        Ok((transaction.put(Tree::KIND, tree.encode()?)?, bytes))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.below.is_empty()
    }
}

/// A directory of which nothing is known but that it was there.
pub(crate) fn directory_entry(name: FileName) -> Entry {
    let mut entry = Entry::new(name, Node::Dir { tree: ObjectId::from_bytes([0; 32]) });
    // What has no names was not looked at itself.
    (entry.mode, entry.nlink) = (0o755, Some(0));
    entry
}
