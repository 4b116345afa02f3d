//! Saving manifest objects and changing history, with the errors of the command line.

use cas_core::{ObjectId, WriteTransaction};
use history::HistoryError;
use manifest::stored;
pub(crate) use manifest::stored::{FromStore, History, ManifestReferences};
use manifest::{ManifestObject, SaveError};

use crate::error::CliError;

/// Saves a manifest object.
pub(crate) fn save(object: &impl ManifestObject, transaction: &WriteTransaction) -> anyhow::Result<ObjectId> {
    stored::save(object, transaction).map_err(|error| match error {
        SaveError::Object(error) => error.into(),
        SaveError::Sink(error) => error.into(),
    })
}

/// What `history` says about a store; its errors have no codes of their own.
pub(crate) fn of_history(error: HistoryError) -> anyhow::Error {
    match error {
        HistoryError::Store(error) => error.into(),
        HistoryError::Manifest(error) => error.into(),
        HistoryError::Archive(error) => error.into(),
        error @ (HistoryError::Images(_) | HistoryError::BadSnapshot { .. }) => {
            CliError::BadSnapshot(error).into()
        }
        other => other.into(),
    }
}
