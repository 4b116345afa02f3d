//! The front: every operation goes through here, and what all of them share is kept here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use api::SessionView;
use history::{OwnStore, Sealer};
use jupyter_bridge::watch::KernelWatch;
use policy::schedule::Schedule;
use sandbox::process::memory_of;
use sandbox::{OrphanReaper, User};
use session_record::journal::Journal;
use session_record::place::Place;
use session_record::{Listings, Record, SessionId, Writers, session_view};
use staging::{Reserve, Stages, Used};

use crate::config::Config;
use crate::effects::happened;
use crate::error::{LifecycleError, Result};
use crate::ports::{Checkpointer, Gpu, Habitat, Ports};
use crate::waiting::Standbys;
use crate::words::activity;
use session_record::events::{EngineEvent, EventKind, Events};
use session_record::locks::{Doing, Held, Locks};

/// Everything that can be done to sessions. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

/// What the clones share.
pub(crate) struct Inner {
    pub(crate) config: Config,
    /// Whom everything here belongs to.
    pub(crate) user: User,
    pub(crate) place: Place,
    /// Everything that is done to the machine.
    pub(crate) ports: Ports,
    pub(crate) sealer: Sealer,
    pub(crate) locks: Locks,
    pub(crate) journal: Journal,
    pub(crate) stages: Stages,
    pub(crate) listings: Listings,
    pub(crate) store: OwnStore,
    pub(crate) used: Used,
    pub(crate) reserve: Reserve,
    pub(crate) events: Events,
    /// Watches the first process of each session, also of those that a daemon before us started.
    pub(crate) watcher: OrphanReaper,
    pub(crate) kernels: KernelWatch<SessionId>,
    pub(crate) schedule: Schedule<SessionId>,
    pub(crate) standbys: Standbys,
    /// When it was opened.
    pub(crate) begun: Instant,
    pub(crate) sessions: Mutex<BTreeMap<SessionId, Record>>,
    pub(crate) writers: Writers,
    /// Held while a session gets another name.
    pub(crate) naming: Mutex<()>,
}

impl Engine {
    /// All sessions, oldest first.
    pub fn sessions(&self) -> Vec<SessionView> {
        let mut found: Vec<Record> = self.records().values().cloned().collect();
        found.sort_by(|one, other| one.created.cmp(&other.created).then_with(|| one.id.cmp(&other.id)));
        found.iter().map(|record| self.measured(record)).collect()
    }

    /// A session as an operation leaves it, with what was noted about it meanwhile.
    pub(crate) fn view(&self, record: &Record) -> SessionView {
        let mut record = record.clone();
        if let Some(known) = self.records().get(&record.id) {
            record.take_notes(known);
        }
        session_view(&record)
    }

    /// One session, by id, name or an unambiguous beginning of the id.
    pub fn session(&self, which: &str) -> Result<SessionView> {
        Ok(self.measured(&self.find(which)?))
    }

    /// A session with what is being done to it, and what its processes use now.
    pub(crate) fn measured(&self, record: &Record) -> SessionView {
        let init = record.init.map(|init| init.pid);
        let may_use_gpus = !record.gpus.is_empty() || record.habitat.is_adopted();
        SessionView {
            operation: self.inner.locks.job_of(&record.id).map(|kind| kind.as_str().to_owned()),
            activity: self.inner.kernels.activity(&record.id).map(activity),
            memory_bytes: init.and_then(memory_of),
            standby_bytes: self.inner.standbys.ready(&record.id).map(|ready| ready.bytes),
            vram_bytes: init.filter(|_| may_use_gpus).and_then(|init| self.gpu().held_by(init)),
            ..session_view(record)
        }
    }

    /// Whether a session holds GPU memory now.
    pub(crate) fn holds_gpu_memory(&self, record: &Record) -> bool {
        let may = !record.gpus.is_empty() || record.habitat.is_adopted();
        may && record.init.and_then(|init| self.gpu().held_by(init.pid)).is_some_and(|bytes| bytes > 0)
    }

    /// Where a session's log is. Its processes can put anything in its place: open it with [`sandbox::bounded`].
    pub fn log(&self, which: &str) -> Result<PathBuf> {
        Ok(self.inner.place.log(&self.find(which)?.id))
    }

    /// The servers that a session runs.
    pub fn servers(&self, which: &str) -> Result<Vec<api::Server>> {
        let record = self.find(which)?;
        self.habitat(&record).servers(&record)
    }

