//! What is done with sessions by itself: looks at them once a second, and says what is due.
//!
//! The rules are `policy`'s ([`policy::schedule`]). It is done by whoever takes the list ([`Engine::due`]): the daemon makes jobs of it, so that it is
//! seen, counted and waited for like everything else. They tell how it went with [`Engine::did`].

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use api::{SessionState, SnapshotOutcome};
use jupyter_bridge::client::Doing;
use manifest::CommitReason;
use policy::pause::Known;
use policy::plan::{Did, Due, Facts};
use session_record::words::skipped;
use session_record::{Record, SessionId};

use crate::engine::{Engine, Inner};
use crate::error::{LifecycleError, Result, io_error};
use crate::ports::Tree;
use session_record::events::{EngineEvent, EventKind};

/// How often sessions are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// How many things may be due that nobody has taken on yet. What does not fit is due a second later, too.
const WAITING: usize = 64;

/// Something is due for a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errand {
    /// The session.
    pub session: SessionId,
    /// What is to be done with it.
    pub due: Due,
}

impl Engine {
    /// Begins to look after sessions by their policies, and hands out what is due. Each must be told about with
    /// [`Engine::did`]. Ends when the receiver is dropped.
    pub fn due(&self) -> Result<Receiver<Errand>> {
        let (send, due) = sync_channel(WAITING);
        let events = self.subscribe();
        let inner = Arc::downgrade(&self.inner);
        thread::Builder::new()
            .name("schedule".to_owned())
            .spawn(move || look_after(&inner, &events, &send))
            .map_err(io_error("start a thread for", "the schedule"))?;
        Ok(due)
    }

    /// How it went.
    pub fn did(&self, session: &SessionId, did: Did) {
        self.inner.schedule.did(session, self.now(), did);
    }

    /// An operation takes hold of a session.
    pub(crate) fn note_hold(&self, id: &SessionId) {
        let runs = self.inner.kernels.seen(id, |seen| seen.runs).unwrap_or(0);
        self.inner.schedule.held(id, runs);
    }

    /// Refuses a snapshot that nobody asked for, if nothing is new or it would take too long.
    pub(crate) fn spare(&self, record: &Record, reason: &CommitReason, within: Duration) -> Result<()> {
        let runs = self.inner.kernels.seen(&record.id, |seen| seen.runs);
        // Whoever asks after a cell knows that it has run, perhaps a moment before we do.
        let runs = runs.filter(|_| *reason != CommitReason::AfterCell);
        let known = self.known(record, None);
        let spared = self.inner.schedule.spares(&record.id, self.now(), runs, known, within);
        spared.map_or(Ok(()), |why| Err(LifecycleError::Skipped(skipped(record.head.clone(), why))))
    }

    /// A snapshot is in the store, and the session goes on.
    pub(crate) fn snapshot_kept(&self, record: &Record, taken: &SnapshotOutcome) {
        let known = self.known(record, Some(taken.memory_bytes));
        let took = Duration::from_micros(taken.frozen_us.max(taken.gpu_paused_us));
        self.inner.schedule.kept(&record.id, self.now());
        self.inner.schedule.stood(&record.id, self.now(), known, took);
    }

    /// What is known of its memory; `taken` of it is in a snapshot.
    fn known(&self, record: &Record, taken: Option<u64>) -> Known {
        let copied_ahead = record.gpus.is_empty() && self.checkpointer().copies_ahead(&Tree::of(record));
        let memory_bytes = taken.unwrap_or_else(|| {
            let now = self.measured(record);
            now.memory_bytes.unwrap_or(0) + now.vram_bytes.unwrap_or(0)
        });
        Known { memory_bytes, copied_ahead }
    }

    /// What is due for one session. One that was there when we came may have run anything before.
    fn due_for(&self, record: &Record, we_came: bool) -> Option<Errand> {
        let holds_gpu = || self.holds_gpu_memory(record);
        let (policy, facts) = (&record.notes.policy, self.facts(record));
        let due = self.inner.schedule.look(&record.id, policy, facts, we_came, holds_gpu)?;
        Some(Errand { session: record.id.clone(), due })
    }

    /// Times count from the moment at which the engine was opened.
    fn now(&self) -> Duration {
        self.inner.begun.elapsed()
    }

    fn facts(&self, record: &Record) -> Facts {
        let (now, begun) = (self.now(), self.inner.begun);
        let seen = self.inner.kernels.seen(&record.id, |seen| {
            (seen.activity.doing, seen.since.saturating_duration_since(begun), seen.runs)
        });
        let unknown = record.kernel.as_ref().map(|_| (Doing::Unknown, now));
        Facts {
            now,
            kernel: seen.map(|(doing, since, _)| (doing, since)).or(unknown),
            runs: seen.map_or(0, |(.., runs)| runs),
            held: self.inner.locks.doing(&record.id).is_some(),
        }
    }

    /// Notes what makes something due later than it would be, or never.
    fn note_for_schedule(&self, event: &EngineEvent) {
        let schedule = &self.inner.schedule;
        match &event.kind {
            EventKind::RolledBack { .. } => schedule.kept(&event.session, self.now()),
            EventKind::State(state) if *state != SessionState::Running => schedule.forget(&event.session),
            EventKind::Removed => schedule.forget(&event.session),
            _ => (),
        }
    }
}

/// Looks at all sessions, again and again.
fn look_after(inner: &Weak<Inner>, events: &Receiver<EngineEvent>, due: &SyncSender<Errand>) {
    let mut we_came = true;
    loop {
        thread::sleep(EVERY);
        let Some(inner) = inner.upgrade() else { return };
        let engine = Engine { inner };
        engine.tell_untold(Instant::now());
        events.try_iter().for_each(|event| engine.note_for_schedule(&event));
        let running: Vec<Record> = {
            let records = engine.records();
            records.values().filter(|record| record.state == SessionState::Running).cloned().collect()
        };
        engine.look_after_standbys(&running);
        for record in running {
            let Some(errand) = engine.due_for(&record, we_came) else { continue };
            if let Err(error) = due.try_send(errand) {
                engine.did(&record.id, Did::Busy);
                if matches!(error, std::sync::mpsc::TrySendError::Disconnected(_)) {
                    return;
                }
            }
        }
        we_came = false;
    }
}
