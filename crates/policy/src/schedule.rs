//! What was done with each session so far, and what is due for it now: a [`Plan`] for each.
//!
//! Sessions are told apart by a key of the caller's. All times are the caller's, too, and count from one point that is always the same.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::SessionPolicy;
use crate::pause::Known;
use crate::plan::{Did, Due, Facts, Plan, Spared};

/// The plans of all sessions that are looked after.
pub struct Schedule<K>(Mutex<BTreeMap<K, Plan>>);

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone> Schedule<K> {
    /// What is due for a session, which counts as begun from here on: [`Schedule::did`] must be told how it went. A session that `was_there`
    /// before anybody looked may have run anything. `holds_gpu` is asked only when the answer depends on it, and may take its time: nobody
    /// waits for it but the caller.
    pub fn look(
        &self,
        key: &K,
        policy: &SessionPolicy,
        facts: Facts,
        was_there: bool,
        holds_gpu: impl FnOnce() -> bool,
    ) -> Option<Due> {
        let fresh = || {
            let mut plan = Plan::new(facts.now);
            if was_there {
                plan.may_have_run();
            }
            plan
        };
        let plan = self.plans().entry(key.clone()).or_insert_with(fresh).clone();
        let holds_gpu = || {
            let holds = holds_gpu();
            if !holds {
                self.change(key, |plan| plan.without_gpu(facts.now));
            }
            holds
        };
        let due = plan.look(policy, facts, holds_gpu)?;
        // One that was forgotten meanwhile has other processes now, or none.
        self.plans().get_mut(key)?.begin(due);
        Some(due)
    }

    /// How it went.
    pub fn did(&self, key: &K, now: Duration, did: Did) {
        self.change(key, |plan| plan.did(now, did));
    }

    /// An operation takes hold of a session that has run so much.
    pub fn held(&self, key: &K, runs: u64) {
        self.change(key, |plan| plan.held(runs));
    }

    /// The state that it had then is in a snapshot now.
    pub fn kept(&self, key: &K, now: Duration) {
        self.change(key, |plan| plan.kept(now));
    }

    /// It stood still for so long, for a snapshot.
    pub fn stood(&self, key: &K, now: Duration, known: Known, took: Duration) {
        self.change(key, |plan| plan.stood(now, known, took));
    }

    /// Why a snapshot that nobody asked for is not taken, if it may take no longer than `within`.
    pub fn spares(
        &self,
        key: &K,
        now: Duration,
        runs: Option<u64>,
        known: Known,
        within: Duration,
    ) -> Option<Spared> {
        let plan = self.plans().get(key).cloned().unwrap_or_else(|| Plan::new(now));
        plan.spares(now, runs, known, within)
    }

    /// It has no processes any more. With new ones it begins anew.
    pub fn forget(&self, key: &K) {
        self.plans().remove(key);
    }

    fn change(&self, key: &K, change: impl FnOnce(&mut Plan)) {
        if let Some(plan) = self.plans().get_mut(key) {
            change(plan);
        }
    }

    fn plans(&self) -> MutexGuard<'_, BTreeMap<K, Plan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use jupyter_bridge::client::Doing;

    use super::*;

    const SLEEPS: SessionPolicy = SessionPolicy {
        snapshot_every_s: None,
        snapshot_after_idle_s: None,
        suspend_after_idle_s: Some(30),
        suspend_only_gpu: true,
        keep: None,
    };

    fn idle(now: u64) -> Facts {
        let now = Duration::from_secs(now);
        Facts { now, kernel: Some((Doing::Idle, Duration::ZERO)), runs: 0, held: false }
    }

    #[test]
    fn what_is_due_is_due_once_until_it_was_tried() {
        let schedule = Schedule::default();
        let look = |key, now| schedule.look(&key, &SLEEPS, idle(now), false, || true);
        assert_eq!(look(1, 30), Some(Due::Suspend));
        assert_eq!(look(1, 31), None, "it is under way");
        assert_eq!(look(2, 31), Some(Due::Suspend), "another session is another matter");
        schedule.did(&1, Duration::from_secs(32), Did::Busy);
        assert_eq!(look(1, 33), None, "too soon");
        assert_eq!(look(1, 37), Some(Due::Suspend));
        schedule.forget(&1);
        assert_eq!(look(1, 38), Some(Due::Suspend), "it begins anew");
    }

    #[test]
    fn a_session_that_ends_while_the_driver_is_asked_is_left_alone() {
        let schedule = Schedule::default();
        let ends = || {
            schedule.forget(&1);
            true
        };
        assert_eq!(schedule.look(&1, &SLEEPS, idle(30), false, ends), None);
    }

    #[test]
    fn the_driver_is_not_asked_again_at_once() {
        let schedule = Schedule::default();
        assert_eq!(schedule.look(&1, &SLEEPS, idle(30), false, || false), None);
        let asked = || panic!("it was asked a second ago");
        assert_eq!(schedule.look(&1, &SLEEPS, idle(31), false, asked), None);
    }

    #[test]
    fn what_was_there_before_anybody_looked_may_have_run() {
        let policy = SessionPolicy { snapshot_after_idle_s: Some(10), suspend_after_idle_s: None, ..SLEEPS };
        let look = |was_there| Schedule::default().look(&1, &policy, idle(10), was_there, || false);
        assert_eq!((look(false), look(true)), (None, Some(Due::Idle)));
    }
}
