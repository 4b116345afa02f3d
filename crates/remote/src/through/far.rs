//! A remote that is read from, and where the objects are that were asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use cas_core::{ObjectId, Store};

use crate::bucket::{Bucket, Objects, Patience};
use crate::error::Result;
use crate::index::IndexEntry;
use crate::remote::{Remote, View};

/// So many places are remembered; then it begins anew.
const REMEMBERED: usize = 1 << 21;
/// Times of files are coarser than the clock.
const COARSE: Duration = Duration::from_secs(1);

pub(crate) struct Far {
    pub(crate) name: String,
    pub(crate) bucket: Bucket,
    /// What opens its `root`. Held weakly: the store holds whoever reads through.
    store: std::sync::Weak<Store>,
    view: Mutex<Seen>,
    places: Mutex<HashMap<ObjectId, IndexEntry>>,
}

/// What the remote had at a moment.
#[derive(Clone)]
struct Seen {
    view: Arc<View>,
    at: SystemTime,
}

impl Seen {
    fn now(remote: &Remote) -> Result<Self> {
        let at = SystemTime::now();
        Ok(Self { view: Arc::new(remote.view()?), at })
    }
}

impl Far {
    pub(crate) fn open(name: &str, objects: Arc<dyn Objects>, store: Arc<Store>) -> Result<Self> {
        let weak = Arc::downgrade(&store);
        let remote = Remote::open(objects, store, Patience::default())?;
        let view = Mutex::new(Seen::now(&remote)?);
        Ok(Self { name: name.to_owned(), bucket: remote.bucket, store: weak, view, places: Mutex::default() })
    }

    /// Finds out where objects are, many by few requests.
    pub(crate) fn find(&self, ids: &[ObjectId]) -> Result<()> {
        let open: Vec<ObjectId> = ids.iter().filter(|id| !self.knows(id)).copied().collect();
        if open.is_empty() {
            return Ok(());
        }
        let mut found = self.seen().view.find(&open)?;
        if found.len() < open.len() && self.may_have_more()? {
            // What was let go of here since had been sent there before.
            self.renew()?;
            found = self.seen().view.find(&open)?;
        }
        let mut places = self.places();
        if places.len() + found.len() > REMEMBERED {
            places.clear();
        }
        places.extend(found);
        Ok(())
    }

    /// Whether it was found here.
    pub(crate) fn knows(&self, id: &ObjectId) -> bool {
        self.places().contains_key(id)
    }

    pub(crate) fn place(&self, id: &ObjectId) -> Result<Option<IndexEntry>> {
        self.find(&[*id])?;
        Ok(self.found(id))
    }

    /// Where an object is that was found before.
    pub(crate) fn found(&self, id: &ObjectId) -> Option<IndexEntry> {
        self.places().get(id).copied()
    }

    /// Where an object is now, when it was not where it should have been.
    pub(crate) fn look_again(&self, id: &ObjectId) -> Result<Option<IndexEntry>> {
        self.renew()?;
        self.places().clear();
        self.place(id)
    }

    fn renew(&self) -> Result<()> {
        let Some(store) = self.store.upgrade() else { return Ok(()) };
        let seen = Seen::now(&Remote { bucket: self.bucket.clone(), store })?;
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        Ok(())
    }

    /// Whether the list of what is elsewhere has changed since the remote was looked at.
    fn may_have_more(&self) -> Result<bool> {
        let Some(store) = self.store.upgrade() else { return Ok(false) };
        Ok(store.elsewhere_changed()?.is_some_and(|changed| changed + COARSE >= self.seen().at))
    }

    fn seen(&self) -> Seen {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn places(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectId, IndexEntry>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
