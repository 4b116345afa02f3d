//! A walk through what is in a remote, from some commits down, some objects at a time.
//!
//! What the local store has is read there; it is the same, since ids are hashes of content.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use cas_core::reach::{self, Reference, References};
use cas_core::{Class, Kind, ObjectId, ReadContext, StoreError};

use crate::error::{RemoteError, Result};
use crate::read::Placed;
use crate::remote::{Remote, View};

/// So many objects are asked for at a time.
const BATCH: usize = 4096;

pub(crate) struct Walk<'a> {
    remote: &'a Remote,
    view: &'a View,
    above: &'a dyn References,
    /// Seen, or not to be looked at.
    pub(crate) done: HashSet<ObjectId>,
    open: Vec<Reference>,
    /// Needed, and not in the remote.
    pub(crate) missing: Vec<ObjectId>,
    /// Nothing but what leads on is looked at.
    pub(crate) history_only: bool,
    context: ReadContext,
}

/// Some objects of a walk.
pub(crate) struct Batch {
    /// What the remote has. Metadata among it that is not in the local store must be read and given to [`Walk::follow`].
    pub(crate) placed: Vec<Placed>,
    /// What the local store has and the remote has not.
    pub(crate) local_only: Vec<Reference>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(remote: &'a Remote, view: &'a View, above: &'a dyn References) -> Result<Self> {
        let (done, open, missing) = (HashSet::new(), Vec::new(), Vec::new());
        let (history_only, context) = (false, ReadContext::new()?);
        Ok(Self { remote, view, above, done, open, missing, history_only, context })
    }

    /// Begins at a commit. What kind of object that is, the index says.
    pub(crate) fn begin(&mut self, ids: &[ObjectId]) -> Result<()> {
        let found = self.view.find(ids)?;
        for id in ids {
            match found.get(id) {
                Some(entry) => self.open.push(Reference::strong(entry.kind, *id)),
                None => self.missing.push(*id),
            }
        }
        Ok(())
    }

    /// The next objects. `None`: that was all.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>> {
        let mut wanted = Vec::new();
        while wanted.len() < BATCH
            && let Some(reference) = self.open.pop()
        {
            let left_out = self.history_only && !reference.kind.is_metadata();
            if !left_out && self.done.insert(reference.id) {
                wanted.push(reference);
            }
        }
        if wanted.is_empty() {
            return Ok(None);
        }
        let ids: Vec<ObjectId> = wanted.iter().map(|reference| reference.id).collect();
        let found = self.view.find(&ids)?;
        let mut batch = Batch { placed: Vec::new(), local_only: Vec::new() };
        for reference in wanted {
            match found.get(&reference.id) {
                Some(entry) if entry.kind == reference.kind => batch.placed.push((reference, *entry)),
                Some(entry) => {
                    let detail = format!("says that {} is of kind {}", reference.id.short(), entry.kind.0);
                    return Err(RemoteError::damaged("index", detail));
                }
                None if self.remote.store.contains(&reference.id)? => batch.local_only.push(reference),
                None if reference.weak => {}
                None => self.missing.push(reference.id),
            }
        }
        Ok(Some(batch))
    }

    /// Reads an object of the local store and follows it. `false`: the store does not have it, or cannot read it.
    pub(crate) fn follow_local(&mut self, reference: &Reference) -> Result<bool> {
        let store = &self.remote.store;
        if !store.contains(&reference.id)? {
            return Ok(false);
        }
        if !reference.kind.is_metadata() {
            return Ok(true);
        }
        let mut content = Vec::new();
        match store.read_into(reference.kind, &reference.id, &mut self.context, &mut content) {
            Ok(()) => {
                let below = self.below(reference.kind, &reference.id, &content)?;
                self.open.extend(below);
                Ok(true)
            }
            Err(error) if matches!(error.class(), Class::Corruption | Class::Key) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn below(&self, kind: Kind, id: &ObjectId, content: &[u8]) -> Result<Vec<Reference>> {
        let malformed = |detail| StoreError::Malformed { id: *id, detail };
        Ok(reach::references(kind, content, self.above).map_err(malformed)?)
    }

    /// Reads objects of the remote, follows metadata among them, and shows each to `see`.
    pub(crate) fn follow(
        &mut self,
        objects: Vec<Placed>,
        see: &(dyn Fn(&Reference, &cas_core::parcel::Foreign) -> Result<()> + Sync),
    ) -> Result<()> {
        let below: Mutex<Vec<Reference>> = Mutex::default();
        let (this, remote) = (Follower { above: self.above }, self.remote);
        remote.read_objects(objects, &|reference, object| {
            see(reference, &object)?;
            if reference.kind.is_metadata() {
                let more = this.below(reference, object.content())?;
                below.lock().unwrap_or_else(PoisonError::into_inner).extend(more);
            }
            Ok(())
        })?;
        self.open.extend(below.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Marks everything: `live` is shown each object that is needed.
    pub(crate) fn run(&mut self, live: &mut dyn FnMut(&Reference)) -> Result<()> {
        while let Some(batch) = self.next()? {
            let mut far = Vec::new();
            for placed in batch.placed {
                live(&placed.0);
                if placed.0.kind.is_metadata() && !self.follow_local(&placed.0)? {
                    far.push(placed);
                }
            }
            // Weak ones that were never pushed are nobody's loss.
            self.missing.extend(batch.local_only.iter().filter(|one| !one.weak).map(|one| one.id));
            self.follow(far, &|_, _| Ok(()))?;
        }
        Ok(())
    }
}

struct Follower<'a> {
    above: &'a dyn References,
}

impl Follower<'_> {
    fn below(&self, reference: &Reference, content: &[u8]) -> Result<Vec<Reference>> {
        let malformed = |detail| StoreError::Malformed { id: reference.id, detail };
        Ok(reach::references(reference.kind, content, self.above).map_err(malformed)?)
    }
}
