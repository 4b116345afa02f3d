//! The past as a folder: every snapshot of a store as a directory, read-only, by FUSE and without root.
//!
//! ```text
//! snapshots/2026-11-17_23-41-05_3f9a01c2b0d4/    one directory for each snapshot
//!     workspace/                                 the files that belong to it
//!     outside/                                   those that were elsewhere, by their full paths
//!     notebook.ipynb, variables.json             if it has them
//!     processes.json                             who ran
//!     memory/PID/START-END                       what was in their memory, by mapping
//! threads/NAME/…, tags/NAME                      links to the same, by session and by name
//! ```
//!
//! Nothing is read before somebody asks for it: a directory is one object of the store, a file is read piece by piece. What is below a snapshot
//! never changes, so the kernel may keep what it has seen; what a thread or a tag leads to is looked up again after a second.
//!
//! | file | what it knows |
//! |---|---|
//! | `index` | which snapshots there are, and what they are called |
//! | `shown` | one snapshot: what its directory has |
//! | `node` | what a name leads to, and what a directory lists |
//! | `content` | the bytes of a file, from any place in it |
//! | `inodes` | the numbers that the kernel knows nodes by |
//! | `serve` | the kernel's requests, and their answers |

#![forbid(unsafe_code)]

mod content;
mod error;
mod index;
mod inodes;
mod node;
mod serve;
mod shown;

pub use error::{PastError, Result};
pub use serve::{Complain, Mounted, mount};
