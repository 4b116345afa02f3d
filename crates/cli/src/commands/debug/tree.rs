//! A directory as a workspace. What a restore would need beyond names, content, rights and times is the daemon's business.

use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Result;
use cas_core::progress::Progress;
use cas_core::{ObjectId, StoreError, WriteTransaction};
use manifest::snapshot::NotCaptured;
use manifest::tree::Time;
use manifest::{ByteText, Entry, FileName, Node, Tree};

use super::{Stored, put_file};
use crate::objects;

/// Stores everything below `directory`, except for the store itself.
pub(super) fn store(
    transaction: &WriteTransaction,
    directory: &Path,
    progress: &dyn Progress,
) -> Result<Stored> {
    let own = transaction.store().root();
    let own = own.canonicalize().map_err(StoreError::io("open", own))?;
    let mut job = Job { transaction, progress, own, top: directory, bytes: 0, not_captured: Vec::new() };
    let tree = job.directory(directory)?;
    Ok(Stored { tree, bytes: job.bytes, not_captured: job.not_captured })
}

struct Job<'a> {
    transaction: &'a WriteTransaction,
    progress: &'a dyn Progress,
    own: PathBuf,
    top: &'a Path,
    bytes: u64,
    not_captured: Vec<NotCaptured>,
}

impl Job<'_> {
    fn directory(&mut self, directory: &Path) -> Result<ObjectId> {
        let mut entries = Vec::new();
        for found in fs::read_dir(directory).map_err(StoreError::io("list", directory))? {
            let found = found.map_err(StoreError::io("list", directory))?;
            let path = found.path();
            if path == self.own {
                let below = path.strip_prefix(self.top).unwrap_or(&path);
                let reason = "it is the store itself".to_owned();
                self.not_captured
                    .push(NotCaptured { path: ByteText::new(below.as_os_str().as_bytes()), reason });
                continue;
            }
            let metadata = fs::symlink_metadata(&path).map_err(StoreError::io("read", &path))?;
            let mut entry =
                Entry::new(FileName::new(found.file_name().into_vec())?, self.node(&path, &metadata)?);
            entry.mode = metadata.mode() & 0o7777;
            (entry.uid, entry.gid) = (metadata.uid(), metadata.gid());
            let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or_default();
            entry.mtime = Time { seconds: metadata.mtime(), nanoseconds };
            entries.push(entry);
        }
        objects::save(&Tree::new(entries)?, self.transaction)
    }

    fn node(&mut self, path: &Path, metadata: &Metadata) -> Result<Node> {
        let kind = metadata.file_type();
        let device = || (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        Ok(if kind.is_dir() {
            Node::Dir { tree: self.directory(path)? }
        } else if kind.is_symlink() {
            let target = fs::read_link(path).map_err(StoreError::io("read", path))?;
            Node::Symlink { target: ByteText::new(target.into_os_string().into_vec()) }
        } else if kind.is_fifo() {
            Node::Fifo
        } else if kind.is_socket() {
            Node::Socket
        } else if kind.is_char_device() {
            let (major, minor) = device();
            Node::Char { major, minor }
        } else if kind.is_block_device() {
            let (major, minor) = device();
            Node::Block { major, minor }
        } else {
            let content = put_file(self.transaction, path, self.progress)?;
            self.bytes += content.len;
            Node::File { size: content.len, content: Some(content) }
        })
    }
}
