//! Copying a directory with the user's rights, sharing blocks where the file system can.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};

use super::access::{self, Facts, open_below, reason};
use super::stage::{copy_range, for_each_extent};
use super::walk::{Seen, Walked};

/// What to do with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// It comes from elsewhere, or should not be there.
    No,
    /// If it fits.
    IfItFits,
    /// The processes need it.
    Always,
}

/// What was copied.
#[derive(Default, Debug)]
pub(super) struct Copied {
    /// Bytes that take room of their own.
    pub(super) bytes: u64,
    pub(super) left_out: Vec<(PathBuf, String)>,
}

/// Copies what was seen in `source` to `target`, which is empty. On the user's thread.
pub(super) fn copy_tree(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    walked: &Walked,
    max_bytes: u64,
    wanted: impl Fn(&Seen) -> Wanted,
) -> io::Result<Copied> {
    let mut copied = Copied { left_out: walked.left_out.clone(), ..Copied::default() };
    let mut names: HashMap<u64, &Path> = HashMap::new();
    for seen in &walked.seen {
        let path = &seen.path;
        let outcome = match seen.facts.kind {
            FileType::Directory => make_directory(target, path, &seen.facts),
            FileType::Symlink => copy_link(source, target, path),
            FileType::RegularFile => {
                let wanted = wanted(seen);
                let room = match wanted {
                    Wanted::No => continue,
                    Wanted::IfItFits => max_bytes.saturating_sub(copied.bytes),
                    Wanted::Always => u64::MAX,
                };
                match names.get(&seen.facts.ino) {
                    Some(first) => link(target, first, path),
                    None => match copy_file(source, target, path, room) {
                        Ok(Some(bytes)) => {
                            copied.bytes += bytes;
                            Ok(())
                        }
                        Ok(None) => Err(io::Error::other(format!("beyond the bound of {max_bytes} bytes"))),
                        Err(error) => Err(error),
                    },
                }
            }
            FileType::Fifo => make_fifo(target, path, &seen.facts),
            // A socket without the process behind it is nothing.
            FileType::Socket => continue,
            _ => Err(io::Error::other("is a device")),
        };
        match outcome {
            Ok(()) if seen.facts.is_file() && seen.facts.nlink > 1 => {
                names.entry(seen.facts.ino).or_insert(path);
            }
            Ok(()) => {}
            // No use in going on: every other file would meet the same.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                return Err(error);
            }
            Err(error) => copied.left_out.push((path.clone(), reason(&error))),
        }
    }
    Ok(copied)
}

/// The directory that a path is in, and its name there.
fn parent<'a>(
    base: BorrowedFd<'_>,
    path: &'a Path,
) -> io::Result<(std::os::fd::OwnedFd, &'a std::ffi::OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((open_below(base, above, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?, name))
}

fn make_directory(target: BorrowedFd<'_>, path: &Path, facts: &Facts) -> io::Result<()> {
    let (parent, name) = parent(target, path)?;
    access::make_directory(parent.as_fd(), name, facts.mode | 0o700).map(drop)
}

fn make_fifo(target: BorrowedFd<'_>, path: &Path, facts: &Facts) -> io::Result<()> {
    let (parent, name) = parent(target, path)?;
    Ok(rustix::fs::mkfifoat(parent, name, Mode::from_raw_mode(facts.mode & 0o777))?)
}

fn copy_link(source: BorrowedFd<'_>, target: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let (from, name) = parent(source, path)?;
    let text = rustix::fs::readlinkat(from, name, Vec::new())?;
    let (to, name) = parent(target, path)?;
    Ok(rustix::fs::symlinkat(text, to, name)?)
}

fn link(target: BorrowedFd<'_>, first: &Path, path: &Path) -> io::Result<()> {
    let (from, from_name) = parent(target, first)?;
    let (to, to_name) = parent(target, path)?;
    Ok(rustix::fs::linkat(from, from_name, to, to_name, AtFlags::empty())?)
}

/// Copies a file, unless that takes more than `room`; says how much it took.
fn copy_file(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    path: &Path,
    room: u64,
) -> io::Result<Option<u64>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let from: File = open_below(source, path, flags, Mode::empty())?.into();
    let facts = access::facts_of(&from)?;
    if !facts.is_file() {
        return Err(io::Error::other("is not a regular file any more"));
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let to: File = open_below(target, path, flags, Mode::RUSR | Mode::WUSR)?.into();
    let shared = rustix::fs::ioctl_ficlone(&to, &from).is_ok();
    if !shared && facts.allocated > room {
        let (parent, name) = parent(target, path)?;
        rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
        return Ok(None);
    }
    let bytes = if shared { 0 } else { copy_content(&from, &to, facts.size)? };
    rustix::fs::fchmod(&to, Mode::from_raw_mode(facts.mode & 0o777))?;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: facts.mtime.seconds, tv_nsec: facts.mtime.nanoseconds.into() },
    };
    rustix::fs::futimens(&to, &times)?;
    Ok(Some(bytes))
}

/// Copies all but the holes.
fn copy_content(from: &File, to: &File, size: u64) -> io::Result<u64> {
    to.set_len(size)?;
    let mut bytes = 0;
    for_each_extent(from, size, |at, len| {
        bytes += copy_range(from, at, to, at, len)?;
        Ok(())
    })?;
    Ok(bytes)
}

/// Whether a file begins like this.
pub(super) fn begins_with(file: &File, text: &[u8]) -> bool {
    let mut start = vec![0; text.len()];
    file.read_exact_at(&mut start, 0).is_ok() && start == text
}
