//! What the store must survive, tried out: being killed, a full disk, damaged files, and stores of older programs.
//!
//! The pieces that the tests share are here. [`model`] makes memory and files from two numbers, so that a test can say
//! what a snapshot must contain without having kept it. [`snapshot`] stores such content the way the layers above the
//! store do: an object of their own kind that lists what belongs together, committed to a ref. [`say`] is the line
//! protocol between a worker that is going to be killed and the test that kills it.
//!
//! What is *not* tested here: `kill -9` ends a process, not the kernel. What the process had written is still in the page
//! cache, so a missing `fsync` does not show. For that part the store's own tests with a disk that fails at every single
//! operation, and the order of syncs and renames in `cas_core::transaction`, have to vouch.
#![forbid(unsafe_code)]

pub mod model;
pub mod say;
pub mod snapshot;

use cas_core::crypto::Unlock;
use model::Model;

/// Where the history of a torture store begins: 3 MiB.
pub const FIRST_MODEL: Model = Model { line: 1, generation: 1, pages: 768 };

/// The passphrase with a number. Rotation goes from each to the next.
pub fn passphrase(number: u32) -> Unlock {
    Unlock::Passphrase(format!("passphrase {number}").into())
}
