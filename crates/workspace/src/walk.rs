//! Walking a directory with the user's rights.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags};

use super::access::{Facts, facts_at, facts_of, open_below, reason};
use super::listing::MAX_DEPTH;
use super::patterns::Patterns;

/// More names than this are no working directory.
pub(crate) const MAX_NAMES: usize = 1_000_000;

/// Directories that are never looked into, by their paths below the one that is walked through.
#[derive(Clone, Default, Debug)]
pub(crate) struct Skipped(pub(crate) Vec<PathBuf>);

/// What is found below a directory.
#[derive(Debug)]
pub(crate) struct Seen {
    /// From the directory.
    pub(crate) path: PathBuf,
    pub(crate) facts: Facts,
}

/// What a walk found.
#[derive(Default, Debug)]
pub(crate) struct Walked {
    /// In order: a directory comes before what is in it.
    pub(crate) seen: Vec<Seen>,
    /// What was not looked into, and why.
    pub(crate) left_out: Vec<(PathBuf, String)>,
}

/// Everything below `root` that is wanted. Stays on one file system and follows no link.
pub(crate) fn walk(root: BorrowedFd<'_>, patterns: &Patterns, skipped: &Skipped) -> io::Result<Walked> {
    walk_some(root, patterns, skipped, MAX_NAMES)
}

/// The same, no more than so many names.
pub(crate) fn walk_some(
    root: BorrowedFd<'_>,
    patterns: &Patterns,
    skipped: &Skipped,
    names_limit: usize,
) -> io::Result<Walked> {
    let mut walked = Walked::default();
    let device = facts_of(root)?.device;
    let start = open_below(root, Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    // Directories that are open: as many as the path is deep, each with the names that are left.
    let mut open: Vec<(OwnedFd, PathBuf, Vec<Vec<u8>>)> = vec![names(start, PathBuf::new())?];
    while let Some((handle, directory, rest)) = open.last_mut() {
        let Some(name) = rest.pop() else {
            open.pop();
            continue;
        };
        let name = OsStr::from_bytes(&name);
        let path = directory.join(name);
        // Our own store is never part of a snapshot.
        if name == ".infinijup" || skipped.0.contains(&path) {
            continue;
        }
        if walked.seen.len() >= names_limit {
            walked
                .left_out
                .push((path, format!("beyond {names_limit} names, as is all that comes after it")));
            break;
        }
        let facts = match facts_at(handle.as_fd(), name) {
            Ok(facts) => facts,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                walked.left_out.push((path, reason(&error)));
                continue;
            }
        };
        if patterns.excludes(&path, facts.is_dir()) {
            walked.left_out.push((path, "excluded by a pattern".to_owned()));
            continue;
        }
        if !facts.is_dir() {
            if patterns.includes(&path) {
                walked.seen.push(Seen { path, facts });
            }
            continue;
        }
        let refusal = if facts.device != device {
            Some("another file system is mounted there".to_owned())
        } else if open.len() > MAX_DEPTH {
            Some("nested too deeply".to_owned())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            walked.left_out.push((path, refusal));
            continue;
        }
        // `open` was only borrowed for the handle.
        let Some((handle, ..)) = open.last() else { break };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let below = open_below(handle.as_fd(), Path::new(name), flags, Mode::empty());
        match below.and_then(|below| names(below, path.clone())) {
            Ok(level) => {
                walked.seen.push(Seen { path, facts });
                open.push(level);
            }
            Err(error) => walked.left_out.push((path, reason(&error))),
        }
    }
    Ok(walked)
}

/// The names in a directory, last one first.
fn names(handle: OwnedFd, path: PathBuf) -> io::Result<(OwnedFd, PathBuf, Vec<Vec<u8>>)> {
    let mut names = Vec::new();
    for item in Dir::read_from(&handle)? {
        let name = item?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort_unstable_by(|one, other| other.cmp(one));
    Ok((handle, path, names))
}
