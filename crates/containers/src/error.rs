//! What can go wrong while containers are looked for and at. The rules are those of `cas_core::error`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use base::{Class, IoError};

/// The usual result here.
pub type Result<T, E = ContainerError> = std::result::Result<T, E>;

/// An error about a container or its runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// What was asked for can be no container.
    #[error("`{asked}` can be no container: {why}")]
    NotAQuery {
        /// What was asked for.
        asked: String,
        /// Why not.
        why: &'static str,
    },
    /// Nobody knows it.
    #[error("no container `{asked}`: asked {}", if tried.is_empty() { "nobody, because no runtime was found here".to_owned() } else { tried.join(", ") })]
    NotFound {
        /// What was asked for.
        asked: String,
        /// Who was asked.
        tried: Vec<String>,
        /// Who did not answer, and why.
        silent: Vec<String>,
    },
    /// Several fit.
    #[error("`{asked}` may mean {}", candidates.join(" or "))]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// What it may mean.
        candidates: Vec<String>,
    },
    /// A runtime could not be asked.
    #[error("{runtime} does not answer: {why}")]
    Silent {
        /// Which.
        runtime: String,
        /// Why.
        why: String,
    },
    /// A runtime took too long.
    #[error("{runtime} did not answer within {} ms", limit.as_millis())]
    Slow {
        /// Which.
        runtime: String,
        /// The limit.
        limit: Duration,
    },
    /// A runtime's answer makes no sense, or is too large.
    #[error("the answer of {runtime} makes no sense: {why}")]
    Answer {
        /// Which.
        runtime: String,
        /// What is wrong with it.
        why: String,
    },
    /// It has no processes.
    #[error("container {container} has no process: it is {status}")]
    NotRunning {
        /// Which.
        container: String,
        /// What its runtime says of it.
        status: &'static str,
    },
    /// It ended, or became another, while it was looked at.
    #[error("container {container} ended while it was looked at")]
    Ended {
        /// Which.
        container: String,
    },
    /// Somebody holds it still.
    #[error("container {container} is held still, and what it has on GPUs could not be locked: {}", how.join("; "))]
    Held {
        /// Which.
        container: String,
        /// Who does it, and how.
        how: Vec<String>,
        /// What lets it go.
        undo: Vec<String>,
    },
    /// It was to be let go, and cannot be.
    #[error("container {container} cannot be let go: {why}")]
    NotThawed {
        /// Which.
        container: String,
        /// Why not.
        why: String,
    },
    /// Its processes could not be looked at for GPUs.
    #[error(transparent)]
    Gpu(#[from] gpu_detect::DetectError),
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl ContainerError {
    /// Attaches what was being done to an I/O error.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let wrap = base::io_error(action, path);
        move |source| Self::Io(wrap(source))
    }

    /// The stable code, the name of a page under `docs/errors/`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotAQuery { .. } => "IJ-O001",
            Self::NotFound { .. } => "IJ-O002",
            Self::Ambiguous { .. } => "IJ-O003",
            Self::Silent { .. } => "IJ-O010",
            Self::Slow { .. } => "IJ-O011",
            Self::Answer { .. } => "IJ-O012",
            Self::NotRunning { .. } => "IJ-O020",
            Self::Ended { .. } => "IJ-O021",
            Self::Held { .. } => "IJ-O022",
            Self::NotThawed { .. } => "IJ-O023",
            Self::Io(_) => "IJ-O030",
            Self::Gpu(error) => error.code(),
        }
    }

    /// What kind of trouble this is.
    pub const fn class(&self) -> Class {
        match self {
            Self::NotAQuery { .. } | Self::Ambiguous { .. } => Class::Usage,
            Self::NotFound { .. } => Class::NotFound,
            Self::NotRunning { .. } | Self::Held { .. } | Self::NotThawed { .. } => Class::Refused,
            Self::Ended { .. } => Class::Conflict,
            Self::Silent { .. } | Self::Slow { .. } | Self::Answer { .. } | Self::Io(_) => Class::Environment,
            Self::Gpu(error) => error.class(),
        }
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotAQuery { .. } => {
                "give an id or the beginning of one, a name, a pod or the number of a process"
            }
            Self::NotFound { silent, .. } if !silent.is_empty() => {
                return Some(format!("these could not be asked: {}", silent.join("; ")));
            }
            Self::NotFound { .. } => {
                "name containerd's socket with --address and its namespace with --namespace, runc's state directory with --runtime-root"
            }
            Self::Ambiguous { .. } => {
                "give more of the id, or say which with --runtime, --address, --namespace or --runtime-root"
            }
            Self::Silent { .. } => {
                "look whether it runs, and whether you may use it: most runtimes serve root alone"
            }
            Self::Slow { .. } => "the runtime may wait for a lock or a full disk: its own log says more",
            Self::NotRunning { .. } => "start it; there is nothing to look at before",
            Self::Ended { .. } => "look at what there is now",
            Self::Held { undo, .. } => {
                return Some(format!(
                    "{}; or `infinijup snapshot --thaw` does it, and holds it again afterwards",
                    undo.join("; ")
                ));
            }
            Self::NotThawed { .. } => {
                "it is as it was found; let it go yourself, as `infinijup detect --container` says"
            }
            Self::Gpu(error) => return error.hint(),
            Self::Answer { .. } | Self::Io(_) => return None,
        };
        Some(hint.to_owned())
    }
}
