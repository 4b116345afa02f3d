//! What goes wrong here. Who captures and puts back gives these the codes of its own errors.

use std::path::PathBuf;

use base::IoError;
use cas_core::StoreError;
use manifest::ManifestError;
use sandbox::SandboxError;
use thiserror::Error;

/// Why files could not be captured or put back.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// Somebody else has changed files that would be overwritten.
    #[error("{} files were changed by others", paths.len())]
    Changed {
        /// The files, as the session sees them.
        paths: Vec<PathBuf>,
    },
    /// A volume cannot belong to a snapshot.
    #[error("volume `{}` cannot belong to a snapshot: {why}", path.display())]
    Volume {
        /// As the session sees it.
        path: PathBuf,
        /// For people.
        why: String,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What a snapshot says about files.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Becoming the user whose files they are.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// The usual result here.
pub type Result<T, E = WorkspaceError> = std::result::Result<T, E>;
