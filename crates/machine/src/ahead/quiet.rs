//! When a tree that is followed is copied although nobody has asked for a snapshot: the rules, without a clock.
//!
//! A cell writes; then its kernel waits for the next one. What was written can be copied in that time, and the snapshot that follows finds
//! little to do. Whether a tree rests is told by the processor time that it has used, which costs one line of `/proc` for each process
//! and holds for every program, kernel or not:
//!
//! * *It has worked*: more than a fiftieth of a second's processor time between two looks. A kernel that waits for cells uses less
//!   than a thousandth. So one that nobody uses is never looked into, however long that lasts.
//! * *It rests*: since the last look it used less than that.
//!
//! Then there is one round. What it takes is bounded: after it, the tree is left alone for twenty times as long as it took; and if it found too
//! little to be of use to a snapshot, for a second, two, four, up to eight minutes. A program that works in short bursts and never
//! writes much is not looked into all the time.

use std::time::Duration;

/// So much between two looks is work: two ticks of the clock that `/proc` counts in.
const WORK: Duration = Duration::from_millis(20);
/// A round may take a twentieth of the time.
const SHARE: u32 = 20;
/// The first rest after a round that found little, and the longest.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(512));

/// What is known of a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Quiet {
    /// What it had used at the last look.
    used: Option<Duration>,
    /// It has worked since it was last copied.
    worked: bool,
    not_before: Duration,
    rest: Duration,
    /// There is no room for more.
    full: bool,
}

impl Quiet {
    /// A tree that had used so much when all of it was copied.
    pub(super) fn since(used: Duration) -> Self {
        Self { used: Some(used), ..Self::default() }
    }

    /// A tree of which much is to be copied, although it has not worked yet.
    pub(super) fn with_work() -> Self {
        Self { worked: true, ..Self::default() }
    }

    /// Whether it is time for a round. `used` is the processor time that its processes have used up to `now`.
    pub(super) fn look(&mut self, now: Duration, used: Duration) -> bool {
        let before = self.used.replace(used);
        // A process that has ended takes its time along.
        let works = before.is_none_or(|before| used.saturating_sub(before) >= WORK);
        self.worked |= works && before.is_some();
        self.worked && !works && !self.full && now >= self.not_before
    }

    /// A round ended at `now`, took so long, and was worth it or not.
    pub(super) fn copied(&mut self, now: Duration, took: Duration, worth_it: bool) {
        self.worked = false;
        self.rest = match worth_it {
            true => Duration::ZERO,
            false => (self.rest * 2).clamp(REST.0, REST.1),
        };
        self.not_before = now + self.rest.max(took * SHARE);
    }

    /// It could not be done, or not to its end. What is left is worth another attempt, later each time.
    pub(super) fn cut_short(&mut self, now: Duration, took: Duration) {
        self.rest = (self.rest * 2).clamp(REST.0, REST.1);
        self.not_before = now + self.rest.max(took * SHARE);
    }

    /// There is no room for more, until the next snapshot.
    pub(super) fn is_full(&mut self) {
        self.full = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;
    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn what_nobody_uses_is_never_looked_into() {
        let mut quiet = Quiet::default();
        // It uses a hundredth of a processor, which is ten times what a kernel does that waits.
        assert!((0..36_000).all(|second| !quiet.look(S(second), MS(second * 10))));
    }

    #[test]
    fn one_round_after_work() {
        let mut quiet = Quiet::default();
        assert!(!quiet.look(S(0), S(5)), "what was before is not known");
        assert!(!quiet.look(S(1), S(6)), "it works");
        assert!(!quiet.look(S(2), S(7)), "it works on");
        assert!(quiet.look(S(3), S(7)));
        quiet.copied(S(3), MS(10), true);
        assert!((4..100).all(|second| !quiet.look(S(second), S(7))), "once");
        assert!(!quiet.look(S(100), S(8)));
        assert!(quiet.look(S(101), S(8)));
    }

    #[test]
    fn what_was_done_before_the_first_look_counts() {
        let mut quiet = Quiet::since(S(5));
        assert!(!quiet.look(S(0), S(6)));
        assert!(quiet.look(S(1), S(6)));
    }

    #[test]
    fn what_comes_back_is_copied_without_having_worked() {
        let mut quiet = Quiet::with_work();
        assert!(!quiet.look(S(0), S(0)));
        assert!(quiet.look(S(1), MS(10)));
    }

    #[test]
    fn rounds_take_a_small_part_of_the_time() {
        let (mut quiet, mut rounds) = (Quiet::default(), 0);
        // It works every other second.
        for second in 0..1000 {
            if quiet.look(S(second), S(second / 2)) {
                quiet.copied(S(second), S(2), true);
                rounds += 1;
            }
        }
        assert!((20..26).contains(&rounds), "{rounds}");
    }

    #[test]
    fn rounds_that_find_nothing_become_rare() {
        let (mut quiet, mut rounds) = (Quiet::default(), 0);
        for second in 0..36_000 {
            if quiet.look(S(second), S(second / 2)) {
                quiet.copied(S(second), MS(5), false);
                rounds += 1;
            }
        }
        assert!((70..90).contains(&rounds), "{rounds} in ten hours");
        quiet.copied(S(40_000), MS(5), true);
        assert!(!quiet.look(S(40_001), S(20_000)));
        assert!(quiet.look(S(40_002), S(20_000)), "one that finds something begins anew");
    }

    #[test]
    fn what_was_cut_short_is_tried_again_and_what_is_full_is_not() {
        let mut quiet = Quiet::with_work();
        quiet.look(S(0), S(0));
        assert!(quiet.look(S(1), S(0)));
        quiet.cut_short(S(1), MS(100));
        assert!(!quiet.look(S(2), S(0)));
        assert!(quiet.look(S(3), S(0)));
        quiet.is_full();
        assert!(!quiet.look(S(9), S(0)));
    }
}
