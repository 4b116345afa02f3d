//! Between the store and the manifests: how one is loaded from, saved to and followed by the other.

use cas_core::blob::Blob;
use cas_core::memory::MapRoot;
use cas_core::reach::{self, References};
use cas_core::{Kind, ObjectId, Store, StoreError, WriteSession};

use crate::object::{ManifestObject, ObjectSink, ObjectSource, SaveError};
use crate::reference::{BlobRef, MapRef};
use crate::{COMMIT, reference};

/// Manifest objects come from a store.
#[derive(Debug, Clone, Copy)]
pub struct FromStore<'a>(pub &'a Store);

impl ObjectSource for FromStore<'_> {
    type Error = StoreError;

    fn load(&self, kind: Kind, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        self.0.get(kind, id)
    }
}

/// And go to a write session.
#[derive(Debug, Clone, Copy)]
pub struct ToSession<'a>(pub &'a WriteSession);

impl ObjectSink for ToSession<'_> {
    type Error = StoreError;

    fn save(&self, kind: Kind, content: Vec<u8>) -> Result<ObjectId, StoreError> {
        self.0.put(kind, content)
    }
}

/// Saves a manifest object.
pub fn save(object: &impl ManifestObject, session: &WriteSession) -> Result<ObjectId, SaveError<StoreError>> {
    object.save(&ToSession(session))
}

/// Knows what manifest objects refer to.
#[derive(Debug, Clone, Copy)]
pub struct ManifestReferences;

impl References for ManifestReferences {
    fn references(&self, kind: Kind, content: &[u8]) -> Result<Vec<reach::Reference>, String> {
        let found = reference::references(kind, content).map_err(|error| error.to_string())?;
        // A snapshot may have come without its history, so a store can do without a parent. Nothing but a commit refers
        // to commits.
        let own = |one: reference::Reference| {
            let kind = one.target.kind();
            reach::Reference { id: one.id, kind, weak: kind == COMMIT }
        };
        Ok(found.into_iter().map(own).collect())
    }
}

impl From<Blob> for BlobRef {
    fn from(Blob { id, kind, len }: Blob) -> Self {
        Self { id, kind, len }
    }
}

impl From<BlobRef> for Blob {
    fn from(BlobRef { id, kind, len }: BlobRef) -> Self {
        Self { id, kind, len }
    }
}

impl From<MapRoot> for MapRef {
    fn from(MapRoot { id, pages }: MapRoot) -> Self {
        Self { id, pages }
    }
}

impl From<MapRef> for MapRoot {
    fn from(MapRef { id, pages }: MapRef) -> Self {
        Self { id, pages }
    }
}
