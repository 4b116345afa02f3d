//! Why something of the past cannot be shown.

use std::io;
use std::path::PathBuf;

use cas_core::StoreError;
use image_store::ImageError;
use manifest::{ManifestError, ReadError};

/// The result of most calls here.
pub type Result<T, E = PastError> = std::result::Result<T, E>;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// It cannot be mounted.
    #[error("cannot mount the snapshots at `{}`", path.display())]
    Mount {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A manifest in it.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// One that cannot be read.
    #[error(transparent)]
    Read(#[from] Box<ReadError<StoreError>>),
    /// Images.
    #[error(transparent)]
    Images(#[from] ImageError),
    /// It is larger than what can be shown, or says what cannot be.
    #[error("{0}")]
    Odd(String),
    /// It was there, and its content is not in the snapshot.
    #[error("its content is not in the snapshot")]
    NotCaptured,
    /// Too many files are open at a time.
    #[error("too many files are open at a time")]
    TooMany,
}

impl From<ReadError<StoreError>> for PastError {
    fn from(error: ReadError<StoreError>) -> Self {
        Self::Read(Box::new(error))
    }
}
