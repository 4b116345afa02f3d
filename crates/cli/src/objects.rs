//! Between the store and the manifests: how one loads from, saves to and is followed by the other.

use cas_core::reach::{Reference, References};
use cas_core::{Kind, ObjectId, Store, StoreError, WriteSession};
use manifest::{COMMIT, ManifestObject, ObjectSink, ObjectSource, SaveError};

/// Manifest objects come from a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FromStore<'a>(pub(crate) &'a Store);

impl ObjectSource for FromStore<'_> {
    type Error = StoreError;

    fn load(&self, kind: Kind, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        self.0.get(kind, id)
    }
}

/// And go to a write session.
struct ToSession<'a>(&'a WriteSession);

impl ObjectSink for ToSession<'_> {
    type Error = StoreError;

    fn save(&self, kind: Kind, content: Vec<u8>) -> Result<ObjectId, StoreError> {
        self.0.put(kind, content)
    }
}

/// Saves a manifest object.
pub(crate) fn save(object: &impl ManifestObject, session: &WriteSession) -> anyhow::Result<ObjectId> {
    object.save(&ToSession(session)).map_err(|error| match error {
        SaveError::Object(error) => error.into(),
        SaveError::Sink(error) => error.into(),
    })
}

/// Knows what manifest objects refer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ManifestReferences;

impl References for ManifestReferences {
    fn references(&self, kind: Kind, content: &[u8]) -> Result<Vec<Reference>, String> {
        let found = manifest::references(kind, content).map_err(|error| error.to_string())?;
        // A snapshot may have come without its history, so a store can do without a parent. Nothing but a commit refers
        // to commits.
        let own = |one: manifest::Reference| {
            let kind = one.target.kind();
            Reference { id: one.id, kind, weak: kind == COMMIT }
        };
        Ok(found.into_iter().map(own).collect())
    }
}
