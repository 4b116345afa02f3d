//! CRIU's images in the store: how they go in, how they come out, and what differs between two of them.
//!
//! CRIU writes a directory of files. Most are small and say what processes, files and sockets there were; the *pages files* are
//! large and hold the memory, and a *pagemap* beside each says which page of which address lies where in it. The store keeps
//! memory by address instead, as an extent map, so that a snapshot shares with its parent every page that did not change.
//!
//! * `ingest` takes a directory of images apart: memory into maps, everything else into blobs.
//! * `materialise` puts the same directory together again, byte for byte.
//! * `skeleton` puts it together without most of the memory, and gives that straight from the store.
//! * `device` stores device memory that is beside the images while it comes, and `device_back` lays it out again.
//! * `moved` has the same images with other paths, `tied` says what of them is somebody else's, too.
//! * `processes` says who ran, and `compare` what differs between two snapshots, and needs no directory for it.
//!
//! Where such directories lie meanwhile, and who may read them, is not known here.

#![forbid(unsafe_code)]

mod assembled;
mod compare;
mod device;
mod device_back;
#[cfg(test)]
mod device_tests;
mod error;
mod held;
mod ingest;
#[cfg(test)]
mod left_out_tests;
mod materialise;
mod moved;
mod pages;
mod plain_memory;
mod processes;
#[cfg(test)]
mod real;
mod skeleton;
#[cfg(test)]
mod skeleton_tests;
#[cfg(test)]
mod tests;
mod tied;

pub use compare::{Change, Changes, FileChange, MemoryChange, ProcessChange, changed_files, compare};
pub use device::{DevicePart, Stored, Storing};
pub use device_back::lay_out_device_memory;
pub use error::{ImageError, Result};
pub use held::images_in_memory;
pub use ingest::{IngestStats, Ingested, ingest_images, stored_memory};
pub use materialise::lay_out;
pub use moved::{lay_out_moved, moved_files};
pub use processes::{Process, processes};
pub use skeleton::{MissingPages, Skeleton};
pub use tied::{closed_connections, why_not_twice};
