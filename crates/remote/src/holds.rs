//! What a remote can be relied upon to have: asked before anything is given up here because it is there.
//!
//! That something is in the index is not enough. It must be in packs that no collection has condemned, these must lie there and be as long
//! as the index says, and one of the remote's threads or tags must lead to it, or the next collection takes it away. Nothing
//! is believed that was known before: the index, the packs and the refs are asked for anew, and whatever cannot be read is an error.

use std::collections::{HashMap, HashSet};

use cas_core::pack::ENTRY_LEN;
use cas_core::progress::{Progress, Task};
use cas_core::reach::{self, Reference, References};
use cas_core::{ObjectId, ReadContext, StoreError};

use crate::error::Result;
use crate::remote::{Remote, View};
use crate::token::Token;

/// So many objects are asked for at a time.
const BATCH: usize = 4096;

impl Remote {
    /// Everything that the remote's refs lead to along objects of their own kind: with threads and tags, all commits that they have. What
    /// this store does not know is left out.
    pub fn led_to(&self, above: &dyn References) -> Result<HashSet<ObjectId>> {
        let targets = self.refs()?.into_iter().map(|(_, target)| target).collect();
        self.led_to_from(targets, above)
    }

    /// The same from other objects on.
    pub fn led_to_from(&self, mut open: Vec<ObjectId>, above: &dyn References) -> Result<HashSet<ObjectId>> {
        above.renew(&self.store)?;
        let (mut context, mut content) = (ReadContext::new()?, Vec::new());
        let mut reached = HashSet::new();
        while let Some(id) = open.pop() {
            let Some(location) = self.store.catalogue().lookup(&id)? else { continue };
            if !reached.insert(id) {
                continue;
            }
            self.store.read_into(location.kind, &id, &mut context, &mut content)?;
            let below = reach::references(location.kind, &content, above);
            let below = below.map_err(|detail| StoreError::Malformed { id, detail })?;
            open.extend(below.iter().filter(|one| one.kind == location.kind).map(|one| one.id));
        }
        Ok(reached)
    }

    /// Those of these objects of which the remote has everything that they lead to.
    pub fn holds(
        &self,
        objects: &[ObjectId],
        above: &dyn References,
        progress: &dyn Progress,
    ) -> Result<Vec<ObjectId>> {
        above.renew(&self.store)?;
        let view = self.view()?;
        let lengths = self.bucket.list("packs/")?.into_iter().filter_map(|pack| {
            let name = pack.key.strip_prefix("packs/")?.parse().ok()?;
            Some((name, pack.size))
        });
        let mut looking =
            Looking { remote: self, view, lengths: lengths.collect(), above, there: HashSet::new() };
        let mut held = Vec::new();
        progress.begin(Task::Verify, Some(objects.len() as u64));
        for id in objects {
            if looking.holds(id)? {
                held.push(*id);
            }
            progress.advance(Task::Verify, 1);
        }
        progress.end(Task::Verify);
        Ok(held)
    }
}

struct Looking<'a> {
    remote: &'a Remote,
    view: View,
    /// The packs that lie there.
    lengths: HashMap<Token, u64>,
    above: &'a dyn References,
    /// All of these are there, with what they lead to.
    there: HashSet<ObjectId>,
}

impl Looking<'_> {
    fn holds(&mut self, root: &ObjectId) -> Result<bool> {
        let store = &self.remote.store;
        let Some(location) = store.catalogue().lookup(root)? else { return Ok(false) };
        let (mut context, mut content) = (ReadContext::new()?, Vec::new());
        let (mut seen, mut batch) = (HashSet::new(), Vec::new());
        let mut open = vec![Reference::strong(location.kind, *root)];
        while let Some(reference) = open.pop() {
            if self.there.contains(&reference.id) || !seen.insert(reference.id) {
                continue;
            }
            batch.push(reference.id);
            if batch.len() >= BATCH && !self.all_lie_there(&std::mem::take(&mut batch))? {
                return Ok(false);
            }
            if reference.kind.is_metadata() {
                store.read_into(reference.kind, &reference.id, &mut context, &mut content)?;
                let below = reach::references(reference.kind, &content, self.above);
                let below = below.map_err(|detail| StoreError::Malformed { id: reference.id, detail })?;
                open.extend(below.into_iter().filter(|one| !one.weak));
            }
        }
        let all = self.all_lie_there(&batch)?;
        if all {
            self.there.extend(seen);
        }
        Ok(all)
    }

    fn all_lie_there(&self, ids: &[ObjectId]) -> Result<bool> {
        let found = self.view.find_safe(ids)?;
        Ok(ids.iter().all(|id| {
            found.get(id).is_some_and(|entry| {
                let end = u64::from(entry.offset) + ENTRY_LEN as u64 + u64::from(entry.stored);
                self.lengths.get(&entry.pack).is_some_and(|length| end <= *length)
            })
        }))
    }
}