    /// Whether snapshots are encrypted.
    pub fn is_encrypted(&self) -> bool {
        // A store that is not as the settings have it was refused at the start.
        self.inner.config.key_file.is_some()
    }

    /// What happens from now on.
    pub fn subscribe(&self) -> std::sync::mpsc::Receiver<EngineEvent> {
        self.inner.events.subscribe()
    }

    /// Where a session's processes live.
    pub(crate) fn habitat(&self, record: &Record) -> &dyn Habitat {
        self.inner.ports.habitat(record.habitat)
    }

    /// Who saves and makes processes.
    pub(crate) fn checkpointer(&self) -> &dyn Checkpointer {
        self.inner.ports.checkpointer.as_ref()
    }

    /// The GPUs.
    pub(crate) fn gpu(&self) -> &dyn Gpu {
        self.inner.ports.gpu.as_ref()
    }

    pub(crate) fn records(&self) -> MutexGuard<'_, BTreeMap<SessionId, Record>> {
        self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of a session.
    pub(crate) fn find(&self, which: &str) -> Result<Record> {
        let records = self.records();
        let by_name = || records.values().find(|record| record.name == which);
        let by_id = records.values().find(|record| record.id.as_str() == which);
        if let Some(record) = by_id.or_else(by_name) {
            return Ok(record.clone());
        }
        let begins = |record: &&Record| which.len() >= 3 && record.id.as_str().starts_with(which);
        match records.values().filter(begins).collect::<Vec<_>>().as_slice() {
            [] => Err(LifecycleError::NoSuchSession { which: which.to_owned() }),
            [record] => Ok((*record).clone()),
            several => Err(LifecycleError::AmbiguousSession {
                which: which.to_owned(),
                fits: several.iter().map(|record| format!("{} ({})", record.name, record.id)).collect(),
            }),
        }
    }

    /// Takes hold of a session and reads its record, which nobody else changes until the hold ends.
    pub(crate) fn hold(&self, which: &str, doing: Doing) -> Result<(Held, Record)> {
        let record = self.find(which)?;
        let held = self.inner.locks.take_in_turn(&record.id, &record.name, doing)?;
        let record = self.records().get(&record.id).cloned();
        match record {
            Some(record) => {
                self.note_hold(&record.id);
                if doing.exchanges_processes() && doing != Doing::Rollback {
                    self.inner.standbys.end(&record.id, true);
                }
                Ok((held, record))
            }
            None => Err(LifecycleError::NoSuchSession { which: which.to_owned() }),
        }
    }

    /// Held by whoever replaces this session's record, from the look at the known one to the write.
    pub(crate) fn writing(&self, id: &SessionId) -> MutexGuard<'_, ()> {
        self.inner.writers.of(id)
    }

    /// Writes a record, to the disk first. Name and notes are those that are known: see [`session_record::Notes`].
    pub(crate) fn save(&self, record: &Record) -> Result<()> {
        let _writing = self.writing(&record.id);
        let mut record = record.clone();
        if let Some(known) = self.records().get(&record.id) {
            record.take_notes(known);
        }
        record.write(&self.inner.place.record(&record.id))?;
        happened(&format!("the record says {}", record.state.as_str()));
        let before = self.records().insert(record.id.clone(), record.clone()).map(|before| before.state);
        if before != Some(record.state) {
            self.inner.events.tell(&record, EventKind::State(record.state));
        }
        Ok(())
    }

    /// Forgets a session.
    pub(crate) fn forget(&self, record: &Record) {
        let _writing = self.writing(&record.id);
        self.records().remove(&record.id);
        self.inner.events.tell(record, EventKind::Removed);
    }

    /// A name that no other session has: the one asked for, or one that is made up.
    pub(crate) fn free_name(&self, wanted: Option<&str>, id: &SessionId) -> Result<String> {
        match wanted {
            Some(name) => {
                self.check_free_name(name)?;
                Ok(name.to_owned())
            }
            None => Ok(format!("s-{id}")),
        }
    }

    /// Refuses a name that is none, or that another session has.
    pub(crate) fn check_free_name(&self, name: &str) -> Result<()> {
        // It becomes part of paths and of thread names.
        base::names::check_session(name).map_err(|broken| LifecycleError::BadRequest {
            detail: format!("`{}` cannot name a session: {broken}", name.escape_debug()),
        })?;
        let taken = self.records().values().any(|record| record.name == name);
        if taken { Err(LifecycleError::NameTaken { name: name.to_owned() }) } else { Ok(()) }
    }
}
