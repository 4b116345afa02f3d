//! Errors of crates that have no codes of their own: what they say gets ours.

use image_store::ImageError;
use image_trust::TrustError;
use workspace::WorkspaceError;

use crate::error::LifecycleError;

impl From<TrustError> for LifecycleError {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Refused { uid, findings } => Self::Untrusted { uid, findings },
            TrustError::Io { action, path, source } => Self::Io { action, path, source },
            TrustError::Sandbox(error) => error.into(),
        }
    }
}

impl From<ImageError> for LifecycleError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Io { action, path, source } => Self::Io { action, path, source },
            ImageError::NotWhole { commit, detail } => Self::BadSnapshot { commit, detail },
            ImageError::Store(error) => error.into(),
            ImageError::Manifest(error) => error.into(),
            ImageError::Criu(error) => error.into(),
        }
    }
}

impl From<WorkspaceError> for LifecycleError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Io { action, path, source } => Self::Io { action, path, source },
            WorkspaceError::Changed { paths } => Self::FilesChanged { paths },
            WorkspaceError::Store(error) => error.into(),
            WorkspaceError::Manifest(error) => error.into(),
            WorkspaceError::Sandbox(error) => error.into(),
        }
    }
}
