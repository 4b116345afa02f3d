//! What the newest snapshots know of files, kept in memory: to read it from the store takes longer than to look through the directory again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cas_core::ObjectId;
use history::UserStore;
use workspace::Listing;

use crate::{Record, Result};

/// How many sessions are remembered. A listing takes about 300 bytes for each file.
const KEPT: usize = 4;

/// The listings that were used last, newest first.
#[derive(Default, Debug)]
pub struct Listings(Mutex<Vec<(ObjectId, Arc<Listing>)>>);

impl Listings {
    /// What the newest snapshot of a session knows of files.
    pub fn of(&self, store: &UserStore, record: &Record) -> Result<Arc<Listing>> {
        record.head_id()?.map_or_else(|| Ok(Arc::default()), |head| self.at(store, head))
    }

    /// What a snapshot knows of files.
    pub fn at(&self, store: &UserStore, commit: ObjectId) -> Result<Arc<Listing>> {
        if let Some((_, found)) = self.kept().iter().find(|(known, _)| *known == commit) {
            return Ok(Arc::clone(found));
        }
        let listing = Arc::new(Listing::of_snapshot(store.store(), &store.load(&commit)?.1)?);
        self.keep(commit, Arc::clone(&listing));
        Ok(listing)
    }

    /// Remembers what a snapshot knows.
    pub fn keep(&self, commit: ObjectId, listing: Arc<Listing>) {
        let mut kept = self.kept();
        kept.retain(|(known, _)| *known != commit);
        kept.insert(0, (commit, listing));
        kept.truncate(KEPT);
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(ObjectId, Arc<Listing>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
