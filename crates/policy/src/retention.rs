//! Which automatic snapshots go by themselves.
//!
//! The rule is that of backup programs: the newest few, the newest of each of the last hours that have one, the newest of each of
//! the last days that have one. A snapshot that any of the three keeps stays. The rule is only for snapshots that nobody asked
//! for: never for one that somebody took, tagged, labelled or is at. Hours and days are those of UTC, so that a change of the
//! clocks does not make two hours one.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// Which automatic snapshots are kept.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Keep {
    /// The newest so many.
    pub last: u32,
    /// The newest of each of the last so many hours that have one.
    pub hourly: u32,
    /// The newest of each of the last so many days that have one.
    pub daily: u32,
}

/// Those of these snapshots, newest first, that the rule does not keep. A rule that would keep none is no rule: it keeps all.
pub fn surplus<T: Copy>(snapshots: &[(T, Timestamp)], keep: Keep) -> Vec<T> {
    if keep == Keep::default() {
        return Vec::new();
    }
    let (mut hours, mut days) = (Period::new(keep.hourly), Period::new(keep.daily));
    let mut surplus = Vec::new();
    for (position, (id, time)) in snapshots.iter().enumerate() {
        let time = time.to_zoned(TimeZone::UTC);
        let day = i64::from(time.year()) * 1000 + i64::from(time.day_of_year());
        // Each counts for itself, whether or not another keeps it already.
        let by_hour = hours.keeps(day * 24 + i64::from(time.hour()));
        let by_day = days.keeps(day);
        let is_new = u32::try_from(position).is_ok_and(|position| position < keep.last);
        if !(is_new || by_hour || by_day) {
            surplus.push(*id);
        }
    }
    surplus
}

/// The newest snapshot of each of so many hours or days.
struct Period {
    left: u32,
    last: Option<i64>,
}

impl Period {
    fn new(left: u32) -> Self {
        Self { left, last: None }
    }

    /// Whether a snapshot is the first that is seen of its period, and the period is still among those that count.
    fn keeps(&mut self, period: i64) -> bool {
        if self.left == 0 || self.last == Some(period) {
            return false;
        }
        self.last = Some(period);
        self.left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of snapshots at these times, newest first, as their positions.
    fn left(times: &[&str], keep: Keep) -> Vec<u8> {
        let all: Vec<(u8, Timestamp)> =
            (0..).zip(times).map(|(number, time)| (number, time.parse().unwrap())).collect();
        let gone = surplus(&all, keep);
        all.iter().map(|(number, _)| *number).filter(|number| !gone.contains(number)).collect()
    }

    const TIMES: [&str; 8] = [
        "2026-11-15T17:50:00Z",
        "2026-11-15T17:10:00Z",
        "2026-11-15T16:59:59Z",
        "2026-11-15T16:00:00Z",
        "2026-11-15T00:30:00Z",
        "2026-11-14T23:30:00Z",
        "2026-11-14T01:00:00Z",
        "2026-11-01T01:00:00Z",
    ];

    #[test]
    fn the_newest_and_one_of_each_hour_and_day_stay() {
        let keep = |last, hourly, daily| Keep { last, hourly, daily };
        assert_eq!(left(&TIMES, keep(3, 0, 0)), [0, 1, 2]);
        assert_eq!(left(&TIMES, keep(0, 3, 0)), [0, 2, 4]);
        assert_eq!(left(&TIMES, keep(0, 0, 2)), [0, 5]);
        assert_eq!(left(&TIMES, keep(0, 0, 99)), [0, 5, 7]);
        assert_eq!(left(&TIMES, keep(2, 2, 3)), [0, 1, 2, 5, 7]);
        assert_eq!(left(&TIMES, keep(100, 0, 0)).len(), TIMES.len());
    }

    #[test]
    fn a_rule_without_numbers_lets_nothing_go() {
        assert_eq!(left(&TIMES, Keep::default()).len(), TIMES.len());
    }

    #[test]
    fn keeping_again_and_again_ends_at_the_same() {
        let keep = Keep { last: 2, hourly: 2, daily: 2 };
        let once = left(&TIMES, keep);
        let times: Vec<&str> = once.iter().map(|number| TIMES[usize::from(*number)]).collect();
        assert_eq!(left(&times, keep).len(), times.len());
    }
}
