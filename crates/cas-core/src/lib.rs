//! The store that everything else trusts: content-addressed, append-only, crash-safe.
//!
//! Bytes go in through a [`WriteTransaction`] and come back by [`ObjectId`]. Small things are objects themselves; files are
//! cut into chunks ([`blob`]); process memory is an extent map ([`memory`]). Names for objects are [`refs`]. What no
//! ref leads to is collected by [`gc`]. The crate knows nothing of notebooks, processes or snapshots: the layers above
//! say what their objects refer to.
//!
//! `docs/format.md` describes the bytes on disk.
#![forbid(unsafe_code)]

pub mod archive;
pub mod beyond;
pub mod blob;
mod carry;
pub mod catalogue;
mod codec;
pub mod crypto;
pub mod elsewhere;
pub mod error;
pub mod fsio;
pub mod gc;
pub mod id;
mod keys;
pub mod layout;
pub mod let_go;
mod lock;
pub mod memory;
pub mod pack;
pub mod packs;
mod parallel;
pub mod parcel;
pub mod progress;
pub mod reach;
mod rebuild;
mod recover;
pub mod refs;
mod store;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transaction;
mod varint;
pub mod verify;
mod whole;

pub use codec::{LEVEL, MAX_OBJECT};
pub use error::{Class, Result, StoreError};
pub use id::{IdHasher, Kind, ObjectId, PackId};
pub use rebuild::{RebuildReport, rebuild, rebuild_from};
pub use recover::Recovered;
pub use store::{Encryption, OpenOptions, ReadContext, Store, Trust};
pub use transaction::{WriteStats, WriteTransaction};
