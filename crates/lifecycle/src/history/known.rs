//! What has been read of a history, and who is using which part of it.
//!
//! Commits never change, so one that was read and checked once need not be read again: a list of thousands that a page asks for
//! again and again is made from memory. What was forgotten does change; its ref is looked at each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cas_core::{Kind, ObjectId, Store, StoreError};
use manifest::history::Grafts;
use manifest::stored::FromStore;
use manifest::{Commit, ManifestObject, ObjectSource, ReadError};

use super::{UserStore, unread};
use crate::error::{LifecycleError, Result};

/// How many commits are kept in memory for one user; about a kilobyte each.
const KEPT: usize = 20_000;

/// What all who use one store share.
#[derive(Debug, Default)]
pub(super) struct Known {
    commits: Mutex<HashMap<ObjectId, Arc<Commit>>>,
    grafts: Mutex<Option<(ObjectId, Arc<Grafts>)>>,
    /// Commits that somebody restores from, and how many do.
    used: Arc<Mutex<HashMap<ObjectId, usize>>>,
}

impl Known {
    /// The commit as it was written.
    pub(super) fn commit(
        &self,
        store: &Store,
        id: &ObjectId,
    ) -> Result<Arc<Commit>, Box<ReadError<StoreError>>> {
        if let Some(commit) = lock(&self.commits).get(id) {
            return Ok(Arc::clone(commit));
        }
        let commit = Arc::new(Commit::load(&FromStore(store), id).map_err(Box::new)?);
        let mut commits = lock(&self.commits);
        if commits.len() >= KEPT {
            // Rare, and what is needed comes back.
            commits.clear();
        }
        commits.insert(*id, Arc::clone(&commit));
        Ok(commit)
    }

    /// What was forgotten, as of now.
    pub(super) fn grafts(&self, store: &Store) -> Result<Arc<Grafts>> {
        let Some(at) = store.refs().get(Grafts::REF)? else { return Ok(Arc::default()) };
        let mut known = lock(&self.grafts);
        if let Some((id, grafts)) = &*known
            && *id == at
        {
            return Ok(Arc::clone(grafts));
        }
        let grafts = Arc::new(Grafts::load(&FromStore(store), &at).map_err(unread)?);
        *known = Some((at, Arc::clone(&grafts)));
        Ok(grafts)
    }

    /// Lets go of what is kept.
    pub(super) fn clear(&self) {
        lock(&self.commits).clear();
    }

    /// Who restores from what. While this is held, nobody begins to.
    pub(super) fn used(&self) -> MutexGuard<'_, HashMap<ObjectId, usize>> {
        lock(&self.used)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A commit that is being restored from: it cannot be forgotten while this lives.
#[derive(Debug)]
pub(crate) struct Using {
    used: Arc<Mutex<HashMap<ObjectId, usize>>>,
    id: ObjectId,
}

impl Drop for Using {
    fn drop(&mut self) {
        let mut used = lock(&self.used);
        if let Some(count) = used.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                used.remove(&self.id);
            }
        }
    }
}

impl UserStore {
    /// Takes hold of a commit for a restore; refuses one that was forgotten.
    pub(crate) fn using(&self, id: ObjectId) -> Result<Using> {
        *self.known.used().entry(id).or_default() += 1;
        let using = Using { used: Arc::clone(&self.known.used), id };
        // After it is held: one that is forgotten from now on is not this one.
        if self.grafts()?.contains(&id) {
            return Err(LifecycleError::Forgotten { commit: id.short() });
        }
        Ok(using)
    }

    /// What was forgotten.
    pub(crate) fn grafts(&self) -> Result<Arc<Grafts>> {
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
