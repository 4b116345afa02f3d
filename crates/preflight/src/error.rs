//! What goes wrong here. Who snapshots gives these the codes of its own errors.

use sandbox::SandboxError;
use staging::StagingError;
use thiserror::Error;

use crate::Problem;

/// Why a snapshot is not even begun.
#[derive(Debug, Error)]
pub enum PreflightError {
    /// It would fail.
    #[error("a snapshot would fail: {}", problems.iter().map(|problem| problem.what).collect::<Vec<_>>().join("; "))]
    Refused {
        /// Everything that was found.
        problems: Vec<Problem>,
    },
    /// There is no room for it, or nobody can say.
    #[error(transparent)]
    Room(#[from] StagingError),
    /// The processes could not be looked at.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// The usual result here.
pub type Result<T, E = PreflightError> = std::result::Result<T, E>;
