//! Commits leave history. What only they led to, `gc` frees later.
//!
//! What forgetting means is said in `manifest`'s [`Grafts`]; here is who may be forgotten, and the order of things. Refs change
//! last and one after the other: tags go, threads without a session step back, and only then is the list of what was forgotten
//! replaced, by compare-and-swap. A crash in between leaves a commit without its tag, never a name that leads to nothing.

use std::collections::{HashMap, HashSet};

use cas_core::refs::{Expected, RefChange};
use cas_core::{ObjectId, StoreError};
use manifest::history::Grafts;
use manifest::{Tag, Thread};

use crate::error::{HistoryError, Result};
use crate::names::REMEMBERED;
use crate::own_store::UserStore;

/// How often a change is tried anew when somebody else was faster.
const ATTEMPTS: usize = 5;

/// What became of commits that were to be forgotten.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Forgotten {
    /// Those that are in no history any more.
    pub forgotten: Vec<ObjectId>,
    /// Those that had to stay, and why.
    pub kept: Vec<(ObjectId, String)>,
}

impl UserStore {
    /// Leaves commits out of history, but for those that `needed` gives a reason for. With `force` tags go with them, and so does what was
    /// remembered of where remotes are.
    pub fn forget(
        &self,
        wanted: &[ObjectId],
        needed: &dyn Fn(&ObjectId) -> Option<String>,
        force: bool,
    ) -> Result<Forgotten> {
        for attempt in 1.. {
            match self.try_forget(wanted, needed, force) {
                Err(HistoryError::Store(StoreError::RefConflict { .. })) if attempt < ATTEMPTS => {}
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
        let (mut grafts, before) = Grafts::load_from(&self.store)?;
        let tags = by_commit(self.tags()?);
        let threads = by_commit(self.threads()?);
        let remembered = by_commit(self.remembered()?);
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
                let names = |names: &[String]| {
                    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
                };
                match remembered.get(id) {
                    _ if force => None,
                    _ if !tagged.is_empty() => Some(format!("it is tagged {}", names(tagged))),
                    Some(there) => Some(format!("in a remote it is where {} is", names(there))),
                    None => None,
                }
            };
            if let Some(reason) = reason {
                outcome.kept.push((*id, reason));
                continue;
            }
            let commit = self.known.commit(&self.store, id)?;
            outcome.forgotten.push(*id);
            leaving.push((*id, commit.parents.clone()));
            for tag in tagged {
                let name = Tag::new(tag.as_str())?.ref_path();
                changes.push(RefChange { name, expected: Expected::At(*id), new: None });
            }
            // The remote has it still. Here nothing may lead to it any more, or it would never be freed.
            for there in remembered.get(id).into_iter().flatten() {
                let name = format!("{REMEMBERED}{there}");
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
        changes.push(grafts.change(&session, before)?);
        session.commit(&changes)?;
        drop(used);
        Ok(outcome)
    }
}

/// Names by what they lead to.
pub(crate) fn by_commit(names: Vec<(String, ObjectId)>) -> HashMap<ObjectId, Vec<String>> {
    let mut map: HashMap<ObjectId, Vec<String>> = HashMap::new();
    for (name, id) in names {
        map.entry(id).or_default().push(name);
    }
    map
}

#[cfg(test)]
mod tests;
