//! Between the files in an archive, which are tar files, and those in a store, which are trees.

use std::io::{self, Write};

use base::io_error;
use cas_core::progress::{Progress, Task};
use cas_core::{ObjectId, Store, WriteTransaction};
use checkpoint_archive::tar::{Entry as TarEntry, Kind, TarWriter};
use checkpoint_archive::{Child, Directory};
use manifest::stored::{self, FromStore};
use manifest::tree::{Time, Xattr};
use manifest::{BlobRef, ByteText, Entry, FileName, ManifestObject, Node, Tree};

use crate::error::Result;

/// A directory that is there only because something is in it has no name of its own: a restore leaves the one that it finds as it is.
const UNNAMED: u64 = 0;

/// Saves a directory and everything below it.
pub(super) fn save(transaction: &WriteTransaction, directory: &Directory<BlobRef>) -> Result<ObjectId> {
    let mut entries = Vec::with_capacity(directory.children.len());
    for (name, child) in &directory.children {
        let name = FileName::new(name.clone())?;
        entries.push(match child {
            Child::Directory(inner) => {
                let node = Node::Dir { tree: save(transaction, inner)? };
                match &inner.entry {
                    Some(said) => entry(name, node, said),
                    None => Entry { nlink: Some(UNNAMED), mode: 0o755, ..Entry::new(name, node) },
                }
            }
            Child::File(said, content) => {
                entry(name, Node::File { size: content.len, content: Some(*content) }, said)
            }
            Child::Other(said) => {
                let node = match &said.kind {
                    Kind::Symlink(target) => Node::Symlink { target: ByteText::new(target.clone()) },
                    Kind::Char(major, minor) => Node::Char { major: *major, minor: *minor },
                    _ => Node::Fifo,
                };
                entry(name, node, said)
            }
        });
    }
    Ok(stored::save(&Tree::new(entries)?, transaction)?)
}

fn entry(name: FileName, node: Node, said: &TarEntry) -> Entry {
    let xattr = |(name, value): &(Vec<u8>, Vec<u8>)| Xattr {
        name: ByteText::new(name.clone()),
        value: ByteText::new(value.clone()),
    };
    Entry {
        mode: said.mode,
        uid: said.uid,
        gid: said.gid,
        mtime: Time { seconds: said.mtime.0, nanoseconds: said.mtime.1 },
        xattrs: said.xattrs.iter().map(xattr).collect(),
        ..Entry::new(name, node)
    }
}

/// Writes trees into one tar file.
pub(super) struct Packing<'a, W: Write> {
    store: &'a Store,
    progress: &'a dyn Progress,
    tar: TarWriter<W>,
    /// Paths from `/` that overlayfs has marked as removed.
    pub(super) deleted: Vec<String>,
    /// How many entries were written.
    pub(super) entries: u64,
}

impl<'a, W: Write> Packing<'a, W> {
    pub(super) fn new(store: &'a Store, out: W, progress: &'a dyn Progress) -> Self {
        Self { store, progress, tar: TarWriter::new(out), deleted: Vec::new(), entries: 0 }
    }

    /// Everything in a tree, below this path.
    pub(super) fn tree(&mut self, below: &[u8], id: &ObjectId) -> Result<()> {
        for entry in Tree::load(&FromStore(self.store), id)?.entries() {
            let mut path = below.to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(entry.name.as_bytes());
            self.entry(path, entry)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: Vec<u8>, entry: &Entry) -> Result<()> {
        let (kind, size) = match &entry.node {
            Node::Dir { tree } => {
                if entry.nlink != Some(UNNAMED) {
                    self.put(&said(path.clone(), Kind::Directory, 0, entry), &mut io::empty())?;
                }
                return self.tree(&path, tree);
            }
            Node::File { content: Some(content), size } => {
                let said = said(path, Kind::File, *size, entry);
                return self.put(&said, &mut self.store.open_blob(&(*content).into())?);
            }
            Node::Char { major: 0, minor: 0 } => {
                self.deleted.push(format!("/{}", String::from_utf8_lossy(&path)));
                return Ok(());
            }
            Node::Symlink { target } => (Kind::Symlink(target.as_bytes().to_vec()), 0),
            Node::Fifo => (Kind::Fifo, 0),
            // What was not captured, what tar has no word for, and what no container gets from an archive.
            Node::File { .. } | Node::Socket | Node::Char { .. } | Node::Block { .. } => return Ok(()),
        };
        self.put(&said(path, kind, size, entry), &mut io::empty())
    }

    fn put(&mut self, entry: &TarEntry, content: &mut dyn io::Read) -> Result<()> {
        self.entries += 1;
        self.progress.advance(Task::Transfer, entry.size);
        Ok(self.tar.put(entry, content).map_err(io_error("write", "the archive"))?)
    }

    pub(super) fn finish(self) -> Result<W> {
        Ok(self.tar.finish().map_err(io_error("write", "the archive"))?)
    }
}

fn said(path: Vec<u8>, kind: Kind, size: u64, entry: &Entry) -> TarEntry {
    let xattrs = entry.xattrs.iter();
    TarEntry {
        path,
        kind,
        size,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        mtime: (entry.mtime.seconds, entry.mtime.nanoseconds),
        xattrs: xattrs.map(|one| (one.name.as_bytes().to_vec(), one.value.as_bytes().to_vec())).collect(),
    }
}
