//! What was seen of one kernel, and whether everybody knows.

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;

use super::work::WorkTimes;
use crate::client::{Doing, Status};

/// What changes more often than this is told with a delay: cells can be short.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// What a session's kernel is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activity {
    /// Idle, busy, or nobody knows.
    pub doing: Doing,
    /// When it began to.
    pub since: Timestamp,
    /// The number of the cell that runs or ran last.
    pub number: Option<u32>,
    /// Its first line.
    pub cell: Option<String>,
}

/// What was seen of a kernel.
#[derive(Debug)]
pub struct Seen {
    /// What it is doing.
    pub activity: Activity,
    /// The same moment, for measuring.
    pub since: Instant,
    /// Changes when the user's code ran.
    pub runs: u64,
    /// When it was at work.
    pub work: WorkTimes,
    told: Option<Instant>,
    /// Something is not told yet.
    untold: bool,
}

impl Seen {
    pub(super) fn new() -> Self {
        let activity = Activity { doing: Doing::Unknown, since: Timestamp::now(), number: None, cell: None };
        let work = WorkTimes::from(SystemTime::now());
        Self { activity, since: Instant::now(), runs: 0, work, told: None, untold: false }
    }

    /// Notes what the kernel does now; whether that is to be told at once. It counts as told then.
    pub(super) fn note(&mut self, status: &Status, now: Instant) -> bool {
        self.runs = status.runs;
        self.work.note(status.doing, SystemTime::now());
        let activity = &mut self.activity;
        if activity.doing != status.doing {
            (activity.since, self.since) = (Timestamp::now(), now);
        }
        let same =
            (activity.doing, activity.number, &activity.cell) == (status.doing, status.number, &status.cell);
        (activity.doing, activity.number) = (status.doing, status.number);
        activity.cell.clone_from(&status.cell);
        self.untold |= !same;
        self.take_untold(now)
    }

    /// Whether something is left to be told by now; it counts as told then.
    pub(super) fn take_untold(&mut self, now: Instant) -> bool {
        let due = self.untold && self.may_tell(now);
        if due {
            (self.untold, self.told) = (false, Some(now));
        }
        due
    }

    fn may_tell(&self, now: Instant) -> bool {
        self.told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(doing: Doing, runs: u64) -> Status {
        Status { doing, number: None, cell: None, runs }
    }

    #[test]
    fn what_changes_too_often_is_told_later_and_not_lost() {
        let mut seen = Seen::new();
        let begun = Instant::now();
        assert!(seen.note(&status(Doing::Busy, 1), begun));
        assert!(!seen.note(&status(Doing::Idle, 1), begun + Duration::from_millis(5)));
        assert!(seen.untold && !seen.may_tell(begun + Duration::from_millis(9)));
        assert!(seen.may_tell(begun + TELL_EVERY));
        assert_eq!((seen.activity.doing, seen.runs), (Doing::Idle, 1));
        assert_eq!(seen.since, begun + Duration::from_millis(5));
    }

    #[test]
    fn that_something_ran_is_no_news() {
        let mut seen = Seen::new();
        let begun = Instant::now();
        assert!(!seen.note(&status(Doing::Unknown, 3), begun));
        assert_eq!(seen.runs, 3);
    }
}
