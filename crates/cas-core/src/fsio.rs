//! The few file operations that a store rests on, behind a trait so that tests can make each of them fail.
//!
//! Rules that every caller here keeps:
//! * new content goes to a temporary name that nobody else can have, is synced, and only then gets its real name;
//! * a real name is never overwritten, except for the small files whose replacement *is* the commit (refs, keyring,
//!   format), and those are replaced by rename;
//! * a rename counts as done after the directory was synced;
//! * a read that fails, or that returns less than there is, is an error, and never taken for the end of a file.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags};

use crate::error::{Result, StoreError};
use crate::id::hex;

/// The operating system's file operations, as far as a store needs them.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates a file that must not exist yet, readable by its owner alone.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes a directory that its owner alone gets into. It is no error if there is one already.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a name that must be free.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a name, replacing what had it.
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>>;
    /// What is in a directory, in any order: all of it, or an error.
    fn list(&self, path: &Path) -> io::Result<Vec<Listed>>;
}

/// A file being written.
pub trait DiskFile: Send {
    /// Writes some of `bytes` and says how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// Bytes that can be read at any position, by several threads at a time.
pub trait ReadAt: Send + Sync + fmt::Debug {
    /// How many there are.
    fn size(&self) -> io::Result<u64>;
    /// Reads some of the bytes from `offset` on and says how many; none only at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// Something in a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name.
    pub name: OsString,
    /// Whether it is a directory itself.
    pub is_dir: bool,
}

/// The real thing.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(LocalFile(file)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(File::open(path)?))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Listed>> {
        fs::read_dir(path)?
            .map(|entry| {
                let entry = entry?;
                Ok(Listed { name: entry.file_name(), is_dir: entry.file_type()?.is_dir() })
            })
            .collect()
    }
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

struct LocalFile(File);

impl DiskFile for LocalFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Writes all of `bytes`, however short the single writes are.
pub fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills `buffer` from `offset` on, however short the single reads are. `false`: the bytes end before that, by their own size.
/// A read that returns nothing where there should be something is an error: what it could not give is not lost.
pub fn fill_at(bytes: &dyn ReadAt, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match bytes.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) if bytes.size()? < offset.saturating_add(buffer.len() as u64) => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// 128 random bits as hex: a name that nobody else has.
pub fn random_name() -> Result<String> {
    Ok(hex(&random_bytes::<16>()?))
}

/// Random bytes from the operating system.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

/// The same in place, for secrets that should not be copied about.
pub(crate) fn fill_random(buffer: &mut [u8]) -> Result<()> {
    getrandom::fill(buffer).map_err(|error| StoreError::NoEntropy { detail: error.to_string() })
}

/// Replaces the small file `path` by `content` so that a crash leaves the old or the new content, never a mixture.
/// The temporary file is made in the same directory. Durable when this returns.
pub fn replace(disk: &dyn Disk, path: &Path, content: &[u8]) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let temporary = directory.join(format!(".tmp-{}", random_name()?));
    let attempt = (|| {
        let mut file = disk.create(&temporary).map_err(StoreError::io("create", &temporary))?;
        write_all(file.as_mut(), content).map_err(StoreError::io("write", &temporary))?;
        file.sync().map_err(StoreError::io("sync", &temporary))?;
        disk.rename_over(&temporary, path).map_err(StoreError::io("replace", path))
    })();
    if attempt.is_err() {
        // Nothing depends on the temporary file; a removal that fails too leaves litter, not damage.
        let _ = disk.remove(&temporary);
        return attempt;
    }
    disk.sync_dir(directory).map_err(StoreError::io("sync directory", directory))
}

/// Reads a small file whole; `None` if there is none. `limit` bounds what a damaged store can make us read.
pub fn read_small(disk: &dyn Disk, path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("open", path)(error)),
    };
    let content = read_up_to(file.as_ref(), limit + 1).map_err(StoreError::io("read", path))?;
    if content.len() as u64 > limit {
        return Err(StoreError::damaged("file", path, format!("is longer than {limit} bytes")));
    }
    Ok(Some(content))
}

/// The first `most` bytes, or all if there are fewer. What is allocated follows what was read, not what was announced.
fn read_up_to(bytes: &dyn ReadAt, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut piece = vec![0; 1 << 14];
    while (content.len() as u64) < most {
        match bytes.read_at(&mut piece, content.len() as u64) {
            Ok(0) if bytes.size()? > content.len() as u64 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(0) => break,
            Ok(read) => content.extend_from_slice(piece.get(..read).unwrap_or(&piece)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replace_leaves_no_litter_and_the_new_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ref");
        replace(&LocalDisk, &path, b"one").unwrap();
        replace(&LocalDisk, &path, b"two").unwrap();
        assert_eq!(read_small(&LocalDisk, &path, 10).unwrap().unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_name_in_use_is_never_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&a, b"a").unwrap();
        fs::write(&b, b"b").unwrap();
        assert_eq!(LocalDisk.rename_new(&a, &b).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&b).unwrap(), b"b");
    }

    #[test]
    fn a_file_over_its_limit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        fs::write(&path, [0; 11]).unwrap();
        assert!(matches!(read_small(&LocalDisk, &path, 10), Err(StoreError::Damaged { .. })));
        assert!(read_small(&LocalDisk, &dir.path().join("none"), 10).unwrap().is_none());
    }
}
