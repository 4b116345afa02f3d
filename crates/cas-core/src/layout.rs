//! Where things lie in a store, and the `format` file that says so.
//!
//! ```text
//! .infinijup/
//!   format               version, id, encryption: a text file, readable without decoding anything else
//!   keyring, keyring.bak keys of an encrypted store, twice
//!   catalogue.sqlite     which object is where (SQLite, WAL); can be made anew from the packs
//!   objects/ab/ID.pack   packs, by the first byte of their id
//!   objects/tmp/         packs being written: TOKEN-N.pack
//!   refs/threads/NAME    a moving name for a commit
//!   refs/tags/NAME       a fixed name for a commit
//!   locks/               one file per lock
//!   cache/               may be deleted at any time
//!   elsewhere            objects whose data is in another place: a text file
//! ```

use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};
use crate::fsio::{self, Disk, LocalDisk};
use crate::id::{PackId, hex};

/// The store format that this program writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

const FORMAT_LIMIT: u64 = 4096;

/// The paths of a store.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout below `root`, the `.infinijup` directory itself.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// The store's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The format file.
    pub fn format(&self) -> PathBuf {
        self.root.join("format")
    }

    /// The two copies of the keyring, the one that is read first in front.
    pub fn keyrings(&self) -> [PathBuf; 2] {
        [self.root.join("keyring"), self.root.join("keyring.bak")]
    }

    /// The catalogue.
    pub fn catalogue(&self) -> PathBuf {
        self.root.join("catalogue.sqlite")
    }

    /// All packs.
    pub fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    /// The directory of one pack. It is made for the first pack in it.
    pub fn pack_dir(&self, pack: &PackId) -> PathBuf {
        self.objects().join(hex(&pack.as_bytes()[..1]))
    }

    /// One pack.
    pub fn pack(&self, pack: &PackId) -> PathBuf {
        self.pack_dir(pack).join(format!("{pack}.pack"))
    }

    /// Packs being written.
    pub fn temporary(&self) -> PathBuf {
        self.objects().join("tmp")
    }

    /// Refs.
    pub fn refs(&self) -> PathBuf {
        self.root.join("refs")
    }

    /// A lock.
    pub fn lock(&self, name: &str) -> PathBuf {
        self.root.join("locks").join(name)
    }

    /// What may be deleted at any time.
    pub fn cache(&self, name: &str) -> PathBuf {
        self.root.join("cache").join(name)
    }

    /// Creates the directories of a new store, its root included.
    pub fn create(&self, disk: &dyn Disk) -> Result<()> {
        let mut directories = vec![self.root.clone(), self.objects(), self.temporary()];
        directories.extend([self.refs(), self.refs().join("threads"), self.refs().join("tags")]);
        directories.extend([self.root.join("locks"), self.root.join("cache"), self.cache("fingerprints")]);
        for directory in &directories {
            // Snapshots hold secrets by nature: nobody but the owner gets in.
            disk.create_dir(directory).map_err(StoreError::io("create directory", directory))?;
        }
        for directory in [&self.objects(), &self.refs(), &self.root] {
            disk.sync_dir(directory).map_err(StoreError::io("sync directory", directory))?;
        }
        Ok(())
    }
}

/// The content of the `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The store's format version.
    pub version: u32,
    /// A random name of the store.
    pub id: String,
    /// Whether objects are sealed.
    pub encrypted: bool,
}

const TITLE: &str = "infinijup store";
const CIPHER: &str = "xchacha20-poly1305";

impl Format {
    /// A new store's format.
    pub fn new(encrypted: bool) -> Result<Self> {
        Ok(Self { version: FORMAT_VERSION, id: fsio::random_name()?, encrypted })
    }

    /// The text of the file. The last line is a checksum of those before it.
    pub fn encode(&self) -> String {
        let cipher = if self.encrypted { CIPHER } else { "none" };
        let body = format!("{TITLE}\nversion {}\nid {}\nencryption {cipher}\n", self.version, self.id);
        let check = xxhash_rust::xxh3::xxh3_64(body.as_bytes());
        format!("{body}check {check:016x}\n")
    }

    /// Reads the file of a store. The version is looked at before anything else, so that a store of a newer program is
    /// called that and not damaged.
    pub fn read(layout: &Layout) -> Result<Self> {
        Self::read_from(&LocalDisk, layout)
    }

    /// The same from another disk.
    pub(crate) fn read_from(disk: &dyn Disk, layout: &Layout) -> Result<Self> {
        let path = layout.format();
        let content = fsio::read_small(disk, &path, FORMAT_LIMIT)?
            .ok_or_else(|| StoreError::NotAStore { path: layout.root().to_path_buf() })?;
        Self::parse(&content).map_err(|problem| match problem {
            FormatProblem::TooNew(found) => StoreError::FormatTooNew {
                path: layout.root().to_path_buf(),
                found,
                supported: FORMAT_VERSION,
            },
            FormatProblem::Damaged(detail) => StoreError::damaged("format file", &path, detail),
        })
    }

    /// Parses the text.
    pub fn parse(content: &[u8]) -> Result<Self, FormatProblem> {
        let damaged = |detail: &str| FormatProblem::Damaged(detail.to_owned());
        let text = std::str::from_utf8(content).map_err(|_| damaged("is not text"))?;
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(damaged("does not start with the store's title"));
        }
        let mut field = |name: &str| -> Option<&str> { lines.next()?.strip_prefix(name)?.strip_prefix(' ') };
        let version: u32 =
            field("version").and_then(|value| value.parse().ok()).ok_or_else(|| damaged("has no version"))?;
        if version > FORMAT_VERSION {
            return Err(FormatProblem::TooNew(version));
        }
        let id = field("id").ok_or_else(|| damaged("has no id"))?.to_owned();
        let encrypted = match field("encryption") {
            Some("none") => false,
            Some(CIPHER) => true,
            _ => return Err(damaged("names no known encryption")),
        };
        let format = Self { version, id, encrypted };
        if format.encode().as_bytes() == content {
            Ok(format)
        } else {
            Err(damaged("does not fit its checksum"))
        }
    }
}

/// Why a format file was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum FormatProblem {
    /// A newer version, given.
    TooNew(u32),
    /// A sentence.
    Damaged(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_round_trip_and_every_flipped_bit() {
        let format = Format::new(true).unwrap();
        let text = format.encode().into_bytes();
        assert_eq!(Format::parse(&text), Ok(format));
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut wrong = text.clone();
                wrong[at] ^= 1 << bit;
                assert!(Format::parse(&wrong).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_newer_version_is_called_that_even_if_the_rest_is_unknown() {
        assert_eq!(Format::parse(b"infinijup store\nversion 7\nwhatever\n"), Err(FormatProblem::TooNew(7)));
    }
}
