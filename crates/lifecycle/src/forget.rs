//! Snapshots are tagged, forgotten and freed.
//!
//! Which commits must stay is known here: the newest of every session and thread that has one, for that is what the session goes
//! on from or comes back to; and what the journal names, for after a crash recovery goes there. What is being restored right
//! now is held by the restore itself ([`UserStore::using`]).

use std::collections::{BTreeMap, HashSet};

use cas_core::ObjectId;
use history::{Forgotten, GcView, UserStore};

use crate::engine::Engine;
use crate::error::Result;
use crate::events::EventKind;
use crate::journal::Phase;
use crate::record::Record;
use crate::steps::{StepProgress, Steps, Watch};
use crate::view::CommitView;

/// What became of snapshots that were to be forgotten.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ForgetOutcome {
    /// Those that are in no history any more.
    pub forgotten: Vec<ObjectId>,
    /// Those that had to stay, and why.
    pub kept: Vec<(ObjectId, String)>,
}

impl Engine {
    /// Gives a snapshot a name that stays. One that is in use is moved only if `move_it`.
    pub fn tag(&self, name: &str, which: &str, move_it: bool) -> Result<CommitView> {
        let store = self.inner.store.open()?;
        let id = store.resolve(which)?;
        let before = store.tag(name)?;
        store.set_tag(name, id, move_it)?;
        let about: Vec<ObjectId> = before.into_iter().chain([id]).collect();
        self.tell_history(&store, &about);
        self.commit(&id.to_string())
    }

    /// Takes such a name away.
    pub fn untag(&self, name: &str) -> Result<()> {
        let store = self.inner.store.open()?;
        let was = store.remove_tag(name)?;
        self.tell_history(&store, &[was]);
        Ok(())
    }

    /// Forgets snapshots. Those that have to stay are said; what cannot be found is an error, and nothing
    /// is forgotten then.
    pub fn forget_snapshots(
        &self,
        which: &[String],
        force: bool,
        watch: &dyn Watch,
    ) -> Result<ForgetOutcome> {
        let store = self.inner.store.open()?;
        let wanted = which.iter().map(|which| Ok(store.resolve(which)?)).collect::<Result<Vec<_>>>()?;
        Steps::new(watch).run("forget", || self.forget_now(&store, &wanted, force))
    }

    pub(crate) fn forget_now(
        &self,
        store: &UserStore,
        wanted: &[ObjectId],
        force: bool,
    ) -> Result<ForgetOutcome> {
        // Asked again for each: a snapshot that is taken meanwhile moves a head.
        let needed = |id: &ObjectId| self.needed_for(id);
        let sessions = self.sessions_about(store, wanted);
        let Forgotten { forgotten, snapshots, kept } = store.forget(wanted, &needed, force)?;
        for id in &forgotten {
            // One that stays behind seals nothing that is there.
            let _litter = self.inner.sealer.remove(&id.to_string());
        }
        let left = self.snapshots_of_heads(store);
        for snapshot in snapshots.iter().filter(|snapshot| !left.contains(snapshot)) {
            self.inner.stages.forget(&snapshot.to_string());
        }
        if !forgotten.is_empty() {
            for record in sessions {
                self.inner.events.tell(&record, EventKind::History);
            }
        }
        Ok(ForgetOutcome { forgotten, kept })
    }

    /// Frees what no snapshot needs any more.
    pub fn gc(&self, watch: &dyn Watch) -> Result<GcView> {
        let store = self.inner.store.open()?;
        Steps::new(watch)
            .run("collect garbage", || Ok(store.gc(&StepProgress::new(watch, "collect garbage"))?))
    }

    /// Why a commit must stay, if it must.
    fn needed_for(&self, id: &ObjectId) -> Option<String> {
        let text = id.to_string();
        let store = self.inner.store.open().ok()?;
        let at = |record: &&Record| {
            let head = || store.head(&record.thread).ok().flatten();
            record.head.as_deref() == Some(&text) || head() == Some(*id)
        };
        if let Some(record) = self.records().values().find(at) {
            return Some(format!("it is the newest snapshot of session {}", record.name));
        }
        let pending = match self.inner.journal.pending() {
            Ok(pending) => pending,
            Err(error) => return Some(format!("the journal cannot be read: {error}")),
        };
        let named = pending.iter().any(|(_, _, line)| match line.as_ref().map(|line| &line.phase) {
            Ok(Phase::Ending { safe, then, .. }) => *safe == text || then.as_deref() == Some(&text),
            Ok(Phase::Restoring { commit, safe, .. }) => *commit == text || *safe == text,
            Ok(Phase::Starting | Phase::Dumping { .. } | Phase::Stopping | Phase::Restarting) | Err(_) => {
                false
            }
        });
        named.then(|| "an operation on it is not finished".to_owned())
    }

    /// Snapshots that sessions are at: their plain images are worth their room.
    fn snapshots_of_heads(&self, store: &UserStore) -> HashSet<ObjectId> {
        let heads: Vec<_> =
            self.records().values().filter_map(|record| record.head_id().ok().flatten()).collect();
        heads.iter().filter_map(|head| store.commit_of(head).ok()).map(|commit| commit.snapshot).collect()
    }

    /// Tells those who look at a session that its history is another now.
    fn tell_history(&self, store: &UserStore, commits: &[ObjectId]) {
        for record in self.sessions_about(store, commits) {
            self.inner.events.tell(&record, EventKind::History);
        }
    }

    /// The sessions in whose families these commits are.
    fn sessions_about(&self, store: &UserStore, commits: &[ObjectId]) -> Vec<Record> {
        let mut about: BTreeMap<_, Record> = BTreeMap::new();
        for commit in commits {
            // Without an answer nobody is told, and a page is behind until it looks again.
            for record in self.family_of(store, commit).unwrap_or_default() {
                about.insert(record.id.clone(), record);
            }
        }
        about.into_values().collect()
    }
}
