//! Stable copies, taken during the freeze.
//!
//! Where the file system can share blocks between files, a copy is an unnamed file beside the original that shares all of
//! them. Elsewhere the bytes go to the end of one staging file, which has no name either: whatever happens to the daemon,
//! nothing is left behind. Holes are left out and remembered.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

/// Files below this size are quicker copied than shared.
const SHARED_FROM: u64 = 256 << 10;
/// Each shared copy is an open file until it is in the store.
const MAX_SHARED: usize = 200;
/// What is left free in staging.
const RESERVE: u64 = 64 << 20;
const BUFFER: usize = 1 << 20;

/// The staging file.
#[derive(Debug)]
pub(crate) struct Stage {
    file: File,
    used: u64,
    room: u64,
    shared: usize,
}

/// A stable copy of one file.
#[derive(Debug)]
pub(crate) enum Staged {
    /// Shares its blocks with the original.
    Shared(File),
    /// Pieces of the staging file: where they belong, how long they are, where they are.
    Pieces { size: u64, pieces: Vec<Piece> },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    at: u64,
    len: u64,
    staged: u64,
}

impl Stage {
    /// In a directory of ours.
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file: File = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)?.into();
        let space = rustix::fs::fstatvfs(&file)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        Ok(Self { file, used: 0, room: free.saturating_sub(RESERVE), shared: 0 })
    }

    /// Copies a file that has `size` bytes, of which `allocated` are on disk.
    pub(crate) fn copy(&mut self, source: &File, size: u64, allocated: u64) -> io::Result<Staged> {
        if size >= SHARED_FROM
            && self.shared < MAX_SHARED
            && let Some(copy) = share(source)
        {
            self.shared += 1;
            return Ok(Staged::Shared(copy));
        }
        let left = self.room.saturating_sub(self.used);
        if allocated.min(size) > left {
            return Err(io::Error::other(format!("has {size} bytes, staging has room for {left}")));
        }
        let mut pieces = Vec::new();
        let mut staged = self.used;
        for_each_extent(source, size, |at, len| {
            let len = copy_range(source, at, &self.file, staged, len)?;
            pieces.push(Piece { at, len, staged });
            staged += len;
            Ok(())
        })?;
        self.used = staged;
        Ok(Staged::Pieces { size, pieces })
    }

    /// Reads a copy front to back.
    pub(crate) fn reader<'a>(&'a self, staged: &'a Staged) -> Reader<'a> {
        Reader { stage: &self.file, staged, at: 0, piece: 0 }
    }
}

/// An unnamed file with the same blocks, in a directory that the user can write to anyway: that of the file.
fn share(source: &File) -> Option<File> {
    // The directory is found through the handle, not by name. If it is gone or closed to the user, we copy.
    let link = format!("/proc/thread-self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(source));
    let name = std::fs::read_link(link).ok()?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let copy = rustix::fs::open(name.parent()?, flags, Mode::RUSR | Mode::WUSR).ok()?;
    rustix::fs::ioctl_ficlone(&copy, source).ok()?;
    Some(copy.into())
}

/// Calls with each range of a file that has data.
pub(crate) fn for_each_extent(
    source: &File,
    size: u64,
    mut each: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => return Ok(()),
            // This file system does not tell: everything is data.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return each(at, size - at),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(start))?.min(size);
        if start >= size || end <= start {
            return Ok(());
        }
        each(start, end - start)?;
        at = end;
    }
    Ok(())
}

/// Copies a range, in the kernel where it can. Says how much there was: a file can become shorter meanwhile.
pub(crate) fn copy_range(source: &File, from: u64, target: &File, to: u64, len: u64) -> io::Result<u64> {
    let mut done = 0;
    while done < len {
        let (mut source_at, mut target_at) = (from + done, to + done);
        let count = usize::try_from(len - done).unwrap_or(usize::MAX).min(1 << 30);
        let copied = rustix::fs::copy_file_range(
            source.as_fd(),
            Some(&mut source_at),
            target.as_fd(),
            Some(&mut target_at),
            count,
        );
        match copied {
            Ok(0) => return Ok(done),
            Ok(count) => done += count as u64,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::BADF) => {
                return copy_by_hand(source, from, target, to, len, done);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

fn copy_by_hand(
    source: &File,
    from: u64,
    target: &File,
    to: u64,
    len: u64,
    mut done: u64,
) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER];
    while done < len {
        let count = usize::try_from(len - done).unwrap_or(BUFFER).min(BUFFER);
        let count = match source.read_at(buffer.get_mut(..count).unwrap_or_default(), from + done) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        target.write_all_at(buffer.get(..count).unwrap_or_default(), to + done)?;
        done += count as u64;
    }
    Ok(done)
}

/// Reads a copy, holes as zeros.
pub(crate) struct Reader<'a> {
    stage: &'a File,
    staged: &'a Staged,
    at: u64,
    piece: usize,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (size, pieces) = match self.staged {
            Staged::Shared(file) => {
                let count = file.read_at(buffer, self.at)?;
                self.at += count as u64;
                return Ok(count);
            }
            Staged::Pieces { size, pieces } => (*size, pieces),
        };
        while pieces.get(self.piece).is_some_and(|piece| piece.at + piece.len <= self.at) {
            self.piece += 1;
        }
        let room = |until: u64| usize::try_from(until - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let count = match pieces.get(self.piece) {
            Some(piece) if piece.at <= self.at => {
                let count = room(piece.at + piece.len);
                let into = buffer.get_mut(..count).unwrap_or_default();
                self.stage.read_at(into, piece.staged + (self.at - piece.at))?
            }
            next => {
                let count = room(next.map_or(size, |piece| piece.at).max(self.at));
                buffer.get_mut(..count).unwrap_or_default().fill(0);
                count
            }
        };
        self.at += count as u64;
        Ok(count)
    }
}
