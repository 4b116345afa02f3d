//! Looking after what runs: events for those who listen, and the end of sessions that nobody ended.
//!
//! The first process of each session is watched through a pidfd, which the kernel makes readable when the process has ended,
//! whoever its parent is; so sessions that a daemon before us started are watched in the same way. A session that is in the
//! middle of an operation is left to the operation.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use jupyter_bridge::watch::Activity;
use sandbox::process::Identity;
use sandbox::{Ended, OrphanReaper};

use crate::engine::{Engine, Inner};
use crate::error::{Result, io_error};
use crate::record::{Record, SessionId, SessionState};

/// Something happened to a session.
#[derive(Clone, Debug)]
pub struct EngineEvent {
    /// When.
    pub time: Timestamp,
    /// To which.
    pub session: SessionId,
    /// Its name.
    pub name: String,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum EventKind {
    /// It has this state now.
    State(SessionState),
    /// A snapshot was taken.
    Snapshot {
        /// Which.
        commit: String,
    },
    /// It went back.
    RolledBack {
        /// To which.
        commit: String,
    },
    /// Its name or what is noted about it is other than it was.
    Changed,
    /// Its kernel does something else.
    Activity(Activity),
    /// Tags or snapshots of its family came or went.
    History,
    /// It is forgotten.
    Removed,
}

/// Those who listen.
#[derive(Clone, Default)]
pub(crate) struct Events {
    listeners: Arc<Mutex<Vec<SyncSender<EngineEvent>>>>,
}

/// A listener that falls behind by so many events is dropped.
const BACKLOG: usize = 4096;

impl Events {
    pub(crate) fn subscribe(&self) -> Receiver<EngineEvent> {
        let (send, receive) = sync_channel(BACKLOG);
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(send);
        receive
    }

    pub(crate) fn tell(&self, record: &Record, kind: EventKind) {
        let event = EngineEvent {
            time: Timestamp::now(),
            session: record.id.clone(),
            name: record.name.clone(),
            kind,
        };
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).retain(|listener| {
            match listener.try_send(event.clone()) {
                Ok(()) => true,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
            }
        });
    }
}

/// Who is told when the first process of a session has ended. The waiting itself, on pidfds, and the reaping of what
/// becomes our child are the sandbox's business.
pub(crate) struct Watcher {
    reaper: OrphanReaper,
    ends: Mutex<Option<Receiver<Ended>>>,
}

/// How long a child that somebody here started keeps its status for them.
const PATIENCE: Duration = Duration::from_secs(600);

impl Watcher {
    /// From here on, processes whose parent ends become children of ours.
    pub(crate) fn start() -> Result<Self> {
        let (send, receive) = channel();
        Ok(Self { reaper: OrphanReaper::start(PATIENCE, send)?, ends: Mutex::new(Some(receive)) })
    }

    /// Hands ends on to the engine, on a thread that does not keep it alive.
    pub(crate) fn report_to(&self, inner: &Arc<Inner>) -> Result<()> {
        let Some(ends) = self.ends.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let inner = Arc::downgrade(inner);
        thread::Builder::new()
            .name("watcher".to_owned())
            .spawn(move || {
                while let Ok(ended) = ends.recv() {
                    let Some(inner) = Weak::upgrade(&inner) else { return };
                    Engine { inner }.ended_by_itself(ended.identity);
                }
            })
            .map(drop)
            .map_err(io_error("start a thread for", "the watcher"))
    }

    /// Tells when this process ends. One that has ended already is told at once.
    pub(crate) fn look_after(&self, init: Identity) -> Result<()> {
        Ok(self.reaper.watch(init)?)
    }
}
