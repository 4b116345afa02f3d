//! When something is to be done with a session that nobody asked for: the rules, without a clock.
//!
//! * *Every so often*: if the user's code ran since the last snapshot, and between cells. A kernel that is busy is waited for;
//!   one that has been busy without a break for three times as long, since the last snapshot too, is snapshotted in the midst of
//!   its cell.
//! * *When it rests*: a snapshot once the kernel has been idle for a while after something ran.
//! * *Sleep*: when it has been idle for long enough, and holds GPU memory if only those are meant.
//!
//! One thing at a time. What fails is not tried again for ten minutes; what finds somebody else at work is tried again soon.

use std::time::Duration;

use jupyter_bridge::client::Doing;

use crate::SessionPolicy;
use crate::pause::{Known, Pauses};

/// How long a session is left alone after something failed.
const AFTER_FAILURE: Duration = Duration::from_secs(600);
/// How soon to try again when somebody else was at work.
const AFTER_BUSY: Duration = Duration::from_secs(5);
/// How soon to ask again whether a session holds GPU memory: the driver and all its processes are asked for that.
const GPU_AGAIN: Duration = Duration::from_secs(10);
/// So many intervals of uninterrupted work, and a snapshot does not wait for its end any more.
const IMPATIENCE: u64 = 3;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// A snapshot, because it is time for one.
    Interval,
    /// A snapshot, because the kernel rests.
    Idle,
    /// Sleep.
    Suspend,
}

/// How it went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    /// It was done.
    Done,
    /// Not at all: somebody else was at work.
    Busy,
    /// It was tried and failed.
    Failed,
}

/// Why a snapshot that nobody asked for is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spared {
    /// Nothing ran since the last one.
    NothingNew,
    /// It would stand still for so long.
    TooLong(Duration),
    /// Something else is under way.
    Busy,
    /// Somebody needed the session before it stood still.
    GivenUp,
}

/// What is known about a session at a moment. Times count from one point that is always the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// When that is.
    pub now: Duration,
    /// What its kernel does and since when; `None` for a session that is no kernel.
    pub kernel: Option<(Doing, Duration)>,
    /// Changes when the user's code ran.
    pub runs: u64,
    /// An operation has hold of it.
    pub held: bool,
}

/// What was done with a session so far.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// When its last snapshot was taken, or it began to be looked after.
    last: Duration,
    /// How much had run by then.
    runs: u64,
    /// How much had run when an operation last took hold of it: what is in the snapshot that it takes, and perhaps less.
    at_hold: u64,
    under_way: Option<Due>,
    not_before: Duration,
    /// It held no GPU memory a moment ago.
    gpu_not_before: Duration,
    /// How long it stood still lately.
    pauses: Pauses,
}

impl Plan {
    /// For a session that is looked at for the first time. Its first cell may be over by now: it counts from nothing having run.
    pub fn new(now: Duration) -> Self {
        Self {
            last: now,
            runs: 0,
            at_hold: 0,
            under_way: None,
            not_before: Duration::ZERO,
            gpu_not_before: Duration::ZERO,
            pauses: Pauses::default(),
        }
    }

    /// What it did before anyone looked is not known, so something may have run.
    pub fn may_have_run(&mut self) {
        self.runs = self.runs.wrapping_sub(1);
    }

    /// An operation takes hold of it.
    pub fn held(&mut self, runs: u64) {
        self.at_hold = runs;
    }

    /// The state that it had then is in a snapshot now, whoever wanted it.
    pub fn kept(&mut self, now: Duration) {
        (self.last, self.runs) = (now, self.at_hold);
    }

    /// It stood still for so long.
    pub fn stood(&mut self, now: Duration, known: Known, took: Duration) {
        self.pauses.took(now, known, took);
    }

    /// Why a snapshot is not taken that may take no longer than `within`. How much its kernel has run is `None` for what is no kernel.
    pub fn spares(&self, now: Duration, runs: Option<u64>, known: Known, within: Duration) -> Option<Spared> {
        if runs == Some(self.runs) {
            return Some(Spared::NothingNew);
        }
        let expected = self.pauses.expected(now, known);
        (expected > within).then_some(Spared::TooLong(expected))
    }

    /// What was due has been tried.
    pub fn did(&mut self, now: Duration, did: Did) {
        self.under_way = None;
        self.not_before = match did {
            Did::Done => Duration::ZERO,
            Did::Busy => now + AFTER_BUSY,
            Did::Failed => now + AFTER_FAILURE,
        };
    }

    /// What is to be done now, which the caller then begins. `holds_gpu` is asked only when the answer depends on it.
    pub fn look(
        &self,
        policy: &SessionPolicy,
        facts: Facts,
        holds_gpu: impl FnOnce() -> bool,
    ) -> Option<Due> {
        if self.under_way.is_some() || facts.held || facts.now < self.not_before {
            return None;
        }
        self.due(policy, facts, || facts.now >= self.gpu_not_before && holds_gpu())
    }

