//! Between the store and the manifests: how one is loaded from, saved to and followed by the other.

use std::sync::{Mutex, PoisonError, RwLock};

use cas_core::blob::Blob;
use cas_core::memory::MapRoot;
use cas_core::reach::{self, References};
use cas_core::{Kind, ObjectId, Store, StoreError, WriteTransaction};

use crate::error::ReadError;
use crate::history::Grafts;
use crate::object::{ManifestObject, ObjectSink, ObjectSource, SaveError};
use crate::reference::{BlobRef, MapRef, Target};
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

/// The same, for following history: with what was forgotten.
#[derive(Debug, Clone)]
pub struct History<'a> {
    store: &'a Store,
    grafts: Grafts,
}

impl<'a> History<'a> {
    /// The history of a store, as it is now.
    pub fn of(store: &'a Store) -> Result<Self, Box<ReadError<StoreError>>> {
        Ok(Self { store, grafts: Grafts::load_from(store)?.0 })
    }
}

impl ObjectSource for History<'_> {
    type Error = StoreError;

    fn load(&self, kind: Kind, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        self.store.get(kind, id)
    }

    fn grafts(&self) -> Option<&Grafts> {
        Some(&self.grafts)
    }
}

/// And go to a write transaction.
#[derive(Debug, Clone, Copy)]
pub struct ToTransaction<'a>(pub &'a WriteTransaction);

impl ObjectSink for ToTransaction<'_> {
    type Error = StoreError;

    fn save(&self, kind: Kind, content: Vec<u8>) -> Result<ObjectId, StoreError> {
        self.0.put(kind, content)
    }
}

/// Saves a manifest object.
pub fn save(
    object: &impl ManifestObject,
    transaction: &WriteTransaction,
) -> Result<ObjectId, SaveError<StoreError>> {
    object.save(&ToTransaction(transaction))
}

/// Knows what manifest objects refer to, in the history that is left.
#[derive(Debug, Default)]
pub struct ManifestReferences {
    /// As they were when somebody last asked for them.
    grafts: RwLock<Grafts>,
    imported: Mutex<Vec<ObjectId>>,
    ends_at_gaps: bool,
}

impl ManifestReferences {
    /// For an export: the history ends where something was forgotten. Another store would not know how it goes on.
    pub fn ending_at_gaps() -> Self {
        Self { ends_at_gaps: true, ..Self::default() }
    }

    /// The commits that came with an import.
    pub fn imported_commits(&self) -> Vec<ObjectId> {
        self.imported.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl References for ManifestReferences {
    fn renew(&self, store: &Store) -> Result<bool, StoreError> {
        let (now, _) = Grafts::load_from(store).map_err(|error| match *error {
            ReadError::Source { source, .. } => source,
            ReadError::Object { id, source, .. } => StoreError::Malformed { id, detail: source.to_string() },
        })?;
        let mut grafts = self.grafts.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *grafts != now;
        *grafts = now;
        Ok(changed)
    }

    fn imported(&self, kind: Kind, id: &ObjectId) {
        if kind == COMMIT {
            self.imported.lock().unwrap_or_else(PoisonError::into_inner).push(*id);
        }
    }

    fn references(&self, kind: Kind, content: &[u8]) -> Result<Vec<reach::Reference>, String> {
        let found = reference::references(kind, content).map_err(|error| error.to_string())?;
        let grafts = self.grafts.read().unwrap_or_else(PoisonError::into_inner);
        // In the place of a commit that was forgotten: the nearest that are left of what it came from.
        let left = |one: reference::Reference| match one.target {
            Target::Object(COMMIT) if grafts.contains(&one.id) && self.ends_at_gaps => Vec::new(),
            Target::Object(COMMIT) if grafts.contains(&one.id) => {
                let left = grafts.parents(&[one.id]);
                left.into_iter().map(|id| reference::Reference { id, ..one }).collect()
            }
            _ => vec![one],
        };
        // A snapshot may have come without its history, so a store can do without a parent. Nothing but a commit refers
        // to commits.
        let own = |one: reference::Reference| {
            let kind = one.target.kind();
            reach::Reference { id: one.id, kind, weak: kind == COMMIT }
        };
        Ok(found.into_iter().flat_map(left).map(own).collect())
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
