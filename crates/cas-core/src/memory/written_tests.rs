//! Sources that know which pages were written.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::progress::Silent;
use crate::testing::{Memory, TestStore};

const HEAP: u64 = 0x5555_5560_0000;
const FIRST: u64 = HEAP + 0x3000;

fn at(page: u64) -> u64 {
    FIRST + page * PAGE as u64
}

fn some_memory() -> Memory {
    let mut memory = Memory::default();
    memory.fill(FIRST, 1300, 1);
    memory.zero(at(500), 40);
    memory.fill(0x7fff_ffff_0000, 16, 2);
    memory
}

/// Says what was written, and counts what it is asked for.
struct Told {
    memory: Memory,
    written: BTreeSet<u64>,
    read: Mutex<BTreeSet<u64>>,
}

impl PageSource for Told {
    fn regions(&self) -> Vec<Region> {
        self.memory.regions()
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let pages = (0..buffer.len() as u64).step_by(PAGE).map(|offset| address + offset);
        self.read.lock().unwrap().extend(pages);
        self.memory.read(address, buffer)
    }

    fn written(&self) -> Option<Vec<Region>> {
        Some(self.written.iter().map(|start| Region { start: *start, len: PAGE as u64 }).collect())
    }
}

/// Stores `memory` as a child of `parent`, told that nothing but `written` was written. Says what was read for it.
fn store_told(
    test: &TestStore,
    memory: &Memory,
    parent: Option<&MapRoot>,
    written: impl IntoIterator<Item = u64>,
) -> (MapRoot, IngestStats, BTreeSet<u64>) {
    let written = written.into_iter().collect();
    let told = Arc::new(Told { memory: memory.clone(), written, read: Mutex::default() });
    let source: Arc<dyn PageSource> = told.clone();
    let transaction = test.store.write(&[]).unwrap();
    let (root, stats) = transaction.put_memory(&source, parent, &Silent).unwrap();
    transaction.commit(&[]).unwrap();
    let read = told.read.lock().unwrap().clone();
    (root, stats, read)
}

fn forget_fingerprints(test: &TestStore) {
    std::fs::remove_dir_all(test.root.join("cache/fingerprints")).unwrap();
    std::fs::create_dir(test.root.join("cache/fingerprints")).unwrap();
}

#[test]
fn only_what_was_written_is_read() {
    for forget in [false, true] {
        let test = TestStore::plain();
        let mut memory = some_memory();
        let parent = test.commit(&memory, None, "main");
        if forget {
            forget_fingerprints(&test);
        }
        let written = [at(0), at(1), at(141), at(510), 0x7fff_ffff_3000];
        for address in written {
            memory.touch(address, 42);
        }
        let (child, stats, read) = store_told(&test, &memory, Some(&parent), written);
        assert_eq!(read, BTreeSet::from(written));
        assert_eq!((stats.new, stats.present, stats.zero), (5, 1316, 39));
        assert_eq!(test.read(&child), memory);
        // The map and the fingerprints are those of a source that knows nothing.
        let transaction = test.store.write(&[]).unwrap();
        let (again, stats) = transaction.put_memory(&memory.source(), Some(&child), &Silent).unwrap();
        assert_eq!((again, stats.new), (child, 0));
    }
}

#[test]
fn nothing_written_means_nothing_read_and_the_same_map() {
    let test = TestStore::plain();
    let memory = some_memory();
    let parent = test.commit(&memory, None, "main");
    let (child, stats, read) = store_told(&test, &memory, Some(&parent), []);
    assert_eq!((child, stats.new, read.len()), (parent, 0, 0));
}

#[test]
fn what_the_parent_does_not_have_is_read_whatever_was_said() {
    let test = TestStore::plain();
    let mut memory = some_memory();
    let (root, _, read) = store_told(&test, &memory, None, []);
    assert_eq!((test.read(&root), read.len()), (memory.clone(), 1316));
    // Beside pages that the parent has, and in leaves that it has not.
    memory.fill(at(1300), 3, 9);
    memory.fill(0x6000_0000_0000, 700, 9);
    let (child, stats, read) = store_told(&test, &memory, Some(&root), []);
    assert_eq!((stats.new, read.len()), (703, 703));
    assert_eq!(test.read(&child), memory);
}

