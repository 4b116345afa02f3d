//! From entries by path to trees in the store.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use cas_core::{ObjectId, WriteTransaction};
use manifest::{Entry, FileName, ManifestObject, Node, Tree};

use crate::error::Result;
use crate::listing::content;

/// A directory that is being put together.
#[derive(Default)]
pub(crate) struct Directory {
    entry: Option<Entry>,
    below: BTreeMap<Vec<u8>, Directory>,
}

impl Directory {
    /// Puts an entry at a path below this directory. What leads there is made.
    pub(crate) fn insert(&mut self, below: &Path, entry: Entry) {
        let mut at = self;
        for component in below.components() {
            let Component::Normal(name) = component else { continue };
            at = at.below.entry(name.as_bytes().to_vec()).or_default();
        }
        at.entry = Some(entry);
    }

    /// Saves it and everything below; says how many bytes the captured files have.
    pub(crate) fn save(self, transaction: &WriteTransaction) -> Result<(ObjectId, u64)> {
        let mut entries = Vec::with_capacity(self.below.len());
        let mut bytes = 0_u64;
        for (name, below) in self.below {
            let is_directory =
                below.entry.as_ref().is_none_or(|entry| matches!(entry.node, Node::Dir { .. }));
            let entry = if is_directory {
                let mut entry = match &below.entry {
                    Some(entry) => entry.clone(),
                    None => directory_entry(FileName::new(name)?),
                };
                let (tree, size) = below.save(transaction)?;
                bytes = bytes.saturating_add(size);
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
    entry.mode = 0o755;
    entry
}
