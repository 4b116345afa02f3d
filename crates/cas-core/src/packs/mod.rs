//! Where packs are kept: the port that an object store can fill as well as a directory.
//!
//! A store is immutable packs and small things beside them. The small things (catalogue, refs, keyring, locks) belong to one
//! machine and are files of it. The packs are nearly all of the bytes, and all that is asked of whoever keeps them is
//! [`Packs`]: list, open and read, put a new one, remove. [`LocalPacks`], a directory, is the first that does it.
//!
//! # What an implementation promises
//!
//! * **Names.** A pack is called by its [`PackId`], the hash of its own footer, in which there is a random salt. Two packs of one
//!   name have the same content, and nobody asks for a name to be used again. What else lies in the same place (temporary
//!   files, things of other programs) is not listed and not touched.
//! * **Creation is atomic.** A pack is there whole or not at all: nobody lists or opens half of one, whatever dies in between.
//!   [`Packs::put_new`] never replaces a pack, but fails with [`std::io::ErrorKind::AlreadyExists`]: rename without replacing
//!   in a directory, a conditional put in an object store.
//! * **Durability.** When `put_new` returns `Ok`, the pack survives a power cut, and so does its name; the caller enters it into
//!   the catalogue next. When [`Packs::remove`] returns `Ok`, the packs do not come back after one; the caller may destroy
//!   their keys next. After an error either may have happened or not: the caller asks again, and removing what is not
//!   there is no error.
//! * **A pack that was put is seen**, by every `list` and `open` that begins after `put_new` has returned, in any process.
//! * **Lists are whole.** [`Packs::list`] names every pack or is an error. A list that leaves packs out would let a rebuild make
//!   a catalogue that has forgotten them, and let gc destroy their keys.
//! * **Reads may be short, never wrong.** A read returns bytes as they were put or an error. It may return fewer than were
//!   asked for; none at all only at the end. An open pack can be read until it is closed, or its reads fail, when it is
//!   removed meanwhile; they never return something else.
//! * **Trouble is not damage.** What cannot be read now (the disk fails, the network is down) is [`StoreError::Io`] with the
//!   place; what is not there is [`StoreError::MissingPack`]. Neither is ever an empty answer. Only what was read in full and
//!   is not what was written is called damaged, because on that word objects are given up, written anew, or salvaged.

mod local;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};
use crate::fsio::{self, ReadAt};
use crate::id::PackId;

pub use local::LocalPacks;

/// Whoever keeps the packs of a store. The module says what is promised.
pub trait Packs: Send + Sync + fmt::Debug {
    /// Every pack that is there, sorted.
    fn list(&self) -> Result<Vec<PackId>>;

    /// Opens a pack for reading. One that is not there is [`StoreError::MissingPack`].
    fn open(&self, pack: &PackId) -> Result<PackBytes>;

    /// Makes the file `staged` a pack. It lies in the store's directory for temporary files, is complete and durable, and is
    /// used up: after `Ok` it is not there any more, after an error it may be, and the caller removes it.
    fn put_new(&self, pack: &PackId, staged: &Path) -> Result<()>;

    /// Removes packs, for good. Returns how many of them were there.
    fn remove(&self, packs: &[PackId]) -> Result<u64>;
}

/// The bytes of one pack, opened. Reads by position, so it serves many threads.
#[derive(Debug)]
pub struct PackBytes {
    place: PathBuf,
    bytes: Box<dyn ReadAt>,
}

impl PackBytes {
    /// What `place`, which is for messages, holds.
    pub fn new(place: PathBuf, bytes: Box<dyn ReadAt>) -> Self {
        Self { place, bytes }
    }

    /// The bytes of a file that has not become a pack of a store, or that is looked at without one.
    pub fn of_file(path: &Path) -> Result<Self> {
        use crate::fsio::Disk;
        let bytes = fsio::LocalDisk.open(path).map_err(StoreError::io("open", path))?;
        Ok(Self::new(path.to_path_buf(), bytes))
    }

    /// Where it is, for messages.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// How many bytes there are.
    pub fn size(&self) -> Result<u64> {
        self.bytes.size().map_err(StoreError::io("read", &self.place))
    }

    /// Fills `buffer` from `offset` on. A pack that ends before that is damaged; whatever else is in the way is not.
    pub fn read_exact(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        match fsio::fill_at(self.bytes.as_ref(), buffer, offset) {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::damaged("pack", &self.place, "ends too early")),
            Err(error) => Err(StoreError::io("read", &self.place)(error)),
        }
    }
}
