//! The tracker is never believed blindly: pages that it calls clean are compared with what the sink has of them.
//!
//! The pages are chosen and read while the tree is frozen; they are compared after it goes on, because the sink may have to fetch
//! them from a disk.

use std::hash::{BuildHasher, RandomState};

use crate::error::{MemoryError, Result};
use crate::memory::Memory;
use crate::pages::{PAGE_BYTES, Run, Task, pages_in};

use super::sink::PageSink;

/// How many pages that are called clean are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sample {
    /// So many of each task, chosen at random.
    Pages(u32),
    /// Every one. The freeze takes as long as reading all memory then.
    All,
}

/// Clean pages of one task, as they were at the freeze.
#[derive(Debug)]
pub struct Clean {
    task: Task,
    pages: Vec<u64>,
    contents: Vec<u8>,
}

/// What the comparison has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Verdict {
    /// All pages that were looked at are as they were kept.
    Trusted {
        /// How many.
        compared: u64,
    },
    /// A page was called clean that is not what the sink has. Nothing that was copied of this task may be used, and its tracking must
    /// be given up.
    Stale {
        /// Whose page.
        task: Task,
        /// Its address.
        address: u64,
    },
}

/// Reads a sample of runs that are called clean.
pub(super) fn take(memory: &Memory, task: Task, clean: &[Run], sample: Sample) -> Clean {
    let pages: Vec<u64> = match sample {
        Sample::All => clean.iter().flat_map(Run::addresses).collect(),
        Sample::Pages(count) => choose(clean, count),
    };
    let mut contents = vec![0; pages.len() * PAGE_BYTES];
    let runs: Vec<Run> = pages.iter().map(|address| Run::page(*address)).collect();
    let unreadable = memory.read(&runs, &mut contents);
    // A page that cannot be read cannot be compared either; that it is missed is noticed when the image is put together.
    let mut taken = Clean { task, pages: Vec::new(), contents: Vec::new() };
    for (address, page) in pages.into_iter().zip(contents.chunks_exact(PAGE_BYTES)) {
        if !unreadable.contains(&Run::page(address)) {
            taken.pages.push(address);
            taken.contents.extend_from_slice(page);
        }
    }
    taken
}

/// Pages at random, some perhaps twice.
fn choose(runs: &[Run], count: u32) -> Vec<u64> {
    let all = pages_in(runs);
    if all == 0 {
        return Vec::new();
    }
    // Keys of the standard library's hash tables are random; good enough to not look at the same pages each time.
    let random = RandomState::new();
    let mut chosen: Vec<u64> = (0..count).map(|number| random.hash_one(number) % all).collect();
    chosen.sort_unstable();
    let mut addresses = Vec::with_capacity(chosen.len());
    let mut before = 0;
    let mut rest = runs.iter();
    let mut run = rest.next();
    for index in chosen {
        while let Some(here) = run {
            if index < before + here.pages() {
                addresses.push(here.start + (index - before) * PAGE_BYTES as u64);
                break;
            }
            before += here.pages();
            run = rest.next();
        }
    }
    addresses
}

/// Compares samples with what the sink has.
pub(super) fn judge(samples: &[Clean], sink: &mut dyn PageSink) -> Result<Verdict> {
    let mut compared = 0;
    for Clean { task, pages, contents } in samples {
        for (address, page) in pages.iter().zip(contents.chunks_exact(PAGE_BYTES)) {
            let (task, address) = (*task, *address);
            let same =
                sink.holds(task, address, page).map_err(|source| MemoryError::Sink { task, source })?;
            if !same {
                return Ok(Verdict::Stale { task, address });
            }
            compared += 1;
        }
    }
    Ok(Verdict::Trusted { compared })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::PAGE;

    #[test]
    fn every_page_can_be_chosen_and_none_outside() {
        let runs = [Run { start: 0, end: 3 * PAGE }, Run { start: 10 * PAGE, end: 12 * PAGE }];
        let mut seen = choose(&runs, 1000);
        seen.dedup();
        assert_eq!(seen, [0, PAGE, 2 * PAGE, 10 * PAGE, 11 * PAGE]);
        assert_eq!(choose(&[], 5), Vec::<u64>::new());
    }
}