    /// It holds no GPU memory.
    pub fn without_gpu(&mut self, now: Duration) {
        self.gpu_not_before = now + GPU_AGAIN;
    }

    /// It is being done from now on.
    pub fn begin(&mut self, due: Due) {
        self.under_way = Some(due);
    }

    fn due(&self, policy: &SessionPolicy, facts: Facts, holds_gpu: impl FnOnce() -> bool) -> Option<Due> {
        let since = |then: Duration| facts.now.saturating_sub(then);
        let waited = since(self.last);
        let over = |limit: Option<u64>, time: Duration| limit.is_some_and(|limit| time >= seconds(limit));
        let every = policy.snapshot_every_s;
        let Some((doing, from)) = facts.kernel else {
            // A command says nothing of what it does.
            return over(every, waited).then_some(Due::Interval);
        };
        let changed = facts.runs != self.runs;
        match doing {
            Doing::Unknown => None,
            Doing::Busy => {
                let patience = every.map(|every| every.saturating_mul(IMPATIENCE));
                (over(patience, since(from)) && over(patience, waited)).then_some(Due::Interval)
            }
            Doing::Idle => {
                let rested = since(from);
                if over(policy.suspend_after_idle_s, rested) && (!policy.suspend_only_gpu || holds_gpu()) {
                    Some(Due::Suspend)
                } else if changed && over(every, waited) {
                    Some(Due::Interval)
                } else if changed && over(policy.snapshot_after_idle_s, rested) {
                    Some(Due::Idle)
                } else {
                    None
                }
            }
        }
    }
}

