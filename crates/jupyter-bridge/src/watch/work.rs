//! When a kernel was at work: what it wrote, it wrote then.
//!
//! A status comes a moment after what it tells of. An end that comes late only makes a period longer; so that a beginning that comes late
//! loses nothing, each period begins a little earlier.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use crate::client::Doing;

/// How late the word can come that a cell has begun.
const LATE: Duration = Duration::from_millis(250);

/// More than these are not told apart: the two oldest become one.
const KEPT: usize = 1024;

/// The periods in which a kernel was at work, or may have been.
#[derive(Clone, Debug)]
pub struct WorkTimes {
    known_from: SystemTime,
    past: VecDeque<(SystemTime, SystemTime)>,
    since: Option<SystemTime>,
}

impl WorkTimes {
    /// Nothing is known before `now`; from then on it may be at work until it says that it waits.
    pub(super) fn from(now: SystemTime) -> Self {
        Self { known_from: now, past: VecDeque::new(), since: Some(now) }
    }

    /// What it does from now on.
    pub(super) fn note(&mut self, doing: Doing, now: SystemTime) {
        match (doing, self.since) {
            (Doing::Idle, Some(since)) => {
                self.past.push_back((since, now));
                self.since = None;
            }
            (Doing::Busy | Doing::Unknown, None) => self.since = Some(now - LATE),
            _ => (),
        }
        if self.past.len() > KEPT
            && let (Some((from, _)), Some((_, to))) = (self.past.pop_front(), self.past.pop_front())
        {
            self.past.push_front((from, to));
        }
    }

    /// Since when these are known.
    pub fn known_from(&self) -> SystemTime {
        self.known_from
    }

    /// All of them; one that lasts ends `now`.
    pub fn periods(&self, now: SystemTime) -> Vec<(SystemTime, SystemTime)> {
        self.past.iter().copied().chain(self.since.map(|since| (since, now.max(since)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn it_is_at_work_while_it_does_not_wait() {
        let mut times = WorkTimes::from(at(10));
        assert_eq!(times.periods(at(11)), [(at(10), at(11))], "nobody knows yet");
        times.note(Doing::Idle, at(12));
        times.note(Doing::Idle, at(13));
        assert_eq!(times.periods(at(15)), [(at(10), at(12))]);
        times.note(Doing::Busy, at(20));
        times.note(Doing::Busy, at(21));
        times.note(Doing::Unknown, at(22));
        assert_eq!(times.periods(at(25)), [(at(10), at(12)), (at(20) - LATE, at(25))]);
        times.note(Doing::Idle, at(30));
        assert_eq!(times.periods(at(40)), [(at(10), at(12)), (at(20) - LATE, at(30))]);
        assert_eq!(times.known_from(), at(10));
    }

    #[test]
    fn they_do_not_grow_for_ever_and_never_lose_one() {
        let mut times = WorkTimes::from(at(0));
        times.note(Doing::Idle, at(1));
        for n in 1..3000 {
            times.note(Doing::Busy, at(10 * n));
            times.note(Doing::Idle, at(10 * n + 1));
        }
        let periods = times.periods(at(100_000));
        assert_eq!(periods.len(), KEPT);
        assert_eq!(periods.first().map(|(from, _)| *from), Some(at(0)));
        assert_eq!(periods.last(), Some(&(at(29_990) - LATE, at(29_991))));
    }
}
