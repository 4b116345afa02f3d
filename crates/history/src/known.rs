//! What has been read of a history, and who is using which part of it.
//!
//! Commits never change, so one that was read and checked once need not be read again: a list of thousands that a page asks for
//! again and again is made from memory. What was forgotten does change; its ref is looked at each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cas_core::{ObjectId, Store, StoreError};
use manifest::history::Grafts;
use manifest::stored::FromStore;
use manifest::{Commit, ManifestObject, ReadError};

use crate::error::Result;

/// How many commits are kept in memory for one user; about a kilobyte each.
const KEPT: usize = 20_000;

/// What all who use one store share.
#[derive(Debug, Default)]
pub(crate) struct Known {
    commits: Mutex<HashMap<ObjectId, Arc<Commit>>>,
    grafts: Mutex<Option<(ObjectId, Arc<Grafts>)>>,
    /// Commits that somebody restores from, and how many do.
    used: Arc<Mutex<HashMap<ObjectId, usize>>>,
}

impl Known {
    /// The commit as it was written.
    pub(crate) fn commit(
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
    pub(crate) fn grafts(&self, store: &Store) -> Result<Arc<Grafts>> {
        let Some(at) = store.refs().get(Grafts::REF)? else { return Ok(Arc::default()) };
        let mut known = lock(&self.grafts);
        if let Some((id, grafts)) = &*known
            && *id == at
        {
            return Ok(Arc::clone(grafts));
        }
        let grafts = Arc::new(Grafts::load(&FromStore(store), &at)?);
        *known = Some((at, Arc::clone(&grafts)));
        Ok(grafts)
    }

    /// Lets go of what is kept.
    pub(crate) fn clear(&self) {
        lock(&self.commits).clear();
    }

    /// Somebody begins to restore from a commit.
    pub(crate) fn hold(&self, id: ObjectId) -> Using {
        *self.used().entry(id).or_default() += 1;
        Using { used: Arc::clone(&self.used), id }
    }

    /// Who restores from what. While this is held, nobody begins to.
    pub(crate) fn used(&self) -> MutexGuard<'_, HashMap<ObjectId, usize>> {
        lock(&self.used)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A commit that is being restored from: it cannot be forgotten while this lives.
#[derive(Debug)]
pub struct Using {
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