/// Nobody means never by 0.
fn seconds(limit: u64) -> Duration {
    Duration::from_secs(limit.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn policy(every: Option<u64>, idle: Option<u64>, suspend: Option<u64>) -> SessionPolicy {
        SessionPolicy {
            snapshot_every_s: every,
            snapshot_after_idle_s: idle,
            suspend_after_idle_s: suspend,
            ..SessionPolicy::default()
        }
    }

    fn idle(now: u64, since: u64, runs: u64) -> Facts {
        Facts { now: S(now), kernel: Some((Doing::Idle, S(since))), runs, held: false }
    }

    fn busy(now: u64, since: u64, runs: u64) -> Facts {
        Facts { kernel: Some((Doing::Busy, S(since))), ..idle(now, since, runs) }
    }

    fn no() -> bool {
        panic!("nobody asked about GPUs")
    }

    impl Plan {
        fn begins(
            &mut self,
            policy: &SessionPolicy,
            facts: Facts,
            holds_gpu: impl FnOnce() -> bool,
        ) -> Option<Due> {
            let due = self.look(policy, facts, holds_gpu)?;
            self.begin(due);
            Some(due)
        }
    }

    #[test]
    fn every_so_often_if_something_ran() {
        let (policy, mut plan) = (policy(Some(60), None, None), Plan::new(S(0)));
        assert_eq!(plan.begins(&policy, idle(100, 10, 0), no), None, "nothing ran");
        assert_eq!(plan.begins(&policy, idle(59, 10, 1), no), None, "too soon");
        assert_eq!(plan.begins(&policy, idle(60, 10, 1), no), Some(Due::Interval));
        assert_eq!(plan.begins(&policy, idle(61, 10, 1), no), None, "it is under way");
        plan.held(1);
        plan.kept(S(61));
        plan.did(S(62), Did::Done);
        assert_eq!(plan.begins(&policy, idle(500, 10, 1), no), None, "nothing ran since");
        assert_eq!(plan.begins(&policy, idle(501, 10, 2), no), Some(Due::Interval));
    }

    #[test]
    fn a_cell_is_waited_for_but_not_for_ever() {
        let (policy, mut plan) = (policy(Some(60), None, None), Plan::new(S(0)));
        assert_eq!(plan.begins(&policy, busy(179, 0, 1), no), None);
        assert_eq!(plan.begins(&policy, busy(190, 20, 1), no), None, "it was idle in between");
        assert_eq!(plan.begins(&policy, busy(200, 20, 1), no), Some(Due::Interval));
        plan.held(1);
        plan.kept(S(200));
        plan.did(S(201), Did::Done);
        assert_eq!(plan.begins(&policy, busy(379, 20, 1), no), None, "the same cell");
        assert_eq!(plan.begins(&policy, busy(380, 20, 1), no), Some(Due::Interval));
    }

    #[test]
    fn at_rest_once() {
        let (policy, mut plan) = (policy(None, Some(10), None), Plan::new(S(0)));
        assert_eq!(plan.begins(&policy, idle(9, 0, 1), no), None);
        assert_eq!(plan.begins(&policy, idle(10, 0, 1), no), Some(Due::Idle));
        plan.held(1);
        plan.kept(S(10));
        plan.did(S(11), Did::Done);
        assert_eq!(plan.begins(&policy, idle(999, 0, 1), no), None);
    }

    #[test]
    fn a_first_cell_that_was_over_before_anyone_looked() {
        let (policy, mut plan) = (policy(None, Some(10), None), Plan::new(S(1)));
        assert_eq!(plan.begins(&policy, idle(11, 1, 1), no), Some(Due::Idle));
    }

    #[test]
    fn sleep_is_for_those_with_gpu_memory_unless_all_are_meant() {
        let (mut policy, mut plan) = (policy(None, None, Some(30)), Plan::new(S(0)));
        assert_eq!(plan.begins(&policy, idle(29, 0, 0), no), None);
        assert_eq!(plan.begins(&policy, idle(30, 0, 0), || false), None);
        assert_eq!(plan.clone().begins(&policy, idle(30, 0, 0), || true), Some(Due::Suspend));
        policy.suspend_only_gpu = false;
        assert_eq!(plan.begins(&policy, busy(99, 0, 0), no), None);
        assert_eq!(plan.begins(&policy, idle(99, 0, 0), no), Some(Due::Suspend));
    }

    #[test]
    fn failures_are_no_loop() {
        let (policy, mut plan) = (policy(Some(1), None, None), Plan::new(S(0)));
        assert_eq!(plan.begins(&policy, idle(5, 0, 1), no), Some(Due::Interval));
        plan.did(S(6), Did::Failed);
        assert_eq!(plan.begins(&policy, idle(605, 0, 1), no), None);
        assert_eq!(plan.begins(&policy, idle(606, 0, 1), no), Some(Due::Interval));
        plan.did(S(606), Did::Busy);
        assert_eq!(plan.begins(&policy, idle(610, 0, 1), no), None);
        let held = Facts { held: true, ..idle(620, 0, 1) };
        assert_eq!(plan.begins(&policy, held, no), None, "somebody is at work");
        assert_eq!(plan.begins(&policy, idle(621, 0, 1), no), Some(Due::Interval));
    }

    #[test]
    fn what_is_not_known_is_left_alone_and_a_command_has_only_the_interval() {
        let all = policy(Some(10), Some(10), Some(10));
        let unknown = Facts { kernel: Some((Doing::Unknown, S(0))), ..idle(999, 0, 5) };
        assert_eq!(Plan::new(S(0)).begins(&all, unknown, no), None);
        let command = Facts { kernel: None, ..idle(10, 0, 0) };
        assert_eq!(Plan::new(S(0)).begins(&all, command, no), Some(Due::Interval));
        assert_eq!(Plan::new(S(0)).begins(&policy(None, None, None), idle(9999, 0, 9), no), None);
    }

    #[test]
    fn what_holds_no_gpu_memory_is_not_asked_every_second() {
        let (policy, mut plan) = (policy(None, None, Some(30)), Plan::new(S(0)));
        assert_eq!(plan.begins(&policy, idle(30, 0, 0), || false), None);
        plan.without_gpu(S(30));
        assert_eq!(plan.begins(&policy, idle(39, 0, 0), no), None);
        assert_eq!(plan.begins(&policy, idle(40, 0, 0), || true), Some(Due::Suspend));
    }

    #[test]
    fn what_nobody_asked_for_is_spared_if_it_is_nothing_new_or_takes_too_long() {
        let (small, large) = (Known { memory_bytes: 60 << 20, copied_ahead: false }, 8 << 30);
        let large = Known { memory_bytes: large, ..small };
        let (mut plan, within) = (Plan::new(S(0)), Duration::from_millis(100));
        assert_eq!(plan.spares(S(1), Some(0), small, within), Some(Spared::NothingNew), "no cell ran");
        assert_eq!(plan.spares(S(1), Some(1), small, within), None);
        assert!(matches!(plan.spares(S(1), Some(1), large, within), Some(Spared::TooLong(_))));
        assert_eq!(plan.spares(S(1), None, small, within), None, "a command says nothing of what it does");
        plan.held(1);
        plan.kept(S(2));
        assert_eq!(plan.spares(S(3), Some(1), small, within), Some(Spared::NothingNew));
        assert_eq!(plan.spares(S(3), Some(2), small, within), None);
        plan.stood(S(3), small, S(1));
        plan.stood(S(3), small, S(1));
        assert!(
            matches!(plan.spares(S(4), Some(2), small, within), Some(Spared::TooLong(_))),
            "it is slow here"
        );
    }

    #[test]
    fn after_a_restart_something_may_have_run() {
        let (policy, mut plan) = (policy(None, Some(10), None), Plan::new(S(0)));
        plan.may_have_run();
        assert_eq!(plan.begins(&policy, idle(10, 0, 0), no), Some(Due::Idle));
    }
}
