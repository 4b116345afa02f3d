//! The devices that a container has beyond those that every container has.
//!
//! They are looked for where its programs find them, in its `/dev`, and by their numbers: by then it does not matter who put them there, or under which
//! name.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// null, zero, full, random, urandom; tty, console, ptmx; tun and fuse.
const ORDINARY: [(u32, u32); 10] =
    [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2), (10, 200), (10, 229)];
/// The other ends of terminals.
const TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;
/// A `/dev` with more in it is that of a machine.
const MOST_ENTRIES: usize = 4096;

/// A device of the container with this first process that not every container has; `None` if there is none. What cannot be looked at is an error.
pub fn extraordinary(init: i32) -> io::Result<Option<PathBuf>> {
    let root = PathBuf::from(format!("/proc/{init}/root/dev"));
    let mut left = MOST_ENTRIES;
    below(&root, &mut left)
        .map(|found| found.map(|path| Path::new("/dev").join(path.strip_prefix(&root).unwrap_or(&path))))
}

fn below(directory: &Path, left: &mut usize) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        *left = left.checked_sub(1).ok_or_else(|| io::Error::other("there is too much in its /dev"))?;
        let kind = entry.file_type()?;
        let found = match kind.is_dir() {
            true => below(&entry.path(), left)?,
            false => (is_device(kind) && !is_ordinary(entry.metadata()?.rdev())).then(|| entry.path()),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn is_device(kind: FileType) -> bool {
    kind.is_char_device() || kind.is_block_device()
}

fn is_ordinary(device: u64) -> bool {
    ORDINARY.contains(&(major(device), minor(device))) || TERMINALS.contains(&major(device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    #[test]
    fn a_gpu_is_no_ordinary_device() {
        for (number, ordinary) in
            [((1, 3), true), ((136, 4), true), ((195, 0), false), ((226, 128), false), ((1, 1), false)]
        {
            assert_eq!(is_ordinary(makedev(number.0, number.1)), ordinary, "{number:?}");
        }
    }

    #[test]
    fn nothing_is_found_in_a_directory_of_files_and_no_more_is_read_than_that() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            fs::create_dir(directory.path().join(name)).unwrap();
            fs::write(directory.path().join(name).join("file"), "").unwrap();
        }
        assert_eq!(below(directory.path(), &mut 4).unwrap(), None);
        below(directory.path(), &mut 3).unwrap_err();
        assert_eq!(below(&directory.path().join("three"), &mut 0).unwrap(), None);
    }
}
