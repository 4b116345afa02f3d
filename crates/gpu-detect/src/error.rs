//! What can go wrong while looking.
//!
//! A process that cannot be read is an error only when it was asked for by name; in a look at many it is a row of
//! [`Report::unreadable`](crate::Report). A machine without a driver is no trouble for `/proc`, only for NVML.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use base::Class;

/// The result of most calls here.
pub type Result<T, E = DetectError> = std::result::Result<T, E>;

/// An error of GPU detection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetectError {
    /// There is no NVIDIA driver here.
    #[error("no NVIDIA driver on this machine: {detail}")]
    NoDriver {
        /// What was looked for.
        detail: String,
    },
    /// This system has neither `/proc` nor NVML as we read them.
    #[error("cannot look for GPU use on {system}")]
    NotSupported {
        /// The operating system.
        system: &'static str,
    },
    /// NVML refused a question without whose answer there is no picture of the machine.
    #[error("the NVIDIA driver cannot answer {call}: {detail}")]
    Nvml {
        /// The question, in NVML's word.
        call: &'static str,
        /// NVML's own words.
        detail: String,
    },
    /// NVML did not answer in time.
    #[error("the NVIDIA driver did not answer within {} s", limit.as_secs_f32())]
    Hung {
        /// The limit.
        limit: Duration,
    },
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its number.
        pid: i32,
    },
    /// The process belongs to someone else.
    #[error("may not read `{}` of process {pid}", path.display())]
    Denied {
        /// Its number.
        pid: i32,
        /// What of it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The operating system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// A verb: "open", "read" …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl DetectError {
    /// Attaches what was being done to an I/O error.
    #[cfg(target_os = "linux")]
    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<std::path::Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// What a failure to read something of a process means.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_process(pid: i32, path: PathBuf, source: io::Error) -> Self {
        // A process that has ended answers "no such process" to those who still have its directory open.
        const ESRCH: i32 = 3;
        match source.kind() {
            io::ErrorKind::NotFound => Self::NoProcess { pid },
            io::ErrorKind::PermissionDenied => Self::Denied { pid, path, source },
            _ if source.raw_os_error() == Some(ESRCH) => Self::NoProcess { pid },
            _ => Self::Io { action: "read", path, source },
        }
    }

    /// The stable code, the name of a page under `docs/errors/`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoDriver { .. } => "IJ-P001",
            Self::NotSupported { .. } => "IJ-P002",
            Self::Nvml { .. } => "IJ-P003",
            Self::Hung { .. } => "IJ-P004",
            Self::NoProcess { .. } => "IJ-P010",
            Self::Denied { .. } => "IJ-P011",
            Self::Io { .. } => "IJ-P012",
        }
    }

    /// What kind of trouble this is.
    pub const fn class(&self) -> Class {
        match self {
            Self::NoProcess { .. } => Class::Usage,
            _ => Class::Environment,
        }
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoDriver { .. } => {
                "install NVIDIA's driver 570 or newer; without one there is no GPU state to look for"
            }
            Self::NotSupported { .. } => "run it on the Linux machine that has the GPU",
            Self::Nvml { .. } => {
                "compare with `nvidia-smi`: after an update of the driver the machine must be restarted"
            }
            Self::Hung { .. } => "a GPU may have fallen off the bus: look for `Xid` in `dmesg`",
            Self::Denied { .. } => "run it as the owner of the process, or as root",
            Self::NoProcess { .. } | Self::Io { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
