//! The words in which this crate speaks of memory: pages, runs of pages, and whose they are.

use std::fmt;

/// Bytes of a page. Larger ones are a matter of page tables; everything here counts in these.
pub const PAGE: u64 = 4096;

/// The same, as a length.
pub const PAGE_BYTES: usize = 4096;

/// A process of a tree by the number that it has in its own PID namespace: the number by which CRIU's images call it, and that it keeps
/// through restores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Task(pub i32);

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Neighbouring pages: from a first address up to, not including, another. Both are multiples of [`PAGE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
}

impl Run {
    /// The page at an address.
    pub const fn page(address: u64) -> Self {
        Self { start: address, end: address + PAGE }
    }

    /// Its length in bytes.
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether nothing is in it.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// How many pages.
    pub const fn pages(&self) -> u64 {
        self.len() / PAGE
    }

    /// The addresses of its pages.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        (self.start..self.end).step_by(PAGE_BYTES)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.start, self.end)
    }
}

/// How many pages are in all of them.
pub fn pages_in(runs: &[Run]) -> u64 {
    runs.iter().map(Run::pages).sum()
}

/// The same pages in order, each once, in as few runs as can be.
pub fn merged(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_unstable();
    let mut all: Vec<Run> = Vec::with_capacity(runs.len());
    for run in runs {
        match all.last_mut() {
            Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
            _ => all.push(run),
        }
    }
    all
}

/// What is in `of` and not in `without`; both are [`merged`].
pub fn difference(of: &[Run], without: &[Run]) -> Vec<Run> {
    let mut left = Vec::new();
    let mut cuts = without.iter().copied().peekable();
    for run in of {
        let mut start = run.start;
        while cuts.next_if(|cut| cut.end <= start).is_some() {}
        while let Some(cut) = cuts.peek().filter(|cut| cut.start < run.end).copied() {
            if start < cut.start {
                left.push(Run { start, end: cut.start });
            }
            start = start.max(cut.end);
            if cut.end > run.end {
                break;
            }
            cuts.next();
        }
        if start < run.end {
            left.push(Run { start, end: run.end });
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(runs: &[Run]) -> BTreeSet<u64> {
        runs.iter().flat_map(Run::addresses).collect()
    }

    fn some_runs() -> impl Strategy<Value = Vec<Run>> {
        let run = (0_u64..60, 1_u64..9)
            .prop_map(|(first, pages)| Run { start: first * PAGE, end: (first + pages) * PAGE });
        proptest::collection::vec(run, 0..20)
    }

    proptest! {
        #[test]
        fn merging_keeps_the_pages_and_nothing_touches(runs in some_runs()) {
            let once = merged(runs.clone());
            prop_assert_eq!(set(&once), set(&runs));
            prop_assert!(once.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(pages_in(&once), set(&runs).len() as u64);
        }

        #[test]
        fn a_difference_is_that_of_the_sets(of in some_runs(), without in some_runs()) {
            let left = difference(&merged(of.clone()), &merged(without.clone()));
            prop_assert_eq!(set(&left), &set(&of) - &set(&without));
            prop_assert_eq!(pages_in(&left), set(&left).len() as u64);
        }
    }
}
