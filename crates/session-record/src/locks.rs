//! One operation at a time on a session.
//!
//! A lock is held by an operation from its first look at the record to its last write. A second operation does not wait:
//! it is told what is under way, because a snapshot that was asked for now and taken after a rollback is not the one that
//! was meant. Different sessions never wait for each other.
//!
//! A snapshot that nobody asked for is in nobody's way: whoever comes while one is taken waits for its end. It is given up if nothing stands still for it
//! yet, so the wait is short.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::JobKind;

use crate::error::{RecordError, Result};
use crate::session::SessionId;

/// How long the end of a snapshot is waited for that nobody asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is being done to a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// It is being made.
    Start,
    /// Its state is taken, and it goes on.
    Snapshot,
    /// The same, and nobody asked for it.
    Automatic,
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
            Self::Snapshot | Self::Automatic => (Some(JobKind::Snapshot), "a snapshot"),
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
        !matches!(self, Self::Snapshot | Self::Automatic | Self::Branch | Self::GpuReturn)
    }
}

/// What is under way, by session.
#[derive(Clone, Default, Debug)]
pub struct Locks(Arc<Shared>);

#[derive(Default, Debug)]
struct Shared {
    held: Mutex<HashMap<SessionId, Hold>>,
    ended: Condvar,
}

#[derive(Debug)]
struct Hold {
    doing: Doing,
    /// What nobody asked for is not to begin any more.
    given_up: bool,
    /// It has begun.
    stands: bool,
}

impl Hold {
    /// Gives up what has not begun; says whether it is.
    fn give_up(&mut self) -> bool {
        self.given_up = self.doing == Doing::Automatic && !self.stands;
        self.given_up
    }
}

/// An operation's hold on a session; ends with it.
#[derive(Debug)]
#[must_use = "dropped, it lets the session go"]
pub struct Held {
    locks: Locks,
    id: SessionId,
}

impl Locks {
    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, Hold>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes hold of a session for `doing`. A snapshot that nobody asked for is waited for.
    pub fn take_in_turn(&self, id: &SessionId, name: &str, doing: Doing) -> Result<Held> {
        let mut held = self.held();
        let until = Instant::now() + PATIENCE;
        while let Some(other) = held.get_mut(id) {
            let left = until.saturating_duration_since(Instant::now());
            if other.doing != Doing::Automatic || doing == Doing::Automatic || left.is_zero() {
                return Err(busy(name, other.doing));
            }
            other.give_up();
            (held, _) = self.0.ended.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(self.hold(&mut held, id, doing))
    }

    /// Takes hold of a session for `doing`, now or not at all.
    pub fn take(&self, id: &SessionId, name: &str, doing: Doing) -> Result<Held> {
        let mut held = self.held();
        match held.get(id) {
            Some(other) => Err(busy(name, other.doing)),
            None => Ok(self.hold(&mut held, id, doing)),
        }
    }

    fn hold(&self, held: &mut HashMap<SessionId, Hold>, id: &SessionId, doing: Doing) -> Held {
        held.insert(id.clone(), Hold { doing, given_up: false, stands: false });
        Held { locks: self.clone(), id: id.clone() }
    }

    /// Gives up a snapshot that nobody asked for, unless it has begun; says whether there was one.
    pub fn give_up(&self, id: &SessionId) -> bool {
        self.held().get_mut(id).is_some_and(Hold::give_up)
    }

    /// Whether the processes may stand still now. From here on, it is not given up any more.
    pub fn may_stand(&self, id: &SessionId) -> bool {
        let mut held = self.held();
        let Some(hold) = held.get_mut(id) else { return true };
        hold.stands = !hold.given_up;
        hold.stands
    }

    /// What is under way.
    pub fn doing(&self, id: &SessionId) -> Option<Doing> {
        self.held().get(id).map(|hold| hold.doing)
    }

    /// The kind of job that is under way, if somebody asked for it.
    pub fn job_of(&self, id: &SessionId) -> Option<JobKind> {
        self.doing(id).and_then(Doing::kind)
    }
}

fn busy(session: &str, doing: Doing) -> RecordError {
    RecordError::Busy { session: session.to_owned(), doing: doing.phrase() }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.held().remove(&self.id);
        self.locks.0.ended.notify_all();
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

    #[test]
    fn what_nobody_asked_for_is_given_up_and_waited_for() {
        let locks = Locks::default();
        let id = SessionId::random().unwrap();
        assert!(!locks.give_up(&id), "there is none");
        let held = locks.take(&id, "work", Doing::Automatic).unwrap();
        locks.take_in_turn(&id, "work", Doing::Automatic).unwrap_err();
        locks.take(&id, "work", Doing::Rollback).unwrap_err();
        std::thread::scope(|scope| {
            let rollback = scope.spawn(|| locks.take_in_turn(&id, "work", Doing::Rollback).map(drop));
            while locks.held().get(&id).is_none_or(|hold| !hold.given_up) {
                std::thread::yield_now();
            }
            assert!(!locks.may_stand(&id) && !rollback.is_finished());
            drop(held);
            rollback.join().unwrap().unwrap();
        });
    }

    #[test]
    fn what_stands_still_is_not_given_up() {
        let locks = Locks::default();
        let id = SessionId::random().unwrap();
        let _held = locks.take(&id, "work", Doing::Automatic).unwrap();
        assert!(locks.may_stand(&id));
        assert!(!locks.give_up(&id));
        let other = SessionId::random().unwrap();
        let _manual = locks.take(&other, "other", Doing::Snapshot).unwrap();
        assert!(!locks.give_up(&other) && locks.may_stand(&other), "somebody asked for it");
    }
}
