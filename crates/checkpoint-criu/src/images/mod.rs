//! Readers for CRIU's images.
//!
//! An image file starts with one or two magic numbers: a common one, then the file's own. Entries follow, each a 32-bit length and
//! a protobuf message. Some files have raw data after an entry (ghost files) or a head of another type (pagemaps).
//!
//! Images may come from anybody: lengths are checked against what is there before anything is allocated, unknown fields are
//! skipped, nothing panics. That a message is well-formed says nothing about whether it may be restored: that is for the caller to
//! judge, and the readers show it all it needs.

mod entries;
mod fields;
mod files;
mod memory;
mod mounts;
mod read;
pub mod rewrite;
mod task;
mod whole;

pub use files::{
    Fd, Fifo, FileEntry, FileKind, Ghost, GhostFile, InetSocket, MemfdFile, MemfdInode, NamespaceFile,
    Permissions, PidfdFile, Pipe, Pty, RegFile, Remap, SignalOwner, TtyFile, TtyInfo, UnixSocket,
};
pub use memory::{Mm, Pagemap, PagemapEntry, Vma};
pub use mounts::Mountpoint;
pub(crate) use read::read_stats;
pub use read::{Images, check};
pub(crate) use task::Stats;
pub use task::{
    Core, Credentials, DumpStats, Fs, IdMap, Ids, Inventory, Plugins, PstreeEntry, Rlimit, Rlimits, Seccomp,
    SeccompFilter, TaskCore, ThreadCore, UserNamespace,
};
pub use whole::whole_pagemap;
