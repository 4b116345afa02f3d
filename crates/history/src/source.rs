//! History as it is now: commits as they were written, without the parents that were forgotten since.

use std::sync::Arc;

use cas_core::{Kind, ObjectId, StoreError};
use manifest::history::Grafts;
use manifest::{Commit, ObjectSource, ReadError};

use crate::error::{HistoryError, Result};
use crate::known::Using;
use crate::own_store::UserStore;

impl UserStore {
    /// Takes hold of a commit for a restore; refuses one that was forgotten.
    pub fn using(&self, id: ObjectId) -> Result<Using> {
        let using = self.known.hold(id);
        // After it is held: one that is forgotten from now on is not this one.
        if self.grafts()?.contains(&id) {
            return Err(HistoryError::Forgotten { commit: id.short() });
        }
        Ok(using)
    }

    /// What was forgotten.
    pub fn grafts(&self) -> Result<Arc<Grafts>> {
        self.known.grafts(&self.store)
    }

    /// For following history as it is now.
    pub(crate) fn source(&self) -> Result<Source<'_>> {
        Ok(Source { store: self, grafts: self.grafts()? })
    }
}

/// History as it is now, from memory where it can be.
pub(crate) struct Source<'a> {
    store: &'a UserStore,
    grafts: Arc<Grafts>,
}

impl ObjectSource for Source<'_> {
    type Error = StoreError;

    fn load(&self, kind: Kind, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        self.store.store.get(kind, id)
    }

    fn grafts(&self) -> Option<&Grafts> {
        Some(&self.grafts)
    }

    fn commit(&self, id: &ObjectId) -> Result<Commit, ReadError<StoreError>> {
        let mut commit =
            Commit::clone(&*self.store.known.commit(&self.store.store, id).map_err(|error| *error)?);
        if !self.grafts.is_empty() {
            commit.parents = self.grafts.parents(&commit.parents);
        }
        Ok(commit)
    }
}
