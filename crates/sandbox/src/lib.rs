//! How a session's processes live.
//!
//! A session is a *box*: a process tree with a PID, mount, IPC and (mostly) network namespace of its own, which sees the
//! machine's files through a private bind of `/` and runs as the user who asked for it. This crate makes boxes, looks into them
//! and takes them down; it knows nothing of snapshots, except that everything is arranged so that CRIU can dump a box and restore
//! it beside the original.
//!
//! Whatever needs another namespace, other credentials or a life longer than the daemon's happens in the helper program
//! `infinijup-box` ([`Program`]): a fresh, single-threaded process can do all of it with safe system calls, where a fork of the daemon
//! could not.
#![forbid(unsafe_code)]

mod cgroup;
mod devices;
mod error;
mod exec;
mod filesystem;
mod forward;
mod launch;
mod mounts;
mod network;
mod pasta;
pub mod process;
mod program;
mod reaper;
#[doc(hidden)]
pub mod roles;
mod signal;
mod spec;
mod unix;
mod user;

pub use cgroup::{Cgroup, Layout, Limits};
pub use devices::{DeviceNode, host_nodes, host_nodes_for, settle_devices};
pub use error::{Class, Result, SandboxError};
pub use exec::{OUTPUT_LIMIT, exec_in, forget_notes_of_another_boot, real_ids_runner, real_ids_runner_here};
pub use forward::{Forwarder, free_ports};
pub use launch::{forget_exit, launch, recorded_exit};
pub use mounts::{Root, leftover_mounts, unmount_all};
pub use network::NetworkNamespace;
pub use pasta::Pasta;
pub use process::Signal;
pub use program::Program;
pub use reaper::{Ended, OrphanReaper};
pub use signal::signal_main;
pub use spec::{BOX_DIR, BoxMount, BoxSpec, EXIT_FILE, Launched, Network, Resource, ResourceLimit};
pub use unix::{ForeignConnection, unix_connections};
pub use user::{User, as_user};
