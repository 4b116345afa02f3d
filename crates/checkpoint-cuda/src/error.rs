//! What can go wrong between us and the driver.
//!
//! Rules of this module:
//! * Every error names the process and the call, and says what state the process was left in where it was possible to ask.
//! * "It may still happen" ([`CudaError::Hung`]) and "it is lost" ([`CudaError::Lost`]) are never mixed up with "it failed and
//!   nothing has changed" ([`CudaError::Call`]), because the caller has to act on the difference.
//! * The cause travels as `source` and is not repeated in the text, because the edge prints the chain.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::notes::Action;
use crate::state::State;

pub use base::Class;

/// The result of most calls here.
pub type Result<T, E = CudaError> = std::result::Result<T, E>;

/// An error of the GPU engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The operating system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// A verb: "open", "write" …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no driver.
    #[error("no NVIDIA driver: {detail}")]
    NoDriver {
        /// What was looked for, and what the loader said.
        detail: String,
    },
    /// The driver lacks the checkpoint calls.
    #[error("the NVIDIA driver{} has no {missing}", cuda_version.map(shown_version).unwrap_or_default())]
    TooOld {
        /// What it says of itself, as 1000 x major + 10 x minor.
        cuda_version: Option<u32>,
        /// The first call that it lacks.
        missing: String,
    },
    /// The worker could not be started.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The worker, or the `cuda-checkpoint` program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The worker ended or spoke nonsense in the middle of a call.
    #[error("the GPU worker failed during {action} of process {pid}: {detail}")]
    Worker {
        /// What was asked.
        action: Action,
        /// Of which process; 0 if of none.
        pid: i32,
        /// What was seen.
        detail: String,
    },
    /// The driver said no.
    #[error("the driver refused to {action} process {pid}: {name} ({code}){}", left(*state))]
    Call {
        /// What was asked.
        action: Action,
        /// Of which process.
        pid: i32,
        /// The driver's number (`CUresult`).
        code: i32,
        /// The driver's name for it.
        name: String,
        /// The state that the process was found in afterwards, if it could be asked.
        state: Option<State>,
    },
    /// A call did not end within its limit. It may still have its effect.
    #[error(
        "the driver did not {action} process {pid} within {} s; the worker {worker} is left waiting for it{}",
        limit.as_secs_f32(), left(*state)
    )]
    Hung {
        /// What was asked.
        action: Action,
        /// Of which process.
        pid: i32,
        /// The worker that was abandoned.
        worker: i32,
        /// The limit.
        limit: Duration,
        /// The state that the process was found in afterwards, if it answers.
        state: Option<State>,
    },
    /// The driver has given the process up.
    #[error("the GPU state of process {pid} is lost: the driver failed to {action} it")]
    Lost {
        /// What was being done.
        action: Action,
        /// To which process.
        pid: i32,
    },
    /// The driver can never restore this process again.
    #[error("the driver cannot restore process {pid} any more: {name} ({code})")]
    Wedged {
        /// Which process.
        pid: i32,
        /// The driver's number.
        code: i32,
        /// The driver's name for it.
        name: String,
    },
    /// The process stands still, so it could never be locked.
    #[error("process {pid} is frozen ({how}), so the driver cannot lock it")]
    Frozen {
        /// Which process.
        pid: i32,
        /// What holds it.
        how: String,
    },
    /// The process is no more.
    #[error("process {pid} has ended")]
    Ended {
        /// Which process.
        pid: i32,
    },
    /// The process is not in the state that the call needs.
    #[error("process {pid} is {state}, so it cannot be {}", done(*action))]
    WrongState {
        /// What was to be done.
        action: Action,
        /// To which process.
        pid: i32,
        /// What it is.
        state: State,
    },
    /// Another operation is at work on the process.
    #[error("process {pid} is in the hands of another operation")]
    Busy {
        /// Which process.
        pid: i32,
    },
    /// The driver lets only root do it, and nobody has installed the helper that may.
    #[error(
        "the driver does not let this user {action} process {pid}: {name} (800), and the helper `infinijup-gpu-helper` is not installed"
    )]
    NotPermitted {
        /// What was asked.
        action: Action,
        /// Of which process.
        pid: i32,
        /// The driver's name for it.
        name: String,
    },
    /// The helper did not do it.
    #[error("the helper `infinijup-gpu-helper` did not {action} process {pid}: {detail}")]
    Helper {
        /// What was asked.
        action: Action,
        /// Of which process.
        pid: i32,
        /// Its word.
        detail: String,
    },
    /// The GPU memory does not fit where it has to go.
    #[error("{needed} bytes of GPU memory do not fit into {place}, which has room for {available}")]
    NoRoom {
        /// Bytes to take in.
        needed: u64,
        /// Bytes free.
        available: u64,
        /// The machine's memory, or a cgroup.
        place: String,
    },
    /// This driver, or the way we reach it, cannot do that.
    #[error("this NVIDIA driver cannot {what}")]
    Unsupported {
        /// What was asked.
        what: String,
    },
    /// An argument that makes no sense.
    #[error("{what}")]
    Invalid {
        /// A sentence.
        what: String,
    },
    /// Whoever writes down what we do could not, so it was not done.
    #[error("{action} of process {pid} was not begun: {reason}")]
    Note {
        /// What was to be done.
        action: Action,
        /// To which process.
        pid: i32,
        /// Their word.
        reason: String,
    },
}

