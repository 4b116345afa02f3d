//! What goes wrong here. Who snapshots and restores gives these the codes of its own errors.

use std::io;
use std::path::PathBuf;

use cas_core::StoreError;
use thiserror::Error;

/// Why there is no place for images.
#[derive(Debug, Error)]
pub enum StagingError {
    /// The operating system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// A verb: "open", "create" …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// They fit neither on the disk nor into memory.
    #[error("not enough room in `{}`: {needed} bytes are needed, {available} are free", path.display())]
    NoRoom {
        /// Where they would be.
        path: PathBuf,
        /// How much they need.
        needed: u64,
        /// How much there is.
        available: u64,
    },
    /// The system has no random bytes for a name.
    #[error(transparent)]
    Random(#[from] StoreError),
}

/// The usual result here.
pub type Result<T, E = StagingError> = std::result::Result<T, E>;

/// For `map_err`: what was done, to what.
pub(crate) fn io_error<E: Into<io::Error>>(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(E) -> StagingError {
    let path = path.into();
    move |source| StagingError::Io { action, path, source: source.into() }
}
