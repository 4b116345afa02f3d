//! Something small for each page of an address space.
//!
//! Programs have gigabytes in a few places, so it is kept in blocks of as many pages as 2 MiB have. A block is there once one of its
//! pages is.

use std::collections::HashMap;

use crate::pages::{PAGE, Run};

/// Pages of a block.
const BLOCK: u64 = BLOCK_LENGTH as u64;
const BLOCK_LENGTH: usize = 512;

/// A value for each page; the default one where none was set.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageTable<T> {
    blocks: HashMap<u64, Box<[T]>>,
}

impl<T: Copy + Default + PartialEq> PageTable<T> {
    pub(crate) fn get(&self, address: u64) -> T {
        let (block, place) = place_of(address);
        self.blocks.get(&block).and_then(|block| block.get(place)).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, address: u64, value: T) {
        let (block, place) = place_of(address);
        let block = self.blocks.entry(block).or_insert_with(|| vec![T::default(); BLOCK_LENGTH].into());
        if let Some(slot) = block.get_mut(place) {
            *slot = value;
        }
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.blocks.len() * BLOCK_LENGTH * size_of::<T>()) as u64
    }

    /// Pages that have a value, in order, in as few runs as can be.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let mut numbers: Vec<u64> = self.blocks.keys().copied().collect();
        numbers.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        for (number, block) in numbers.iter().filter_map(|number| Some((number, self.blocks.get(number)?))) {
            for (value, page) in block.iter().zip(number * BLOCK..) {
                if *value == T::default() {
                    continue;
                }
                let start = page * PAGE;
                match runs.last_mut() {
                    Some(last) if last.end == start => last.end += PAGE,
                    _ => runs.push(Run::page(start)),
                }
            }
        }
        runs
    }

    /// Drops what is far from all of these runs, which are in order, so that it does not stay for ever.
    pub(crate) fn keep_near(&mut self, runs: &[Run]) {
        let block = BLOCK * PAGE;
        self.blocks.retain(|number, _| {
            let (start, end) = (number * block, (number + 1) * block);
            let first = runs.partition_point(|run| run.end <= start);
            runs.get(first).is_some_and(|run| run.start < end)
        });
    }
}

fn place_of(address: u64) -> (u64, usize) {
    let page = address / PAGE;
    (page / BLOCK, usize::try_from(page % BLOCK).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::pages::pages_in;

    proptest! {
        #[test]
        fn it_is_a_map(set in proptest::collection::vec((0_u64..3000, 0_u32..4), 0..200)) {
            let (mut table, mut model) = (PageTable::default(), BTreeMap::new());
            for (page, value) in &set {
                table.set(page * PAGE, *value);
                model.insert(page * PAGE, *value);
            }
            for page in 0..3000 {
                prop_assert_eq!(table.get(page * PAGE), model.get(&(page * PAGE)).copied().unwrap_or(0));
            }
            let listed: Vec<u64> = table.runs().iter().flat_map(Run::addresses).collect();
            let expected: Vec<u64> =
                model.iter().filter(|(_, value)| **value != 0).map(|(address, _)| *address).collect();
            prop_assert_eq!(listed, expected);
        }

        #[test]
        fn what_is_in_the_runs_stays(pages in proptest::collection::btree_set(0_u64..9000, 1..60)) {
            let mut table = PageTable::default();
            for page in 0..9000 {
                table.set(page * PAGE, 1_u8);
            }
            let runs: Vec<Run> = pages.iter().map(|page| Run::page(page * PAGE)).collect();
            table.keep_near(&runs);
            prop_assert!(runs.iter().all(|run| table.get(run.start) == 1));
            prop_assert!(pages_in(&table.runs()) <= pages.len() as u64 * BLOCK);
        }
    }
}
