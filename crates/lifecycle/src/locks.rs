//! One operation at a time on a session.
//!
//! A lock is held by an operation from its first look at the record to its last write. A second operation does not wait:
//! it is told what is under way, because a snapshot that was asked for now and taken after a rollback is not the one that
//! was meant. Different sessions never wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{LifecycleError, Result};
use crate::record::SessionId;

/// What is under way, by session.
#[derive(Clone, Default)]
pub(crate) struct Locks {
    held: Arc<Mutex<HashMap<SessionId, &'static str>>>,
}

/// An operation's hold on a session; ends with it.
pub(crate) struct Held {
    locks: Locks,
    id: SessionId,
}

impl Locks {
    /// Takes hold of a session for `doing`.
    pub(crate) fn take(&self, id: &SessionId, name: &str, doing: &'static str) -> Result<Held> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(doing) = held.get(id) {
            return Err(LifecycleError::Busy { session: name.to_owned(), doing });
        }
        held.insert(id.clone(), doing);
        Ok(Held { locks: self.clone(), id: id.clone() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_operation_is_told_what_is_under_way() {
        let locks = Locks::default();
        let id = SessionId::random().unwrap();
        let held = locks.take(&id, "work", "a snapshot").unwrap();
        let error = locks.take(&id, "work", "a rollback").err().unwrap();
        assert_eq!(error.code(), "IJ-L013");
        assert!(error.to_string().contains("a snapshot is under way"), "{error}");
        locks.take(&SessionId::random().unwrap(), "other", "a rollback").unwrap();
        drop(held);
        locks.take(&id, "work", "a rollback").unwrap();
    }
}
