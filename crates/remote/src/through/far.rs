//! A remote that is read from, and where the objects are that were asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cas_core::{ObjectId, Store};

use crate::bucket::{Bucket, Objects, Patience};
use crate::error::Result;
use crate::index::IndexEntry;
use crate::remote::{Remote, View};

/// So many places are remembered; then it begins anew.
const REMEMBERED: usize = 1 << 21;

pub(crate) struct Far {
    pub(crate) name: String,
    pub(crate) bucket: Bucket,
    /// What opens its `root`. Held weakly: the store holds whoever reads through.
    store: std::sync::Weak<Store>,
    view: Mutex<Arc<View>>,
    places: Mutex<HashMap<ObjectId, IndexEntry>>,
}

impl Far {
    pub(crate) fn open(name: &str, objects: Arc<dyn Objects>, store: Arc<Store>) -> Result<Self> {
        let weak = Arc::downgrade(&store);
        let remote = Remote::open(objects, store, Patience::default())?;
        let view = Mutex::new(Arc::new(remote.view()?));
        Ok(Self { name: name.to_owned(), bucket: remote.bucket, store: weak, view, places: Mutex::default() })
    }

    /// Finds out where objects are, many by few requests.
    pub(crate) fn find(&self, ids: &[ObjectId]) -> Result<()> {
        let open: Vec<ObjectId> = ids.iter().filter(|id| !self.knows(id)).copied().collect();
        if open.is_empty() {
            return Ok(());
        }
        let view = Arc::clone(&self.view.lock().unwrap_or_else(PoisonError::into_inner));
        let found = view.find(&open)?;
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
        if let Some(store) = self.store.upgrade() {
            let view = Remote { bucket: self.bucket.clone(), store }.view()?;
            *self.view.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
            self.places().clear();
        }
        self.place(id)
    }

    fn places(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectId, IndexEntry>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
