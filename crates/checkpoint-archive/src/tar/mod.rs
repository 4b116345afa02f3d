//! Tar files, read more strictly than tar does and written in the plainest way.
//!
//! A tar file is a row of blocks of 512 bytes: a header for each entry, then its content. What does not fit into a header (long names, large
//! numbers, extended attributes) stands in an entry of its own before it, in one of two dialects: POSIX's (pax, types `x` and `g`) and GNU's
//! (types `L` and `K`). Programs differ in which they believe where two say different things, and that difference is how an archive
//! shows one thing to a checker and another to whoever unpacks it. So what can be read in two ways is refused here: a record that is
//! not known, or there twice, two dialects for one entry, global records, sparse files, a header without a fitting checksum, anything
//! but zeros behind the end.

mod header;
mod pax;
mod reader;
mod writer;

pub use reader::TarReader;
pub use writer::TarWriter;

use crate::error::{ArchiveError, Result, shown};
use crate::limits::Limits;

/// A block.
pub(crate) const BLOCK: usize = 512;

/// What an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link to this, as it was written.
    Symlink(Vec<u8>),
    /// A second name of the file with this path.
    HardLink(Vec<u8>),
    /// A character device.
    Char(u32, u32),
    /// A block device.
    Block(u32, u32),
    /// A named pipe.
    Fifo,
}

impl Kind {
    /// For people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Directory => "a directory",
            Self::Symlink(_) => "a symbolic link",
            Self::HardLink(_) => "a hard link",
            Self::Char(..) | Self::Block(..) => "a device",
            Self::Fifo => "a named pipe",
        }
    }
}

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its path, as it was written.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Bytes of content, of a file.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds since 1970 and nanoseconds.
    pub mtime: (i64, u32),
    /// Extended attributes, sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Entry {
    /// A file of root's with nothing special about it.
    pub fn file(path: impl Into<Vec<u8>>, size: u64) -> Self {
        Self { size, ..Self::new(path, Kind::File, 0o600) }
    }

    /// The same for a directory.
    pub fn directory(path: impl Into<Vec<u8>>) -> Self {
        Self::new(path, Kind::Directory, 0o700)
    }

    /// An entry of root's without content.
    pub fn new(path: impl Into<Vec<u8>>, kind: Kind, mode: u32) -> Self {
        Self { path: path.into(), kind, size: 0, mode, uid: 0, gid: 0, mtime: (0, 0), xattrs: Vec::new() }
    }

    /// Its path in parts, none of which leads elsewhere; none at all for the directory that everything is in.
    pub fn parts(&self, limits: &Limits) -> Result<Vec<&[u8]>> {
        let directory = self.kind == Kind::Directory;
        parts(&self.path, directory, limits)
    }
}

/// A path in parts. One `./` before it, and for a directory one `/` behind it, are how tar writes paths and mean nothing.
pub fn parts<'a>(path: &'a [u8], directory: bool, limits: &Limits) -> Result<Vec<&'a [u8]>> {
    let bad = |why| Err(ArchiveError::Name { name: shown(path), why });
    if path.len() > limits.path {
        return bad("it is too long");
    }
    if path.contains(&0) {
        return bad("it has a NUL in it");
    }
    if path.starts_with(b"/") {
        return bad("it begins at the root directory");
    }
    let mut rest = path.strip_prefix(b"./").unwrap_or(path);
    if directory {
        rest = rest.strip_suffix(b"/").unwrap_or(rest);
        if matches!(rest, b"" | b".") && !path.is_empty() {
            return Ok(Vec::new());
        }
    }
    let parts: Vec<&[u8]> = rest.split(|byte| *byte == b'/').collect();
    if parts.contains(&&b".."[..]) {
        return bad("it leads out of where it is");
    }
    if parts.iter().any(|part| matches!(*part, b"" | b".")) {
        return bad("it has a part without a name");
    }
    if parts.len() > limits.depth {
        return bad("it is too deep");
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_where_they_are() {
        let limits = Limits { path: 20, depth: 3, ..Limits::default() };
        let good = |path: &str, directory| -> Vec<String> {
            let parts = parts(path.as_bytes(), directory, &limits).unwrap();
            parts.into_iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect()
        };
        assert_eq!(good("a", false), ["a"]);
        assert_eq!(good("./a/b", false), ["a", "b"]);
        assert_eq!(good("a/b/", true), ["a", "b"]);
        assert_eq!(good("..a/b..", false), ["..a", "b.."]);
        assert!(good("./", true).is_empty() && good(".", true).is_empty());
        for bad in [
            "",
            ".",
            "./",
            "..",
            "../a",
            "a/../b",
            "a/..",
            "./../a",
            "/a",
            "//a",
            "a//b",
            "a/./b",
            "././a",
            "a/",
            "a\0b",
            "a/b/c/d",
            "aaaaaaaaaaaaaaaaaaaaaaaa",
        ] {
            let error = parts(bad.as_bytes(), false, &limits).unwrap_err();
            assert_eq!(error.code(), "IJ-A021", "{bad:?}");
        }
        for bad in ["", "/", "..", "../", "a//", "a/../"] {
            assert_eq!(parts(bad.as_bytes(), true, &limits).unwrap_err().code(), "IJ-A021", "{bad:?}");
        }
    }
}
