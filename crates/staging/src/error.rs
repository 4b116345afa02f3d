//! What goes wrong here. Who snapshots and restores gives these the codes of its own errors.

use std::path::PathBuf;

use base::IoError;
use cas_core::StoreError;
use thiserror::Error;

/// Why there is no place for images.
#[derive(Debug, Error)]
pub enum StagingError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
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
