//! A directory for what is too large for memory while an archive is read or written. Nobody else may look into it, and it goes with us.
//!
//! Who is killed cannot take it away. So it is locked as long as its maker lives, and whoever makes the next one removes those that are not.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::io_error;
use checkpoint_archive::{ArchiveError, Blobs};
use rustix::fs::{FlockOperation, flock};

use crate::error::Result;

/// How they are called.
const PREFIX: &str = ".infinijup-archive-";

/// The directory.
#[derive(Debug)]
pub(super) struct Spool {
    root: PathBuf,
    /// Locked, and with that ours.
    _held: File,
}

impl Spool {
    /// A new one in `parent`.
    pub(super) fn new(parent: &Path) -> Result<Self> {
        sweep(parent);
        let root = parent.join(format!("{PREFIX}{}", cas_core::fsio::random_name()?));
        make(&root)?;
        let held = File::open(&root).map_err(io_error("open", &root))?;
        flock(&held, FlockOperation::NonBlockingLockExclusive).map_err(io_error("lock", &root))?;
        Ok(Self { root, _held: held })
    }

    /// A new directory in it.
    pub(super) fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        make(&path)?;
        Ok(path)
    }

    /// Where a file in it is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way but that of the disk.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Removes what was left by those who were killed. What cannot be removed is no reason not to go on.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_one
            && is_directory
            && let Ok(held) = File::open(entry.path())
            && flock(&held, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn make(path: &Path) -> Result<()> {
    Ok(DirBuilder::new().mode(0o700).create(path).map_err(io_error("create", path))?)
}

/// A file that was not there.
pub(super) fn create(path: &Path) -> Result<File, base::IoError> {
    File::options().write(true).create_new(true).mode(0o600).open(path).map_err(io_error("create", path))
}

/// The parts of an image, as files.
#[derive(Debug)]
pub(super) struct BlobFiles {
    directory: PathBuf,
    kept: BTreeMap<String, PathBuf>,
}

impl BlobFiles {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, kept: BTreeMap::new() }
    }
}

impl Blobs for BlobFiles {
    fn put(&mut self, name: &str, content: &mut dyn Read) -> Result<(), ArchiveError> {
        let path = self.directory.join(name);
        let mut file = create(&path)?;
        io::copy(content, &mut file).map_err(io_error("write", &path))?;
        self.kept.insert(name.to_owned(), path);
        Ok(())
    }

    fn open(&mut self, name: &str) -> Result<Box<dyn Read>, ArchiveError> {
        let path = self.kept.get(name).cloned().unwrap_or_else(|| self.directory.join(name));
        Ok(Box::new(File::open(&path).map_err(io_error("open", path))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_any_more_is_removed_by_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let (first, second) = (Spool::new(parent.path()).unwrap(), Spool::new(parent.path()).unwrap());
        assert!(first.root.is_dir() && second.root.is_dir(), "both live");
        let left = parent.path().join(format!("{PREFIX}left"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("pages-1.img"), b"x").unwrap();
        fs::write(parent.path().join(format!("{PREFIX}file")), b"x").unwrap();
        drop(second);
        let third = Spool::new(parent.path()).unwrap();
        assert!(!left.exists() && first.root.is_dir() && third.root.is_dir());
        drop((first, third));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "a file is none of ours");
    }
}
