//! What is done with sessions by itself: looks at them once a second, and says what is due.
//!
//! The rules are `policy`'s ([`policy::plan`]). It is done by whoever takes the list ([`Engine::due`]): the daemon makes jobs of it, so that it is
//! seen, counted and waited for like everything else. They tell how it went with [`Engine::did`].

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use jupyter_bridge::client::Doing;
use policy::plan::{Did, Facts, Plan};

use crate::engine::{Engine, Inner};
use crate::error::{Result, io_error};
use crate::events::{EngineEvent, EventKind};
use crate::record::{Record, SessionId, SessionState};
use crate::schedule::Errand;

/// How often sessions are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// How many things may be due that nobody has taken on yet. What does not fit is due a second later, too.
const WAITING: usize = 64;

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
        let now = self.inner.schedule.now();
        if let Some(plan) = self.inner.schedule.plans().get_mut(session) {
            plan.did(now, did);
        }
    }

    /// An operation takes hold of a session.
    pub(crate) fn note_hold(&self, id: &SessionId) {
        let runs = self.inner.kernels.seen(id, |seen| seen.runs).unwrap_or(0);
        if let Some(plan) = self.inner.schedule.plans().get_mut(id) {
            plan.held(runs);
        }
    }

    /// What is due for one session. One that was there when we came may have run anything before.
    fn due_for(&self, record: &Record, we_came: bool) -> Option<Errand> {
        let schedule = &self.inner.schedule;
        let now = schedule.now();
        let facts = self.facts(record, now);
        let fresh = || {
            let mut plan = Plan::new(now);
            if we_came {
                plan.may_have_run();
            }
            plan
        };
        // A copy: what GPUs hold is the driver's to say, and it may take its time.
        let plan = schedule.plans().entry(record.id.clone()).or_insert_with(fresh).clone();
        let holds_gpu = || {
            let holds = self.holds_gpu_memory(record);
            if !holds && let Some(plan) = schedule.plans().get_mut(&record.id) {
                plan.without_gpu(now);
            }
            holds
        };
        let due = plan.look(&record.notes.policy, facts, holds_gpu)?;
        schedule.plans().get_mut(&record.id)?.begin(due);
        Some(Errand { session: record.id.clone(), due })
    }

    fn facts(&self, record: &Record, now: Duration) -> Facts {
        let begun = self.inner.schedule.begun;
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
            EventKind::Snapshot { .. } | EventKind::RolledBack { .. } => {
                if let Some(plan) = schedule.plans().get_mut(&event.session) {
                    plan.kept(schedule.now());
                }
            }
            // With new processes it begins anew.
            EventKind::State(state) if *state != SessionState::Running => {
                schedule.plans().remove(&event.session);
            }
            EventKind::Removed => {
                schedule.plans().remove(&event.session);
            }
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
