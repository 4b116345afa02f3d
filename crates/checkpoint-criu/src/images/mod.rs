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
mod opened;
mod read;
pub mod rewrite;
mod task;
mod whole;
mod without;

pub(crate) use crate::messages::files::FileFrame;
pub use crate::messages::files::{
    Fd, Fifo, FileSort, GhostFile, MemfdFile, MemfdInode, NamespaceFile, PidfdFile, Pipe, Pty, RegFile,
    Remap, RemapSort, SignalOwner, TtyFile, TtyInfo, TtySort,
};
pub(crate) use crate::messages::memory::PagemapHead;
pub use crate::messages::memory::{Mm, PagemapEntry, Vma};
pub use crate::messages::mounts::{FileSystem, Mountpoint};
pub(crate) use crate::messages::process::Stats;
pub use crate::messages::process::{
    Core, Credentials, DumpStats, Fs, IdMap, Ids, Inventory, Lsm, Plugins, PstreeEntry, Registers, Rlimit,
    Rlimits, Rseq, Seccomp, SeccompFilter, SeccompMode, TaskCore, TaskState, ThreadCore, ThreadInfo,
    UserNamespace,
};
pub use crate::messages::sockets::{InetSocket, Permissions, UnixSocket};
pub use files::{FileEntry, FileKind, Ghost};
pub use memory::Pagemap;
pub(crate) use opened::put_right;
pub(crate) use read::read_stats;
pub use read::{Images, check};
pub use whole::whole_pagemap;
pub use without::pagemap_without;
