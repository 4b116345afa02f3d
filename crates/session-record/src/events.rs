//! What happened to sessions, for those who listen.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::record::Record;
use crate::session::SessionId;
use api::{Activity, SessionState};
use jiff::Timestamp;

/// Something happened to a session.
#[derive(Clone, Debug)]
pub struct EngineEvent {
    /// When it happened.
    pub time: Timestamp,
    /// The session that it happened to.
    pub session: SessionId,
    /// Its name.
    pub name: String,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum EventKind {
    /// It has this state now.
    State(SessionState),
    /// A snapshot was taken.
    Snapshot {
        /// The new commit.
        commit: String,
    },
    /// It went back.
    RolledBack {
        /// The commit that it went back to.
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
#[derive(Clone, Default, Debug)]
pub struct Events {
    listeners: Arc<Mutex<Vec<SyncSender<EngineEvent>>>>,
}

/// A listener that falls behind by so many events is dropped.
const BACKLOG: usize = 4096;

impl Events {
    /// What happens from now on.
    pub fn subscribe(&self) -> Receiver<EngineEvent> {
        let (send, receive) = sync_channel(BACKLOG);
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(send);
        receive
    }

    /// Something happened to a session.
    pub fn tell(&self, record: &Record, kind: EventKind) {
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
