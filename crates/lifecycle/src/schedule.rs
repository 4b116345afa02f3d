//! What was done with each session by itself, for the rules to go by ([`policy::plan`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use policy::plan::{Due, Plan};

use crate::record::SessionId;

/// Something is due for a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errand {
    /// The session.
    pub session: SessionId,
    /// What is to be done with it.
    pub due: Due,
}

/// What was done with all of them.
pub(crate) struct Schedule {
    plans: Mutex<BTreeMap<SessionId, Plan>>,
    /// The point that all times count from.
    pub(crate) begun: Instant,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { plans: Mutex::default(), begun: Instant::now() }
    }
}

impl Schedule {
    pub(crate) fn plans(&self) -> MutexGuard<'_, BTreeMap<SessionId, Plan>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
