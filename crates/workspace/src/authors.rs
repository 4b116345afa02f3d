//! Who wrote a file: the session, or somebody else.
//!
//! The kernel does not say. A look at descriptors tells of what is open, but most programs open a file, write it and close it. What is
//! known is *when*: a session's code runs while its kernel is busy, and a file that changed in between was saved by an editor, by another
//! program, by a person. A file's ctime cannot be set, so it says when that was.
//!
//! Times in which another session was at work in the same directory are nobody's for certain: what changed then is taken for the other's,
//! because to put somebody else's work back is worse than to leave one's own as it is. A thread that goes on writing while its kernel is
//! idle is taken for somebody else, too. What happened before anybody looked cannot be told.

use std::time::{SystemTime, UNIX_EPOCH};

use manifest::tree::Time;

/// Who wrote a file, as far as that can be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Author {
    /// It changed while the session was at work.
    Session,
    /// It changed while the session was not.
    Others,
    /// Nobody looked then.
    Unclear,
}

/// The times in which a session was at work.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AtWork {
    /// Since when that is known; never if `None`.
    known_from: Option<Time>,
    periods: Vec<(Time, Time)>,
    others: Vec<(Time, Time)>,
}

impl AtWork {
    /// Nobody has looked.
    pub const fn unknown() -> Self {
        Self { known_from: None, periods: Vec::new(), others: Vec::new() }
    }

    /// In these periods, and at no other time since `known_from`.
    pub fn in_periods(
        known_from: SystemTime,
        periods: impl IntoIterator<Item = (SystemTime, SystemTime)>,
    ) -> Self {
        Self { known_from: Some(time(known_from)), periods: times(periods), others: Vec::new() }
    }

    /// Another session was at work in the same directory in these periods.
    pub fn beside(&mut self, periods: impl IntoIterator<Item = (SystemTime, SystemTime)>) {
        self.others.extend(times(periods));
    }

    /// Who wrote a file that changed at this moment.
    pub fn author(&self, changed: Time) -> Author {
        let within =
            |periods: &[(Time, Time)]| periods.iter().any(|&(from, to)| from <= changed && changed <= to);
        match self.known_from {
            Some(_) if within(&self.others) => Author::Others,
            Some(_) if within(&self.periods) => Author::Session,
            Some(from) if changed >= from => Author::Others,
            _ => Author::Unclear,
        }
    }
}

fn times(periods: impl IntoIterator<Item = (SystemTime, SystemTime)>) -> Vec<(Time, Time)> {
    periods.into_iter().map(|(from, to)| (time(from), time(to))).collect()
}

/// As files have it.
pub(crate) fn time(moment: SystemTime) -> Time {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanoseconds: since.subsec_nanos() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn what_changed_while_it_worked_is_its_own_and_what_changed_between_is_not() {
        let mut at_work = AtWork::in_periods(at(100), vec![(at(110), at(120)), (at(130), at(131))]);
        for (moment, author) in [
            (99, Author::Unclear),
            (100, Author::Others),
            (110, Author::Session),
            (120, Author::Session),
            (125, Author::Others),
            (131, Author::Session),
            (132, Author::Others),
        ] {
            assert_eq!(at_work.author(time(at(moment))), author, "{moment}");
        }
        at_work.beside([(at(115), at(130))]);
        assert_eq!(at_work.author(time(at(114))), Author::Session);
        assert_eq!(at_work.author(time(at(115))), Author::Others, "the other one's, perhaps");
        assert_eq!(AtWork::unknown().author(time(at(115))), Author::Unclear);
    }
}
