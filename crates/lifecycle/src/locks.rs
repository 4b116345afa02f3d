//! One operation at a time on a session.
//!
//! A lock is held by an operation from its first look at the record to its last write. A second operation does not wait:
//! it is told what is under way, because a snapshot that was asked for now and taken after a rollback is not the one that
//! was meant. Different sessions never wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{LifecycleError, Result};
use crate::record::SessionId;

/// What is being done to a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    Start,
    Snapshot,
    Rollback,
    Branch,
    Suspend,
    Resume,
    Stop,
    Restart,
    Remove,
    /// Its work is brought back onto the GPU. Nobody asked for it, so it is no kind of job.
    GpuReturn,
}

impl Doing {
    /// For a sentence: "… is under way".
    pub(crate) const fn phrase(self) -> &'static str {
        match self {
            Self::Start => "its start",
            Self::Snapshot => "a snapshot",
            Self::Rollback => "a rollback",
            Self::Branch => "a branch",
            Self::Suspend => "a suspend",
            Self::Resume => "a resume",
            Self::Stop => "its end",
            Self::Restart => "a restart",
            Self::Remove => "its removal",
            Self::GpuReturn => "its return to the GPU",
        }
    }

    /// The kind of job that does it.
    pub(crate) const fn kind(self) -> Option<&'static str> {
        match self {
            Self::Start => Some("start"),
            Self::Snapshot => Some("snapshot"),
            Self::Rollback => Some("rollback"),
            Self::Branch => Some("branch"),
            Self::Suspend => Some("suspend"),
            Self::Resume => Some("resume"),
            Self::Stop => Some("stop"),
            Self::Restart => Some("restart"),
            Self::Remove => Some("remove"),
            Self::GpuReturn => None,
        }
    }

    /// Whether the processes that run before it are others than those that run after it.
    pub(crate) const fn exchanges_processes(self) -> bool {
        !matches!(self, Self::Snapshot | Self::Branch | Self::GpuReturn)
    }
}

/// What is under way, by session.
#[derive(Clone, Default)]
pub(crate) struct Locks {
    held: Arc<Mutex<HashMap<SessionId, Doing>>>,
}

/// An operation's hold on a session; ends with it.
pub(crate) struct Held {
    locks: Locks,
    id: SessionId,
}

impl Locks {
    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, Doing>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes hold of a session for `doing`.
    pub(crate) fn take(&self, id: &SessionId, name: &str, doing: Doing) -> Result<Held> {
        let mut held = self.held();
        if let Some(doing) = held.get(id) {
            return Err(LifecycleError::Busy { session: name.to_owned(), doing: doing.phrase() });
        }
        held.insert(id.clone(), doing);
        Ok(Held { locks: self.clone(), id: id.clone() })
    }

    /// What is under way.
    pub(crate) fn doing(&self, id: &SessionId) -> Option<Doing> {
        self.held().get(id).copied()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.held().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_operation_is_told_what_is_under_way() {
        let locks = Locks::default();
        let id = SessionId::random().unwrap();
        let held = locks.take(&id, "work", Doing::Snapshot).unwrap();
        let error = locks.take(&id, "work", Doing::Rollback).err().unwrap();
        assert_eq!(error.code(), "IJ-L013");
        assert!(error.to_string().contains("a snapshot is under way"), "{error}");
        assert_eq!(locks.doing(&id), Some(Doing::Snapshot));
        locks.take(&SessionId::random().unwrap(), "other", Doing::Rollback).unwrap();
        drop(held);
        assert_eq!(locks.doing(&id), None);
        locks.take(&id, "work", Doing::Rollback).unwrap();
    }
}
