//! Saving manifest objects, with the errors of the command line.

use cas_core::{ObjectId, WriteTransaction};
use manifest::stored;
pub(crate) use manifest::stored::{FromStore, History, ManifestReferences};
use manifest::{ManifestObject, SaveError};

/// Saves a manifest object.
pub(crate) fn save(object: &impl ManifestObject, transaction: &WriteTransaction) -> anyhow::Result<ObjectId> {
    stored::save(object, transaction).map_err(|error| match error {
        SaveError::Object(error) => error.into(),
        SaveError::Sink(error) => error.into(),
    })
}
