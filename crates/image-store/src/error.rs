//! What goes wrong here. Who snapshots and restores gives these the codes of its own errors.

use base::IoError;
use cas_core::StoreError;
use checkpoint_criu::CriuError;
use manifest::{ManifestError, ReadError};
use thiserror::Error;

/// Why images could not be stored, laid out or compared.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The images do not make a whole: a part is missing, or two parts contradict each other.
    #[error("the images of {commit} are not whole: {detail}")]
    NotWhole {
        /// The commit that they are of, or the directory that they are in.
        commit: String,
        /// What is missing or wrong.
        detail: String,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What a snapshot says about its images.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// An image that cannot be read.
    #[error(transparent)]
    Criu(#[from] CriuError),
}

/// The usual result here.
pub type Result<T, E = ImageError> = std::result::Result<T, E>;

impl From<ReadError<StoreError>> for ImageError {
    fn from(error: ReadError<StoreError>) -> Self {
        match error {
            ReadError::Source { source, .. } => source.into(),
            ReadError::Object { source, .. } => source.into(),
        }
    }
}