#[test]
fn a_page_that_has_gone_is_not_in_the_child() {
    let test = TestStore::plain();
    let mut memory = some_memory();
    let parent = test.commit(&memory, None, "main");
    memory.pages.remove(&at(9));
    let (child, _, read) = store_told(&test, &memory, Some(&parent), []);
    assert_eq!((test.read(&child), read.len()), (memory.clone(), 0));
    let transaction = test.store.write(&[]).unwrap();
    let (again, stats) = transaction.put_memory(&memory.source(), Some(&child), &Silent).unwrap();
    assert_eq!((again, stats.new), (child, 0));
}

#[test]
fn a_group_without_a_fingerprint_is_not_taken_for_zeros() {
    let test = TestStore::plain();
    let mut memory = some_memory();
    let parent = test.commit(&memory, None, "main");
    forget_fingerprints(&test);
    let (child, ..) = store_told(&test, &memory, Some(&parent), []);
    memory.zero(at(1), 4);
    let last = test.commit(&memory, Some(&child), "main");
    assert_eq!(test.read(&last), memory);
}

#[test]
fn where_the_parent_is_damaged_the_source_is_read() {
    let test = TestStore::plain();
    let mut memory = some_memory();
    let parent = test.commit(&memory, None, "main");
    test.damage_the_data();
    // One page of each group, so that the others' bytes are needed, too.
    let written: Vec<u64> = memory.pages.keys().copied().filter(|page| page / 4096 % 4 == 0).collect();
    for address in &written {
        memory.touch(*address, 42);
    }
    let (child, stats, read) = store_told(&test, &memory, Some(&parent), written.iter().copied());
    assert!(stats.parent_unreadable > 0);
    assert!(read.len() > written.len() && read.len() < memory.pages.len());
    assert_eq!(test.read(&child), memory);
}

#[test]
fn regions_out_of_order_are_refused() {
    struct Odd;
    impl PageSource for Odd {
        fn regions(&self) -> Vec<Region> {
            vec![Region { start: 0, len: PAGE as u64 }]
        }
        fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Ok(())
        }
        fn written(&self) -> Option<Vec<Region>> {
            Some(vec![Region { start: 1, len: 1 }])
        }
    }
    let test = TestStore::plain();
    let source: Arc<dyn PageSource> = Arc::new(Odd);
    test.store.write(&[]).unwrap().put_memory(&source, None, &Silent).unwrap_err();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// However memory changes, and whatever else is said to have been written, a child is what its memory was.
    #[test]
    fn any_history_reads_back(
        history in prop::collection::vec(
            prop::collection::vec((0u8..4, 0u64..1500, 1u64..60, any::<u64>()), 1..6), 1..5,
        ),
        more in prop::collection::btree_set(0u64..1500, 0..40),
        forget in any::<bool>(),
    ) {
        let test = TestStore::plain();
        let mut memory = some_memory();
        let mut parent = test.commit(&memory, None, "main");
        for changes in history {
            let before = memory.clone();
            for (what, page, count, seed) in changes {
                match what {
                    0 => memory.fill(at(page), usize::try_from(count).unwrap(), seed >> 20),
                    1 => memory.zero(at(page), usize::try_from(count).unwrap()),
                    2 => (page..page + count).for_each(|page| { memory.pages.remove(&at(page)); }),
                    _ if memory.pages.contains_key(&at(page)) => memory.touch(at(page), seed),
                    _ => {}
                }
            }
            let differs = |page: &&u64| before.pages.get(*page) != memory.pages.get(*page);
            let written: BTreeSet<u64> =
                memory.pages.keys().filter(differs).copied().chain(more.iter().map(|page| at(*page))).collect();
            if forget {
                forget_fingerprints(&test);
            }
            (parent, ..) = store_told(&test, &memory, Some(&parent), written);
            prop_assert_eq!(&test.read(&parent), &memory);
        }
    }
}
