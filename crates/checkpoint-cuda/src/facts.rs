//! What is known and told of the driver, of processes and of workers.

use serde::{Deserialize, Serialize};

use crate::error::CudaError;
use crate::state::State;

/// How the driver is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// By the functions of its library.
    Api,
    /// By the program `cuda-checkpoint`.
    Tool,
}

/// What this driver can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Capabilities {
    /// How it is reached.
    pub backend: Backend,
    /// The newest CUDA that the driver knows, as 1000 x major + 10 x minor; 0 if it was not found out.
    pub cuda_version: u32,
    /// Can processes be restored on other GPUs?
    pub pairs: bool,
    /// Can device memory be copied elsewhere than into the process?
    pub custom_storage: bool,
}

/// A process to work on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// Its id, or that of one of its threads.
    pub pid: i32,
    /// How much device memory it has: decides the limits, and whether there is room.
    pub vram_bytes: u64,
}

/// A process that has CUDA in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CudaProcess {
    /// Its id.
    pub pid: i32,
    /// The thread that does the driver's work in it.
    pub restore_tid: i32,
    /// What it is.
    pub state: State,
}

/// What became of a process that was to be brought back to RUNNING.
#[derive(Debug)]
pub struct Brought {
    /// Its id.
    pub pid: i32,
    /// What it was; `None` if it could not be asked, or has no CUDA in it.
    pub was: Option<State>,
    /// What it is now.
    pub now: Option<State>,
    /// Why it is not RUNNING.
    pub error: Option<CudaError>,
}

/// A worker that was given up because a call took too long. It ends by itself when the call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abandoned {
    /// Its process id.
    pub pid: i32,
    /// When it started, to tell it from a later process with its number (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
}
