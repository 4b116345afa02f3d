//! CRIU's images in the store: how they go in, how they come out, and what differs between two of them.
//!
//! CRIU writes a directory of files. Most are small and say what processes, files and sockets there were; the *pages files* are
//! large and hold the memory, and a *pagemap* beside each says which page of which address lies where in it. The store keeps
//! memory by address instead, as an extent map, so that a snapshot shares with its parent every page that did not change.
//!
//! * `ingest` takes a directory of images apart: memory into maps, everything else into blobs.
//! * `materialise` puts the same directory together again, byte for byte.
//! * `compare` says what differs between two snapshots, and needs no directory for it.
//!
//! Where such directories lie meanwhile, and who may read them, is not known here.

#![forbid(unsafe_code)]

mod assembled;
mod compare;
mod error;
mod ingest;
#[cfg(test)]
mod left_out_tests;
mod materialise;
mod pages;
#[cfg(test)]
mod real;
#[cfg(test)]
mod tests;

pub use compare::{Change, Changes, FileChange, MemoryChange, ProcessChange, compare};
pub use error::{ImageError, Result};
pub use ingest::{IngestStats, Ingested, ingest_images};
pub use materialise::lay_out;
