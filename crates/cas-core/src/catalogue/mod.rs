//! The catalogue: which object lies where in which pack, in an SQLite database.
//!
//! Everything about objects here can be made again from the packs ([`Catalogue::bulk`]). Two things cannot, and need
//! not outlive a rebuild: the open write transactions with their pins, and the marks of a running gc. They are here because
//! several processes use a store at once and the database is where they meet.
//!
//! # How an object is found
//!
//! Ids are hashes, so neighbours in the table have nothing to do with each other and each insert touches a leaf page of
//! its own. What counts is therefore how few pages lie between the root and a leaf, and how many of those stay in a
//! small cache. In SQLite the inner pages of a table with a blob key hold whole rows (about 60 to a page), those of a
//! table with an integer key hold only integers (about 300). So the key of `objects` is an integer: the first eight
//! bytes of the id, in an encoding that keeps the order. The other 24 bytes are a column and are always compared.
//!
//! Two ids may begin with the same eight bytes: by chance once in thousands of stores of 10^8 objects, by malice after
//! some 2^32 hashes. The second one goes to the table `twins`, which has the whole id as its key, works the same in all
//! else, and is practically always empty. A lookup asks both.
//!
//! # What belongs to a pack
//!
//! Dropping a pack must not scan 10^8 rows, and an index over `objects.pack` would repeat every id. `contents` keeps a
//! pack's integer keys in one blob, eight bytes an object. It may name more than the pack still has (an object that
//! moved to another pack is not taken out), never less; the pack column decides.
//!
//! `packs` carries sums over the objects that the catalogue places in each pack. A copy of an object that also lies
//! in another pack is counted there only.
//!
//! # Durability and concurrency
//!
//! WAL with `synchronous=FULL`: a call that returned is on disk. One connection writes, guarded by a mutex and, against
//! other processes, by `BEGIN IMMEDIATE` with a timeout of a minute. Readers come from a small pool and never wait for
//! the writer. A connection on which anything failed is thrown away and opened anew by the next call. See
//! <https://www.sqlite.org/wal.html>.
//!
//! SQLite's locks are POSIX record locks, which a process loses when it closes *any* descriptor of the file. So nothing
//! in a process that has a catalogue open may open the same file by other means.

use std::fmt;
use std::path::Path;

use crate::error::Result;
use crate::id::{Kind, ObjectId, PackId};
use crate::pack::FooterRecord;
pub use crate::pack::PackClass;

mod bulk;
mod check;
mod connections;
mod files;
mod gc;
mod objects;
mod of_pack;
mod placing;
mod row;
mod schema;
mod staging;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_random;
mod writes;

pub use bulk::BulkLoad;
pub(crate) use files::{remove_companions, remove_database, remove_if_there};
pub use writes::WriteRow;

use connections::Connections;

/// The catalogue of one store. See the module documentation.
pub struct Catalogue {
    connections: Connections,
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalogue").field("path", &self.connections.path()).finish_non_exhaustive()
    }
}

/// A pack's number in this catalogue. Numbers are never used twice, but a rebuilt catalogue gives out new ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PackNo(pub u32);

/// A write transaction's number. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriteNo(pub i64);

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The pack.
    pub pack: PackNo,
    /// Which of the pack's entries.
    pub entry: u32,
    /// Where the entry begins in the pack's file.
    pub offset: u64,
    /// How long it is there.
    pub stored_len: u32,
    /// How long the object is.
    pub plain_len: u32,
    /// What the object is.
    pub kind: Kind,
}

/// An entry of a pack that is being added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// The object.
    pub id: ObjectId,
    /// Which of the pack's entries.
    pub entry: u32,
    /// Where the entry begins in the pack's file.
    pub offset: u64,
    /// How long it is there.
    pub stored_len: u32,
    /// How long the object is.
    pub plain_len: u32,
    /// What the object is.
    pub kind: Kind,
}

impl NewEntry {
    /// All entries of a pack, from what its footer says.
    pub(crate) fn list(records: &[FooterRecord]) -> Vec<Self> {
        let entry = |(n, record): (u32, &FooterRecord)| Self {
            id: record.entry.id,
            entry: n,
            offset: record.offset,
            stored_len: record.entry.stored_len,
            plain_len: record.entry.plain_len,
            kind: record.entry.kind,
        };
        (0u32..).zip(records).map(entry).collect()
    }
}

/// A pack that is being added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPack {
    /// Its name.
    pub id: PackId,
    /// What it holds.
    pub class: PackClass,
    /// The number of the key that sealed it.
    pub epoch: u32,
    /// The length of its file.
    pub file_len: u64,
}

/// A pack that is in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackRow {
    /// Its number.
    pub no: PackNo,
    /// Its name.
    pub id: PackId,
    /// What it holds.
    pub class: PackClass,
    /// The number of the key that sealed it.
    pub epoch: u32,
    /// The length of its file.
    pub file_len: u64,
    /// How many objects the catalogue places in it.
    pub objects: u32,
    /// Their stored length together.
    pub stored: u64,
    /// The gc generation that condemned it, if one did.
    pub condemned: Option<u64>,
}

/// Sums over the whole catalogue. Every object counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packs.
    pub packs: u64,
    /// Objects.
    pub objects: u64,
    /// Their length in packs.
    pub stored: u64,
    /// Their length.
    pub plain: u64,
}

impl Catalogue {
    /// Makes an empty catalogue. Something at `path` already is an error.
    pub fn create(path: &Path) -> Result<Self> {
        schema::create(path)?;
        Self::open(path)
    }

    /// Opens a catalogue. A file that is missing, of another program or damaged is an error, and is left as it is.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { connections: Connections::open(path)? })
    }

    /// Moves everything from the write-ahead log to the database file and empties the log.
    pub fn checkpoint(&self) -> Result<()> {
        self.connections.checkpoint()
    }

    /// Closes the catalogue so that its file can be renamed: if no other process has it open, all is in the one file.
    pub fn close(self) -> Result<()> {
        self.connections.checkpoint()
    }
}
