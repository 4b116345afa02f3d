//! Letting go of data that is elsewhere, too, so that a store takes no more room than it should.
//!
//! What leads on always stays: history can be listed and followed without asking anybody. Data goes, pages and chunks, and only such as nothing but
//! the objects that were named leads to. It goes as garbage does ([`gc`](crate::gc)), so writers may be at work, and whatever cuts it short, there is
//! nothing to lose:
//!
//! 1. It is written down that the objects have their data in another place ([`elsewhere`](crate::elsewhere)), and that is durable. Nothing
//!    is missing yet, and what is here is read here.
//! 2. A gc marks what is reachable, without the data below them; condemns packs, waits for older writers, and marks again: what somebody has
//!    fetched meanwhile is not elsewhere any more, and stays.
//! 3. What is needed of these packs is copied, and they are removed.
//!
//! Whoever builds upon one of these objects at that time has pinned it, or finds that the packs are condemned, and its data stays or is
//! written anew. That the other place has everything is for the caller to find out *before*. Nothing here asks it.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::Result;
use crate::gc::{GcOptions, GcReport};
use crate::id::ObjectId;
use crate::progress::{Progress, Task};
use crate::reach::{Marker, References};
use crate::store::Store;

impl Store {
    /// Those of `candidates`, the first of which are the dearest, that must go if everything is to take no more than `limit` bytes. None
    /// if something cannot be read: what it leads to is unknown.
    pub fn surplus(
        &self,
        candidates: &[ObjectId],
        limit: u64,
        above: &dyn References,
        progress: &dyn Progress,
    ) -> Result<Vec<ObjectId>> {
        let mut marker = Marker::new(self, above, progress)?.counting();
        marker.letting_go(candidates.iter().copied().collect());
        progress.begin(Task::Mark, None);
        let marked = marker.mark_roots();
        let mut left = candidates;
        while marked.is_ok() && marker.unreadable.is_empty() && marker.stored() <= limit {
            let Some((dearest, rest)) = left.split_first() else { break };
            marker.mark_pin(dearest)?;
            if marker.stored() <= limit {
                left = rest;
            }
        }
        progress.end(Task::Mark);
        marked?;
        Ok(if marker.unreadable.is_empty() { left.to_vec() } else { Vec::new() })
    }

    /// Lets go of the data of these objects, all of which `place` has. In an encrypted store the keys of what goes are destroyed.
    pub fn let_go(
        self: &Arc<Self>,
        objects: &[ObjectId],
        place: &str,
        above: &dyn References,
        options: &GcOptions,
        progress: &dyn Progress,
    ) -> Result<GcReport> {
        self.change_elsewhere(|list| objects.iter().for_each(|id| list.add(*id, place)))?;
        self.gc_letting_go(objects, above, options, progress)
    }

    /// Those of these objects whose data nobody has brought back.
    pub(crate) fn still_elsewhere(&self, objects: &[ObjectId]) -> Result<HashSet<ObjectId>> {
        if objects.is_empty() {
            return Ok(HashSet::new());
        }
        let list = self.elsewhere()?;
        Ok(objects.iter().filter(|id| list.place(id).is_some()).copied().collect())
    }
}
