//! What can go wrong on the way back.

use std::path::PathBuf;
use std::time::Duration;

use base::{Class, IoError};

use crate::error::ContainerError;

/// The usual result here.
pub type Result<T, E = BackError> = std::result::Result<T, E>;

/// A container could not be saved for its runtime, or made by it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackError {
    /// It is of a sort that its runtime does not restore.
    #[error("container {container} cannot be brought back by its runtime: {why}")]
    NotThisSort {
        /// Which.
        container: String,
        /// Why not.
        why: String,
    },
    /// What the runtime has written down about it makes no sense.
    #[error("`{}` cannot be understood: {why}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The runtime said no.
    #[error("{action} of container {container} failed: {said}")]
    Refused {
        /// What it was asked for.
        action: &'static str,
        /// Which.
        container: String,
        /// What it said.
        said: String,
    },
    /// The runtime took too long, and was ended.
    #[error("{action} of container {container} took longer than {} s", limit.as_secs())]
    Slow {
        /// What it was asked for.
        action: &'static str,
        /// Which.
        container: String,
        /// The limit.
        limit: Duration,
    },
    /// The runtime could not be asked, or the operating system refused.
    #[error(transparent)]
    Below(#[from] ContainerError),
}

impl BackError {
    /// The stable code, the name of a page under `docs/errors/`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotThisSort { .. } => "IJ-O040",
            Self::State { .. } => "IJ-O041",
            Self::Refused { .. } => "IJ-O042",
            Self::Slow { .. } => "IJ-O043",
            Self::Below(error) => error.code(),
        }
    }

    /// What kind of trouble this is.
    pub const fn class(&self) -> Class {
        match self {
            Self::NotThisSort { .. } => Class::Refused,
            Self::State { .. } | Self::Refused { .. } | Self::Slow { .. } => Class::Environment,
            Self::Below(error) => error.class(),
        }
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotThisSort { .. } => {
                "docs/containers.md says which containers can be brought back, and why others cannot"
            }
            Self::State { .. } => {
                "the runtime may be newer than this program; `infinijup doctor` says what it knows"
            }
            Self::Refused { .. } => "CRIU's own log is beside the session's: restore.log has the first error",
            Self::Slow { .. } => "the machine may be short of memory, or the runtime wait for a lock",
            Self::Below(error) => return error.hint(),
        };
        Some(hint.to_owned())
    }
}

impl From<IoError> for BackError {
    fn from(error: IoError) -> Self {
        Self::Below(error.into())
    }
}