fn shown_version(version: u32) -> String {
    format!(" (CUDA {}.{})", version / 1000, version % 1000 / 10)
}

fn left(state: Option<State>) -> String {
    state.map(|state| format!("; it is {state}")).unwrap_or_default()
}

const fn done(action: Action) -> &'static str {
    match action {
        Action::State | Action::Thread => "asked",
        Action::Lock => "locked",
        Action::Checkpoint => "checkpointed",
        Action::Restore => "restored",
        Action::Unlock => "unlocked",
    }
}

impl CudaError {
    /// Attaches what was being done to an I/O error.
    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// The stable code, the name of a page under `docs/errors/`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "IJ-G001",
            Self::NoDriver { .. } => "IJ-G002",
            Self::TooOld { .. } => "IJ-G003",
            Self::Start { .. } => "IJ-G004",
            Self::Worker { .. } => "IJ-G005",
            Self::Call { .. } => "IJ-G010",
            Self::Hung { .. } => "IJ-G011",
            Self::Lost { .. } => "IJ-G012",
            Self::Wedged { .. } => "IJ-G013",
            Self::Frozen { .. } => "IJ-G014",
            Self::Ended { .. } => "IJ-G015",
            Self::WrongState { .. } => "IJ-G016",
            Self::Busy { .. } => "IJ-G017",
            Self::NotPermitted { .. } => "IJ-G018",
            Self::Helper { .. } => "IJ-G019",
            Self::NoRoom { .. } => "IJ-G020",
            Self::Unsupported { .. } => "IJ-G021",
            Self::Invalid { .. } => "IJ-G022",
            Self::Note { .. } => "IJ-G023",
        }
    }

    /// What kind of trouble this is.
    pub const fn class(&self) -> Class {
        match self {
            Self::Invalid { .. } => Class::Usage,
            Self::Frozen { .. } | Self::NoRoom { .. } | Self::Unsupported { .. } => Class::Refused,
            Self::Busy { .. } => Class::Conflict,
            _ => Class::Environment,
        }
    }

    /// The process that it is about.
    pub const fn pid(&self) -> Option<i32> {
        match self {
            Self::Worker { pid, .. }
            | Self::Call { pid, .. }
            | Self::Hung { pid, .. }
            | Self::Lost { pid, .. }
            | Self::Wedged { pid, .. }
            | Self::Frozen { pid, .. }
            | Self::Ended { pid }
            | Self::WrongState { pid, .. }
            | Self::Busy { pid }
            | Self::NotPermitted { pid, .. }
            | Self::Helper { pid, .. }
            | Self::Note { pid, .. } => Some(*pid),
            _ => None,
        }
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoDriver { .. } => "install the NVIDIA driver 570 or newer".to_owned(),
            Self::TooOld { .. } => {
                "checkpoints of GPU state need the NVIDIA driver 570 (CUDA 12.8) or newer".to_owned()
            }
            Self::Call { action: Action::Lock, code: 600, .. } => {
                "its GPU work did not come to an end in time: wait for it, or give the lock more time".to_owned()
            }
            Self::Call { code: 2, .. } => "free memory on the GPU, or restore on another one".to_owned(),
            Self::Call { code: 100 | 101, .. } => {
                "the GPUs are not those of the checkpoint: restore with a map of GPUs".to_owned()
            }
            Self::Call { action: Action::Restore, .. } => {
                "see that persistence mode is on (`nvidia-smi -pm 1`)".to_owned()
            }
            Self::Hung { .. } => {
                "the call may still have its effect; it is undone when it does. Do not kill the worker".to_owned()
            }
            Self::Lost { .. } => "restore the process from a snapshot".to_owned(),
            Self::Wedged { .. } => {
                "trying again cannot help: end the process and restore it from a snapshot".to_owned()
            }
            Self::Frozen { pid, .. } => format!("let it run first: see State in /proc/{pid}/status, and its cgroup"),
            Self::NotPermitted { .. } => {
                "an administrator can install it: `sudo infinijup setup-gpu` (docs/gpu-helper.md)".to_owned()
            }
            Self::NoRoom { .. } => {
                "a checkpoint moves GPU memory into the process's own memory: raise the limit, or free GPU memory".to_owned()
            }
            Self::Unsupported { .. } => {
                "restoring on another GPU needs driver 580, custom storage the driver of CUDA 13.4".to_owned()
            }
            _ => return None,
        };
        Some(hint)
    }
}
