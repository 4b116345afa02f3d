//! One operation at a time on a session.
//!
//! A lock is held by an operation from its first look at the record to its last write. A second operation does not wait:
//! it is told what is under way, because a snapshot that was asked for now and taken after a rollback is not the one that
//! was meant. Different sessions never wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::JobKind;

use crate::error::{RecordError, Result};
use crate::session::SessionId;

/// What is being done to a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// It is being made.
    Start,
    /// Its state is taken, and it goes on.
    Snapshot,
    /// It goes back.
    Rollback,
    /// Another is made of it.
    Branch,
    /// Its state is taken, and it ends.
    Suspend,
    /// It comes back from there.
    Resume,
    /// It ends.
    Stop,
    /// It ends and begins anew.
    Restart,
    /// It goes for good.
    Remove,
    /// Its work is brought back onto the GPU. Nobody asked for it, so it is no kind of job.
    GpuReturn,
}

impl Doing {
    /// For a sentence: "… is under way".
    pub const fn phrase(self) -> &'static str {
        self.words().1
    }

    /// The kind of job that does it.
    pub const fn kind(self) -> Option<JobKind> {
        self.words().0
    }

    const fn words(self) -> (Option<JobKind>, &'static str) {
        match self {
            Self::Start => (Some(JobKind::Start), "its start"),
            Self::Snapshot => (Some(JobKind::Snapshot), "a snapshot"),
            Self::Rollback => (Some(JobKind::Rollback), "a rollback"),
            Self::Branch => (Some(JobKind::Branch), "a branch"),
            Self::Suspend => (Some(JobKind::Suspend), "a suspend"),
            Self::Resume => (Some(JobKind::Resume), "a resume"),
            Self::Stop => (Some(JobKind::Stop), "its end"),
            Self::Restart => (Some(JobKind::Restart), "a restart"),
            Self::Remove => (Some(JobKind::Remove), "its removal"),
            Self::GpuReturn => (None, "its return to the GPU"),
        }
    }

    /// Whether the processes that run before it are others than those that run after it.
    pub const fn exchanges_processes(self) -> bool {
        !matches!(self, Self::Snapshot | Self::Branch | Self::GpuReturn)
    }
}

/// What is under way, by session.
#[derive(Clone, Default, Debug)]
pub struct Locks {
    held: Arc<Mutex<HashMap<SessionId, Doing>>>,
}

/// An operation's hold on a session; ends with it.
#[derive(Debug)]
#[must_use = "dropped, it lets the session go"]
pub struct Held {
    locks: Locks,
    id: SessionId,
}

impl Locks {
    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, Doing>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes hold of a session for `doing`.
    pub fn take(&self, id: &SessionId, name: &str, doing: Doing) -> Result<Held> {
        let mut held = self.held();
        if let Some(doing) = held.get(id) {
            return Err(RecordError::Busy { session: name.to_owned(), doing: doing.phrase() });
        }
        held.insert(id.clone(), doing);
        Ok(Held { locks: self.clone(), id: id.clone() })
    }

    /// What is under way.
    pub fn doing(&self, id: &SessionId) -> Option<Doing> {
        self.held().get(id).copied()
    }

    /// The kind of job that is under way, if somebody asked for it.
    pub fn job_of(&self, id: &SessionId) -> Option<JobKind> {
        self.doing(id).and_then(Doing::kind)
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
        let error = locks.take(&id, "work", Doing::Rollback).unwrap_err();
        assert!(error.to_string().contains("a snapshot is under way"), "{error}");
        assert_eq!(locks.doing(&id), Some(Doing::Snapshot));
        drop(locks.take(&SessionId::random().unwrap(), "other", Doing::Rollback).unwrap());
        drop(held);
        assert_eq!(locks.doing(&id), None);
        drop(locks.take(&id, "work", Doing::Rollback).unwrap());
    }
}
