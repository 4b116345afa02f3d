//! Commits leave history, and gc frees what only they led to.
//!
//! What forgetting means is said in `manifest`'s [`Grafts`]; here is who may be forgotten, and the order of things. Refs change
//! last and one after the other: tags go, threads without a session step back, and only then is the list of what was forgotten
//! replaced, by compare-and-swap. A crash in between leaves a commit without its tag, never a name that leads to nothing.

use std::collections::{HashMap, HashSet};

use cas_core::gc::{Action, GcOptions};
use cas_core::progress::Progress;
use cas_core::refs::{Expected, RefChange};
use cas_core::{ObjectId, StoreError};
use manifest::history::Grafts;
use manifest::stored::ManifestReferences;
use manifest::{COMMIT, SaveError, Tag, Thread};

use super::{UserStore, unread};
use crate::error::{LifecycleError, Result};

/// How often a change is tried anew when somebody else was faster.
const ATTEMPTS: usize = 5;

/// What became of commits that were to be forgotten.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Forgotten {
    pub(crate) forgotten: Vec<ObjectId>,
    /// With the snapshots that they were of.
    pub(crate) snapshots: Vec<ObjectId>,
    /// Those that had to stay, and why.
    pub(crate) kept: Vec<(ObjectId, String)>,
}

/// What gc did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GcView {
    /// Bytes that are free now.
    pub freed_bytes: u64,
    /// Commits that are gone.
    pub commits: u64,
    /// Objects that are gone.
    pub objects: u64,
}

impl UserStore {
    /// Leaves commits out of history, but for those that `needed` gives a reason for. With `force` tags go with them.
    pub(crate) fn forget(
        &self,
        wanted: &[ObjectId],
        needed: &dyn Fn(&ObjectId) -> Option<String>,
        force: bool,
    ) -> Result<Forgotten> {
        for attempt in 1.. {
            match self.try_forget(wanted, needed, force) {
                Err(LifecycleError::Store(StoreError::RefConflict { .. })) if attempt < ATTEMPTS => {}
                other => return other,
            }
        }
        Ok(Forgotten::default())
    }

    fn try_forget(
        &self,
        wanted: &[ObjectId],
        needed: &dyn Fn(&ObjectId) -> Option<String>,
        force: bool,
    ) -> Result<Forgotten> {
        // Held until it is done: a restore begins before this, and is seen, or after it, and finds the commit gone.
        let used = self.known.used();
        let (mut grafts, before) = Grafts::load_from(&self.store).map_err(|error| unread(*error))?;
        let tags = by_commit(self.tags()?);
        let threads = by_commit(self.threads()?);
        let mut outcome = Forgotten::default();
        let (mut leaving, mut changes) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for id in wanted.iter().filter(|id| seen.insert(**id)) {
            if grafts.contains(id) {
                outcome.forgotten.push(*id);
                continue;
            }
            let tagged = tags.get(id).map(Vec::as_slice).unwrap_or_default();
            let reason = if let Some(reason) = needed(id) {
                Some(reason)
            } else if used.contains_key(id) {
                Some("it is being restored".to_owned())
            } else {
                let names = || tagged.iter().map(|tag| format!("`{tag}`")).collect::<Vec<_>>().join(", ");
                (!tagged.is_empty() && !force).then(|| format!("it is tagged {}", names()))
            };
            if let Some(reason) = reason {
                outcome.kept.push((*id, reason));
                continue;
            }
            let commit = self.known.commit(&self.store, id).map_err(|error| unread(*error))?;
            outcome.forgotten.push(*id);
            outcome.snapshots.push(commit.snapshot);
            leaving.push((*id, commit.parents.clone()));
            for tag in tagged {
                let name = Tag::new(tag.as_str())?.ref_path();
                changes.push(RefChange { name, expected: Expected::At(*id), new: None });
            }
        }
        if leaving.is_empty() {
            return Ok(outcome);
        }
        grafts.forget(&leaving);
        for (id, parents) in &leaving {
            // Whose thread nobody goes on with: it steps back to what is left.
            let back = grafts.parents(parents).first().copied();
            let back = back.filter(|id| self.store.contains(id).unwrap_or(false));
            for thread in threads.get(id).into_iter().flatten() {
                let name = Thread::new(thread.as_str())?.ref_path();
                changes.push(RefChange { name, expected: Expected::At(*id), new: back });
            }
        }
        let session = self.write(&[])?;
        changes.push(grafts.change(&session, before).map_err(unsaved)?);
        session.commit(&changes)?;
        drop(used);
        Ok(outcome)
    }

