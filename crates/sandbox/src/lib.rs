//! How a session's processes live.
//!
//! A session is a *box*: a process tree in a user namespace of the user who runs it, with PID, mount, IPC, UTS, time and (mostly)
//! network namespaces inside. Nothing here needs a right that its user does not have, and nothing in a box has one. This crate makes
//! boxes, looks into them and takes them down; it knows nothing of snapshots, except that everything is arranged so that CRIU,
//! run inside the same namespaces, can dump the tree of a box and restore it into a new one beside the original.
//!
//! Whatever needs another namespace or a life longer than the daemon's happens in the helper program `infinijup-box` ([`Program`]):
//! a fresh, single-threaded process can do all of it with safe system calls, where a fork of the daemon could not.
#![forbid(unsafe_code)]

pub mod bounded;
mod cgroup;
mod devices;
mod error;
mod exec;
mod filesystem;
mod forward;
mod keepname;
mod launch;
mod listening;
mod loopback;
mod mounts;
mod network;
mod pasta;
mod places;
pub mod process;
mod program;
mod reaper;
#[doc(hidden)]
pub mod roles;
mod signal;
mod spec;
mod time;
mod tmpfs;
mod unix;
mod user;

pub use cgroup::{Cgroup, Layout, Limits};
pub use devices::{DeviceNode, host_nodes, usable_nodes};
pub use error::{Class, Result, SandboxError};
pub use exec::{
    OUTPUT_LIMIT, count_from, exec_in, forget_notes_of_another_boot, inside, inside_directory,
    own_notes_runner, real_ids_runner,
};
pub use forward::{Forwarder, free_ports};
pub use keepname::{KEEPNAME, KEEPNAME_FILE};
pub use launch::{forget_exit, holders_of, launch, recorded_exit, root_of};
pub use loopback::{Loopback, Servers};
pub use mounts::leftover_mounts;
pub use pasta::Pasta;
pub use process::Signal;
pub use program::Program;
pub use reaper::{Ended, OrphanReaper};
pub use signal::signal_main;
pub use spec::{
    BOX_DIR, BoxSpec, Clocks, Commands, EXIT_FILE, Gate, Launched, Network, ROOT_PID, Resource, ResourceLimit,
};
pub use time::clocks_of;
pub use tmpfs::{pack_tmpfs, unpack_tmpfs};
pub use unix::{ForeignConnection, unix_connections};
pub use user::{User, as_user};
