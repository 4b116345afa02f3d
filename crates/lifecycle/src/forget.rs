//! Snapshots are tagged, forgotten and freed; those that nobody asked for go by themselves, as a session's policy says.
//!
//! Which commits must stay is known here: the newest of every session and thread that has one, for that is what the session goes
//! on from or comes back to; and what the journal names, for after a crash recovery goes there. What is being restored right
//! now is held by the restore itself ([`UserStore::using`]).

use std::collections::BTreeMap;

use api::{CommitView, ForgetOutcome, ForgetRequest, GcOutcome, KeptCommit, TagRequest};
use cas_core::ObjectId;
use cas_core::progress::Silent;
use history::{Forgotten, UserStore};
use policy::retention::surplus;
use session_record::{Record, SessionId};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::steps::{StepProgress, Steps, Watch};
use session_record::events::EventKind;

impl Engine {
    /// Gives a snapshot a name that stays. One that is in use is moved only if that is said.
    pub fn tag(&self, request: &TagRequest) -> Result<CommitView> {
        let TagRequest { name, commit, move_it } = request;
        let store = self.inner.store.open()?;
        let id = store.resolve(commit)?;
        let before = store.tag(name)?;
        store.set_tag(name, id, *move_it)?;
        let about: Vec<ObjectId> = before.into_iter().chain([id]).collect();
        self.tell_history(&store, &about);
        Ok(store.commit_view(id)?)
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
    pub fn forget_snapshots(&self, request: &ForgetRequest, watch: &dyn Watch) -> Result<ForgetOutcome> {
        let store = self.inner.store.open()?;
        let wanted =
            request.commits.iter().map(|which| Ok(store.resolve(which)?)).collect::<Result<Vec<_>>>()?;
        Steps::new(watch).run("forget", || self.forget_now(&store, &wanted, request.force))
    }

    /// After something was done by a session's policy: [`Engine::retain`], and gc when enough waits for it.
    pub fn tidy(&self, session: &SessionId) -> Result<ForgetOutcome> {
        let outcome = self.retain(session)?;
        if !outcome.forgotten.is_empty() {
            self.inner.store.open()?.gc_if_worth_it(&Silent)?;
        }
        Ok(outcome)
    }

    /// Forgets the automatic snapshots that the session's policy does not keep. What a gc frees afterwards is not freed here.
    pub fn retain(&self, session: &SessionId) -> Result<ForgetOutcome> {
        let record = self.records().get(session).cloned();
        let record = record.ok_or_else(|| LifecycleError::NoSuchSession { which: session.to_string() })?;
        let (Some(keep), Some(head)) = (record.notes.policy.keep, record.head_id()?) else {
            return Ok(ForgetOutcome::default());
        };
        let store = self.inner.store.open()?;
        let surplus = surplus(&store.automatic(&record.thread, head)?, keep);
        if surplus.is_empty() {
            return Ok(ForgetOutcome::default());
        }
        self.forget_now(&store, &surplus, false)
    }

    fn forget_now(&self, store: &UserStore, wanted: &[ObjectId], force: bool) -> Result<ForgetOutcome> {
        // Asked again for each: a snapshot that is taken meanwhile moves a head.
        let needed = |id: &ObjectId| self.needed_for(id);
        let sessions = self.sessions_about(store, wanted);
        let Forgotten { forgotten, kept: kept_commits } = store.forget(wanted, &needed, force)?;
        for id in &forgotten {
            // One that stays behind seals nothing that is there.
            let _litter = self.inner.sealer.remove(&id.to_string());
        }
        if !forgotten.is_empty() {
            for record in sessions {
                self.inner.events.tell(&record, EventKind::History);
            }
        }
        let kept = |(commit, reason): (ObjectId, String)| KeptCommit { commit: commit.to_string(), reason };
        Ok(ForgetOutcome {
            forgotten: forgotten.iter().map(ToString::to_string).collect(),
            kept: kept_commits.into_iter().map(kept).collect(),
        })
    }

    /// Frees what no snapshot needs any more.
    pub fn gc(&self, watch: &dyn Watch) -> Result<GcOutcome> {
        let store = self.inner.store.open()?;
        Steps::new(watch)
            .run("collect garbage", || Ok(store.gc(&StepProgress::new(watch, "collect garbage"))?))
    }

    /// Why a commit must stay, if it must.
    pub fn needed_for(&self, id: &ObjectId) -> Option<String> {
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
        let named =
            pending.iter().any(|(_, _, line)| line.as_ref().is_ok_and(|line| line.phase.names(&text)));
        named.then(|| "an operation on it is not finished".to_owned())
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
