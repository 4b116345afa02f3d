//! CRIU, the engine for process state, over its RPC.
//!
//! [`Criu`] finds the program and asks it for dumps and restores. Each call starts a worker (`criu swrk`) with one end of a socket
//! pair, sends one request, answers the worker's notifications through [`Hooks`], and ends with a result, CRIU's own evidence of a
//! failure, or a time limit. After each of these the state of the processes is defined, and told: [`TreeState`].
//!
//! [`images`] reads what a dump has written.
#![forbid(unsafe_code)]

mod call;
mod criu;
mod error;
mod evidence;
mod explain;
mod find;
mod hooks;
pub mod images;
mod kernel;
mod memory_path;
mod messages;
mod options;
mod process;
mod release;
mod worker;

pub use criu::{Criu, Dumped, Restored, Unfilled, Version};
pub use error::{Action, Class, CriuError, Result, TreeState};
pub use evidence::Evidence;
pub use explain::{Explanation, explain};
pub use hooks::{Event, Hooks, NoHooks};
pub use images::DumpStats;
pub use kernel::kernel_notes_of_host;
pub use memory_path::{
    ComingBack, Leaving, LeftOut, MapId, MemoryPath, Missing, Plain, TakePages, WayBack, WayOut,
};
pub use options::{DEFAULT_TIME_LIMIT, DumpOptions, Habitat, Leave, RestoreOptions, Runner, Surroundings};
pub use release::release;
