//! What goes wrong here. Who keeps sessions gives these the codes of its own errors.

use std::path::PathBuf;

use base::IoError;
use cas_core::StoreError;
use checkpoint_archive::ArchiveError;
use image_store::ImageError;
use manifest::history::RevisionError;
use manifest::{ManifestError, ReadError, SaveError};
use thiserror::Error;

/// Why history could not be read or changed.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A commit or a snapshot in it.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The images of a snapshot.
    #[error(transparent)]
    Images(ImageError),
    /// A checkpoint archive of others.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A snapshot is not as we write them.
    #[error("snapshot {commit} cannot be read: {detail}")]
    BadSnapshot {
        /// The snapshot.
        commit: String,
        /// What is wrong.
        detail: String,
    },
    /// The snapshot has no such part.
    #[error("snapshot {commit} {what}")]
    NotInSnapshot {
        /// The snapshot.
        commit: String,
        /// "has no notebook"
        what: &'static str,
    },
    /// The request does not make sense.
    #[error("{detail}")]
    BadRequest {
        /// What is wrong with it.
        detail: String,
    },
    /// No thread, tag or commit is called this.
    #[error("no snapshot `{which}`")]
    NoSuchSnapshot {
        /// What was asked for.
        which: String,
    },
    /// Several commits begin like this.
    #[error("{detail}")]
    Ambiguous {
        /// What was asked for, and what it fits.
        detail: String,
    },
    /// It was in history once, and was forgotten.
    #[error("snapshot {commit} was forgotten")]
    Forgotten {
        /// The snapshot.
        commit: String,
    },
    /// gc met something that it cannot read.
    #[error("{count} {} cannot be read, so nothing was freed", if *count == 1 { "object or pack" } else { "objects or packs" })]
    GcIncomplete {
        /// How many objects or packs.
        count: usize,
    },
    /// Snapshots that were being written did not end in time for gc.
    #[error("nothing was freed: {count} {} still being written", if *count == 1 { "snapshot is" } else { "snapshots are" })]
    WritersBusy {
        /// How many writers.
        count: u64,
    },
    /// There is no room for an encrypted copy of the store.
    #[error("not enough room in `{}`: {needed} bytes are needed, {available} are free", path.display())]
    NoRoom {
        /// Where it would be.
        path: PathBuf,
        /// How much it needs.
        needed: u64,
        /// How much there is.
        available: u64,
    },
    /// This installation did not make the snapshot.
    #[error("snapshot {commit} was not made by this installation")]
    NotSealed {
        /// The snapshot.
        commit: String,
    },
    /// The key that seals are made with, or notes about an encryption that was cut short, cannot be read.
    #[error("`{}` is damaged: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The key of an encrypted store is not there, or is none, or somebody else could have it.
    #[error("the key of the store cannot be used: `{}`: {why}", path.display())]
    StoreKey {
        /// The key's file, or the store if nothing names one.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// There is a key to a store that needs none. Nobody who set one wants plain snapshots.
    #[error("`key_file` is set, but the store `{}` is not encrypted", store.display())]
    NotEncrypted {
        /// The store.
        store: PathBuf,
    },
}

/// The usual result here.
pub type Result<T, E = HistoryError> = std::result::Result<T, E>;

impl From<ReadError<StoreError>> for HistoryError {
    fn from(error: ReadError<StoreError>) -> Self {
        match error {
            ReadError::Source { source, .. } => source.into(),
            ReadError::Object { source, .. } => source.into(),
        }
    }
}

impl From<Box<ReadError<StoreError>>> for HistoryError {
    fn from(error: Box<ReadError<StoreError>>) -> Self {
        (*error).into()
    }
}

impl From<ImageError> for HistoryError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Store(error) => error.into(),
            ImageError::Manifest(error) => error.into(),
            other => Self::Images(other),
        }
    }
}

impl From<SaveError<StoreError>> for HistoryError {
    fn from(error: SaveError<StoreError>) -> Self {
        match error {
            SaveError::Object(error) => error.into(),
            SaveError::Sink(error) => error.into(),
        }
    }
}

/// Why `text` leads to no commit.
pub(crate) fn not_found(text: &str, error: RevisionError) -> HistoryError {
    match error {
        RevisionError::Store(error) => error.into(),
        RevisionError::Commit(error) => error.into(),
        RevisionError::Forgotten { revision } => HistoryError::Forgotten { commit: revision },
        RevisionError::Ambiguous { .. } => HistoryError::Ambiguous { detail: error.to_string() },
        _ => HistoryError::NoSuchSnapshot { which: text.to_owned() },
    }
}

impl HistoryError {
    /// The way out, where only history knows one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::StoreKey { .. } => Some(
                "put the key file back, yours alone (mode 600), and name it as `key_file` in the settings; without it nothing \
                 opens the store",
            ),
            Self::NotEncrypted { .. } => {
                Some("`infinijup store encrypt` encrypts it; or take `key_file` out of the settings")
            }
            Self::NotSealed { .. } => {
                Some("if you know who made it and trust them, `infinijup trust` says so; then try again")
            }
            Self::NoSuchSnapshot { .. } => Some("`infinijup history` lists them"),
            Self::Forgotten { .. } => Some("`infinijup history` lists those that are left"),
            Self::GcIncomplete { .. } => Some("`infinijup store verify` on the store says what is affected"),
            Self::WritersBusy { .. } => Some("try again later"),
            _ => None,
        }
    }
}
