//! How long a session will stand still for a snapshot, before anybody has touched it.
//!
//! Two things are known beforehand: how much memory the session has, and whether it is copied while the session runs, so that only the rest is
//! copied while it stands. That gives a first guess, with figures of a machine that is neither fast nor slow (`docs/benchmarks.md`, *pause* and *pause-warm*).
//! What the last snapshots of the same session really took says how far that is off here: the guess is multiplied by the middle one of these factors.
//!
//! A factor is believed for a minute, and one alone never decides: where there are fewer than three, the guess itself counts for those that are missing.
//! A machine that was busy for a moment would otherwise end a history: nothing that is left out can show that it would have been fast again.

use std::collections::VecDeque;
use std::time::Duration;

/// CRIU finds, stops and lets go of the processes.
const ALWAYS: Duration = Duration::from_millis(40);
/// A GiB of memory is copied by a plain dump.
const COPIED: Duration = Duration::from_millis(500);
/// A GiB of memory is asked which of its pages were written.
const LISTED: Duration = Duration::from_millis(7);
const GIB: f64 = (1_u64 << 30) as f64;

/// So many factors are known of a session.
const FACTORS: usize = 5;
const BELIEVED: Duration = Duration::from_secs(60);
/// So many decide at least; a guess that nothing speaks against counts for one that is missing.
const VOICES: usize = 3;
/// What a factor can be: a guess is never so far off, but a clock may be.
const LEAST: f64 = 0.25;
const MOST: f64 = 20.0;

/// What is known of a session before a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The memory of its processes.
    pub memory_bytes: u64,
    /// Whether most of it is copied while they run.
    pub copied_ahead: bool,
}

impl Known {
    fn guess(self) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "a guess needs no precision")]
        let gib = self.memory_bytes as f64 / GIB;
        ALWAYS + if self.copied_ahead { LISTED } else { COPIED }.mul_f64(gib)
    }
}

/// How long the last snapshots of a session really took, against what was guessed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pauses(VecDeque<(Duration, f64)>);

impl Pauses {
    /// It stood still for so long.
    pub fn took(&mut self, now: Duration, known: Known, took: Duration) {
        if self.0.len() == FACTORS {
            self.0.pop_front();
        }
        let factor = took.as_secs_f64() / known.guess().as_secs_f64();
        self.0.push_back((now, factor.clamp(LEAST, MOST)));
    }

    /// How long it will stand still.
    pub fn expected(&self, now: Duration, known: Known) -> Duration {
        let believed = self.0.iter().filter(|(then, _)| now.saturating_sub(*then) < BELIEVED);
        let mut factors: Vec<f64> = believed.map(|(_, factor)| *factor).collect();
        factors.resize(factors.len().max(VOICES), 1.0);
        factors.sort_by(f64::total_cmp);
        let middle = factors.get(factors.len() / 2).copied().unwrap_or(1.0);
        known.guess().mul_f64(middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;
    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn plain(mib: u64) -> Known {
        Known { memory_bytes: mib << 20, copied_ahead: false }
    }

    fn ahead(mib: u64) -> Known {
        Known { copied_ahead: true, ..plain(mib) }
    }

    #[test]
    fn a_small_kernel_fits_and_a_large_one_only_if_its_memory_is_copied_ahead() {
        let none = Pauses::default();
        assert!(none.expected(S(0), plain(60)) < MS(100), "{:?}", none.expected(S(0), plain(60)));
        assert!(none.expected(S(0), plain(4096)) > S(1));
        assert!(none.expected(S(0), ahead(4096)) < MS(100));
        assert!(none.expected(S(0), ahead(64 << 10)) > MS(100), "64 GiB");
    }

    #[test]
    fn what_was_measured_counts_and_one_bad_moment_does_not() {
        let mut pauses = Pauses::default();
        for second in 0..4 {
            pauses.took(S(second), ahead(60), MS(20));
        }
        pauses.took(S(4), ahead(60), S(3));
        assert!(pauses.expected(S(5), ahead(60)) < MS(30), "{:?}", pauses.expected(S(5), ahead(60)));
        for second in 6..9 {
            pauses.took(S(second), ahead(60), S(1));
        }
        assert!(pauses.expected(S(9), ahead(60)) > MS(500), "a slow machine");
    }

    #[test]
    fn a_slow_time_is_not_held_against_a_session_for_ever() {
        let mut pauses = Pauses::default();
        pauses.took(S(10), ahead(60), S(1));
        pauses.took(S(20), ahead(60), S(1));
        assert!(pauses.expected(S(69), ahead(60)) > MS(500));
        assert!(pauses.expected(S(70), ahead(60)) < MS(100));
    }

    #[test]
    fn a_first_one_that_is_slow_does_not_end_the_history() {
        let mut pauses = Pauses::default();
        pauses.took(S(0), ahead(60), MS(150));
        assert!(pauses.expected(S(1), ahead(60)) < MS(100), "one alone decided");
        pauses.took(S(1), ahead(60), MS(150));
        assert!(pauses.expected(S(2), ahead(60)) > MS(100), "two say the same");
    }

    #[test]
    fn no_measurement_makes_it_nothing_or_endless() {
        let mut pauses = Pauses::default();
        pauses.took(S(0), plain(60), Duration::ZERO);
        pauses.took(S(0), plain(60), Duration::ZERO);
        assert!(pauses.expected(S(1), plain(60)) > MS(10));
        let mut pauses = Pauses::default();
        pauses.took(S(0), plain(60), S(86_400));
        pauses.took(S(0), plain(60), S(86_400));
        assert!(pauses.expected(S(1), plain(60)) < S(2));
    }
}