    /// Frees what nothing leads to. Writers and readers may be at work meanwhile.
    pub(crate) fn gc(&self, progress: &dyn Progress) -> Result<GcView> {
        let commits = self.count_commits()?;
        let report = self.store.gc(&ManifestReferences::default(), &GcOptions::default(), progress)?;
        let unread = report.plan.unreadable.len() + report.damaged.len();
        if unread > 0 {
            return Err(LifecycleError::GcIncomplete { count: unread });
        }
        if report.waiting_for > 0 {
            return Err(LifecycleError::WritersBusy { count: report.waiting_for });
        }
        self.known.clear();
        self.drop_entries()?;
        let gone = report.plan.packs.iter().filter(|plan| plan.action != Action::Keep);
        Ok(GcView {
            freed_bytes: report.plan.freed(),
            commits: commits.saturating_sub(self.count_commits()?),
            objects: gone.map(|plan| u64::from(plan.pack.objects).saturating_sub(plan.live_objects)).sum(),
        })
    }

    /// How many forgotten commits gc has not come to yet.
    pub(crate) fn forgotten_and_there(&self) -> Result<usize> {
        let grafts = self.grafts()?;
        let mut count = 0;
        for id in grafts.iter() {
            count += usize::from(self.store.contains(id)?);
        }
        Ok(count)
    }

    fn count_commits(&self) -> Result<u64> {
        let mut count = 0;
        self.store.catalogue().for_each_object(&mut |_, location| {
            count += u64::from(location.kind == COMMIT);
            Ok(())
        })?;
        Ok(count)
    }

    /// Shortens the list of what was forgotten: to what a commit that is left has as a parent, and what is still in the store
    /// and could be named.
    fn drop_entries(&self) -> Result<()> {
        let (mut grafts, before) = Grafts::load_from(&self.store).map_err(|error| unread(*error))?;
        if grafts.is_empty() {
            return Ok(());
        }
        let heads: Vec<_> = self.threads()?.into_iter().chain(self.tags()?).map(|(_, head)| head).collect();
        let mut named: HashSet<ObjectId> = HashSet::new();
        for (id, commit) in self.log(heads)? {
            // Behind one that cannot be read there may be more parents: nothing is dropped then.
            let Ok(_) = commit else { return Ok(()) };
            named.extend(
                self.known.commit(&self.store, &id).map_err(|error| unread(*error))?.parents.iter().copied(),
            );
        }
        let length = grafts.len();
        grafts.retain(|id| named.contains(id) || self.store.contains(id).unwrap_or(true));
        if grafts.len() == length {
            return Ok(());
        }
        let session = self.write(&[])?;
        let change = grafts.change(&session, before).map_err(unsaved)?;
        match session.commit(&[change]) {
            // Somebody forgot something meanwhile. The next gc comes to it.
            Err(StoreError::RefConflict { .. }) => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Sets a tag. One that is there is moved only with `move_it`.
    pub(crate) fn set_tag(&self, name: &str, id: ObjectId, move_it: bool) -> Result<()> {
        let name = Tag::new(name)?.ref_path();
        // So that it is not forgotten at the same moment.
        let _nobody_forgets = self.known.used();
        if self.grafts()?.contains(&id) {
            return Err(LifecycleError::Forgotten { commit: id.short() });
        }
        let expected = if move_it { Expected::Any } else { Expected::Absent };
        if !move_it && self.store.refs().get(&name)? == Some(id) {
            return Ok(());
        }
        self.change(name, expected, Some(id))
    }

    /// What a tag is at.
    pub(crate) fn tag(&self, tag: &str) -> Result<Option<ObjectId>> {
        Ok(self.store.refs().get(&Tag::new(tag)?.ref_path())?)
    }

    /// Takes a tag away, and says what it was at.
    pub(crate) fn remove_tag(&self, tag: &str) -> Result<ObjectId> {
        let name = Tag::new(tag)?.ref_path();
        let found = self.store.refs().get(&name)?;
        let id = found.ok_or_else(|| LifecycleError::NoSuchSnapshot { which: tag.to_owned() })?;
        self.change(name, Expected::At(id), None)?;
        Ok(id)
    }
}

fn by_commit(names: Vec<(String, ObjectId)>) -> HashMap<ObjectId, Vec<String>> {
    let mut map: HashMap<ObjectId, Vec<String>> = HashMap::new();
    for (name, id) in names {
        map.entry(id).or_default().push(name);
    }
    map
}

pub(crate) fn unsaved(error: SaveError<StoreError>) -> LifecycleError {
    match error {
        SaveError::Object(error) => error.into(),
        SaveError::Sink(error) => error.into(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
