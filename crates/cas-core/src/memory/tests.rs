use proptest::prelude::*;

use super::map::{LeafMap, Page};
use super::tree::AddressMap;
use super::*;
use crate::id::{IdHasher, Kind};
use crate::progress::Silent;
use crate::store::ReadContext;
use crate::testing::{Memory, TestStore, read_memory_in};

const HEAP: u64 = 0x5555_5560_0000;

fn some_memory() -> Memory {
    let mut memory = Memory::default();
    memory.fill(HEAP + 0x3000, 1300, 1);
    memory.zero(HEAP + 0x3000 + 500 * 4096, 40);
    memory.fill(0x7fff_ffff_0000, 16, 2);
    memory
}

#[test]
fn what_was_stored_comes_back_whole_and_by_ranges() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let memory = some_memory();
        let root = test.commit(&memory, None, "main");
        assert_eq!(root.pages, memory.pages.len() as u64);
        assert_eq!(test.read(&root), memory);
        let mut reader = MemoryReader::new(test.store.clone(), root).unwrap();
        let flat: Vec<u8> =
            memory.pages.range(HEAP..0x6000_0000_0000).flat_map(|(_, page)| page.clone()).collect();
        for (offset, len) in [(0, 1), (5000, 70_000), (490 * 4096 + 17, 60 * 4096), (600 * 4096, 300 * 4096)]
        {
            let mut range = vec![7; len];
            reader.read(HEAP + 0x3000 + offset as u64, &mut range).unwrap();
            assert!(range == flat[offset..offset + len], "{offset}+{len}");
        }
        assert!(reader.read(HEAP, &mut [0; 10]).is_err(), "a page that is not there is not made up");
        assert!(reader.read(HEAP + 0x2fff, &mut [0; 2]).is_err());
    }
}

#[test]
fn regions_that_are_no_pages_or_not_apart_are_refused() {
    let test = TestStore::plain();
    let root = test.commit(&some_memory(), None, "main");
    let refused = [
        vec![Region { start: 1, len: 4096 }],
        vec![Region { start: 4096, len: 100 }],
        vec![Region { start: u64::MAX - 4095, len: 8192 }],
        vec![Region { start: 8192, len: 4096 }, Region { start: 0, len: 4096 }],
        vec![Region { start: 0, len: 8192 }, Region { start: 4096, len: 4096 }],
    ];
    for regions in refused {
        let error = read_memory_in(&test.store, &root, &regions).unwrap_err();
        assert!(matches!(error, crate::StoreError::Invalid { .. }), "{regions:?}");
    }
}

#[test]
fn memory_that_is_damaged_is_found_before_it_is_read() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let memory = some_memory();
        let root = test.commit(&memory, None, "main");
        let regions = memory.source().regions();
        test.store.check_memory_in(&root, &regions).unwrap();
        let largest = |pack: &std::path::PathBuf| std::fs::metadata(pack).unwrap().len();
        let pack = test.packs().into_iter().max_by_key(largest).unwrap();
        let mut bytes = std::fs::read(&pack).unwrap();
        // In the middle of the heap's pages.
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&pack, bytes).unwrap();
        let error = test.store.check_memory_in(&root, &regions).unwrap_err();
        assert_eq!(error.class(), crate::Class::Corruption, "{error}");
        // What is elsewhere is whole.
        let stack = regions.last().copied().unwrap();
        test.store.check_memory_in(&root, &[stack]).unwrap();
    }
}

#[test]
fn a_child_stores_exactly_the_pages_that_changed() {
    let test = TestStore::plain();
    let mut memory = some_memory();
    let parent = test.commit(&memory, None, "main");
    let changed = [HEAP + 0x3000, HEAP + 0x4000, HEAP + 0x9_0000, 0x7fff_ffff_3000];
    for address in changed {
        memory.touch(address, 42);
    }
    let transaction = test.store.write(&[]).unwrap();
    let (child, stats) = transaction.put_memory(&memory.source(), Some(&parent), &Silent).unwrap();
    let written = transaction.commit(&[]).unwrap();
    assert_eq!(stats.new, changed.len() as u64);
    assert_eq!(stats.rewritten, 0);
    assert_eq!(written.new_plain - written.new_metadata, changed.len() as u64 * 4096);
    assert_eq!(test.read(&child), memory);
}

#[test]
fn the_same_memory_again_writes_nothing() {
    let test = TestStore::plain();
    let memory = some_memory();
    let parent = test.commit(&memory, None, "main");
    for forget in [false, true] {
        if forget {
            std::fs::remove_dir_all(test.root.join("cache/fingerprints")).unwrap();
        }
        let transaction = test.store.write(&[]).unwrap();
        let (child, stats) = transaction.put_memory(&memory.source(), Some(&parent), &Silent).unwrap();
        assert_eq!((child, stats.new), (parent, 0));
        assert_eq!(transaction.commit(&[]).unwrap().new_plain, 0);
    }
}

#[test]
fn without_fingerprints_the_result_is_the_same() {
    let test = TestStore::plain();
    let mut memory = some_memory();
    let parent = test.commit(&memory, None, "main");
    memory.touch(HEAP + 0x8000, 1);
    memory.zero(HEAP + 0x20_0000, 3);
    let with = test.commit(&memory, Some(&parent), "with");
    std::fs::remove_dir_all(test.root.join("cache/fingerprints")).unwrap();
    assert_eq!(test.commit(&memory, Some(&parent), "without"), with);
}

#[test]
fn zero_and_absent_are_not_the_same() {
    let test = TestStore::plain();
    let mut memory = some_memory();
    let parent = test.commit(&memory, None, "main");
    memory.pages.remove(&(HEAP + 0x5000));
    memory.zero(HEAP + 0x6000, 1);
    memory.fill(HEAP, 1, 9);
    let child = test.commit(&memory, Some(&parent), "main");
    assert_eq!(test.read(&child), memory);
    memory.zero(HEAP + 0x5000, 1);
    let grandchild = test.commit(&memory, Some(&child), "main");
    assert_ne!(grandchild, child);
    assert_eq!(test.read(&grandchild), memory);
}

#[test]
fn zero_pages_cost_nothing_but_their_mark() {
    let test = TestStore::plain();
    let mut memory = Memory::default();
    memory.zero(HEAP, 5000);
    let transaction = test.store.write(&[]).unwrap();
    let (root, _) = transaction.put_memory(&memory.source(), None, &Silent).unwrap();
    let written = transaction.commit(&[]).unwrap();
    assert_eq!(written.new_plain, written.new_metadata);
    assert!(written.new_plain < 2000, "{written:?}");
    assert_eq!(test.read(&root), memory);
}

#[test]
fn an_empty_address_space_is_one_too() {
    let test = TestStore::plain();
    let root = test.commit(&Memory::default(), None, "main");
    assert_eq!((root.pages, test.read(&root)), (0, Memory::default()));
}

/// The rules for long chains, as the module documentation states them, on the map as it is stored.
#[test]
fn a_long_chain_stays_readable_and_collectable() {
    let test = TestStore::plain();
    let mut memory = Memory::default();
    memory.fill(HEAP, 1024, 1);
    let mut root = test.commit(&memory, None, "main");
    let mut changed = 0u64;
    let mut rewritten = 0;
    for generation in 0..150u64 {
        for n in 0..6 {
            let page = (generation * 97 + n * 131) % 1024;
            memory.touch(HEAP + page * 4096, generation);
        }
        changed += 6;
        let transaction = test.store.write(&[]).unwrap();
        let (child, stats) = transaction.put_memory(&memory.source(), Some(&root), &Silent).unwrap();
        transaction.commit(&[]).unwrap();
        root = child;
        rewritten += stats.rewritten;
        let map = AddressMap::load(&test.store, &root, &mut ReadContext::new().unwrap()).unwrap();
        for leaf in map.leaves.values() {
            assert!(leaf.map.objects.len() <= 48 + 2, "generation {generation}: {}", leaf.map.objects.len());
        }
    }
    assert_eq!(test.read(&root), memory);
    assert!(rewritten > 0, "the chain was long enough for the rules to act");
    assert!(rewritten <= 2 * changed, "{rewritten} pages were rewritten for {changed} that changed");
    let map = AddressMap::load(&test.store, &root, &mut ReadContext::new().unwrap()).unwrap();
    let (mut held, mut used) = (0, 0);
    let mut seen = std::collections::HashSet::new();
    for leaf in map.leaves.values() {
        used += leaf.map.present();
        held += leaf
            .map
            .objects
            .iter()
            .filter(|object| seen.insert(object.id))
            .map(|o| u64::from(o.pages))
            .sum::<u64>();
    }
    assert!(held <= 4 * used, "{held} pages are held for {used}");
}

#[test]
fn a_damaged_parent_does_not_spoil_the_child() {
    let test = TestStore::plain();
    let mut memory = some_memory();
    let parent = test.commit(&memory, None, "main");
    test.damage_the_data();
    memory.touch(HEAP + 0x3000, 1);
    std::fs::remove_dir_all(test.root.join("cache/fingerprints")).unwrap();
    let transaction = test.store.write(&[]).unwrap();
    let (child, stats) = transaction.put_memory(&memory.source(), Some(&parent), &Silent).unwrap();
    transaction.commit(&[]).unwrap();
    assert!(stats.parent_unreadable > 0);
    assert_eq!(test.read(&child), memory);
}

#[test]
fn regions_out_of_order_are_refused() {
    struct Odd(Vec<Region>);
    impl PageSource for Odd {
        fn regions(&self) -> Vec<Region> {
            self.0.clone()
        }
        fn read(&self, _: u64, _: &mut [u8]) -> std::io::Result<()> {
            Ok(())
        }
    }
    let test = TestStore::plain();
    let transaction = test.store.write(&[]).unwrap();
    let region = |start, len| Region { start, len };
    for regions in [
        vec![region(1, 4096)],
        vec![region(4096, 100)],
        vec![region(8192, 4096), region(4096, 4096)],
        vec![region(4096, 8192), region(8192, 4096)],
        vec![region(1 << 57, 4096)],
        vec![region(u64::MAX - 4095, 4096)],
    ] {
        let source: std::sync::Arc<dyn PageSource> = std::sync::Arc::new(Odd(regions));
        transaction.put_memory(&source, None, &Silent).unwrap_err();
    }
}

#[test]
fn a_source_that_fails_fails_the_transaction_and_leaves_nothing() {
    struct Failing;
    impl PageSource for Failing {
        fn regions(&self) -> Vec<Region> {
            vec![Region { start: 0, len: 64 << 20 }]
        }
        fn read(&self, address: u64, buffer: &mut [u8]) -> std::io::Result<()> {
            buffer.fill(1);
            if address > 20 << 20 { Err(std::io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
        }
    }
    let test = TestStore::plain();
    let transaction = test.store.write(&[]).unwrap();
    let source: std::sync::Arc<dyn PageSource> = std::sync::Arc::new(Failing);
    assert!(matches!(transaction.put_memory(&source, None, &Silent), Err(crate::StoreError::Source { .. })));
    transaction.commit(&[]).unwrap_err();
    assert!(test.packs().is_empty());
    assert_eq!(std::fs::read_dir(test.root.join("objects/tmp")).unwrap().count(), 0);
}

fn page_strategy() -> impl Strategy<Value = Page> {
    prop_oneof![
        Just(Page::Absent),
        Just(Page::Zero),
        (0u8..6, 0u16..128).prop_map(|(object, page)| Page::Stored {
            object: PagesRef { id: IdHasher::plain().id(Kind::PAGES, &[object]), pages: 128 },
            page,
        }),
    ]
}

proptest! {
    #[test]
    fn a_leaf_survives_folding_and_encoding(start in prop::collection::vec(page_strategy(), 512)) {
        let leaf = LeafMap::fold(&start);
        prop_assert_eq!(leaf.unfold(), start);
        prop_assert_eq!(LeafMap::parse(&leaf.encode()), Ok(leaf));
    }

    #[test]
    fn a_leaf_has_one_encoding(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut framed = vec![1];
        framed.extend(&bytes);
        for candidate in [&bytes, &framed] {
            if let Ok(leaf) = LeafMap::parse(candidate) {
                prop_assert_eq!(&leaf.encode(), candidate);
            }
            let _ = parse_node(candidate);
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Fill(u16, u8, u8),
    Zero(u16, u8),
    Remove(u16, u8),
    Touch(u16, u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0u16..1500, 1u8..200, any::<u8>()).prop_map(|(at, count, seed)| Change::Fill(at, count, seed)),
        (0u16..1500, 1u8..60).prop_map(|(at, count)| Change::Zero(at, count)),
        (0u16..1500, 1u8..60).prop_map(|(at, count)| Change::Remove(at, count)),
        (0u16..1500, any::<u8>()).prop_map(|(at, value)| Change::Touch(at, value)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever happens to an address space, each snapshot of it reads back as it was, also after its descendants.
    #[test]
    fn any_history_reads_back(history in prop::collection::vec(prop::collection::vec(change(), 1..6), 1..6)) {
        let test = TestStore::plain();
        let mut memory = Memory::default();
        let mut snapshots: Vec<(MapRoot, Memory)> = Vec::new();
        for changes in history {
            for change in changes {
                let at = |page: u16| HEAP + u64::from(page) * 4096;
                match change {
                    Change::Fill(page, count, seed) => memory.fill(at(page), usize::from(count), u64::from(seed)),
                    Change::Zero(page, count) => memory.zero(at(page), usize::from(count)),
                    Change::Remove(page, count) => {
                        (page..page + u16::from(count)).for_each(|page| { memory.pages.remove(&at(page)); });
                    }
                    Change::Touch(page, value) => {
                        if memory.pages.contains_key(&at(page)) {
                            memory.touch(at(page), u64::from(value));
                        }
                    }
                }
            }
            let parent = snapshots.last().map(|(root, _)| *root);
            let root = test.commit(&memory, parent.as_ref(), "main");
            snapshots.push((root, memory.clone()));
        }
        for (root, memory) in &snapshots {
            prop_assert_eq!(&test.read(root), memory);
        }
    }

    /// Whatever is asked for, exactly that comes, as it was.
    #[test]
    fn any_regions_read_back(cuts in prop::collection::btree_set(0u64..1600, 0..12), encrypted in any::<bool>()) {
        let test = if encrypted { TestStore::encrypted() } else { TestStore::plain() };
        let mut memory = some_memory();
        let parent = test.commit(&memory, None, "main");
        memory.touch(HEAP + 0x9000, 42);
        let root = test.commit(&memory, Some(&parent), "main");
        let cuts: Vec<u64> = cuts.into_iter().map(|page| HEAP + page * 4096).collect();
        let regions: Vec<Region> =
            cuts.chunks_exact(2).map(|cut| Region { start: cut[0], len: cut[1] - cut[0] }).collect();
        let asked = |page: &u64| regions.iter().any(|region| (region.start..region.start + region.len).contains(page));
        memory.pages.retain(|page, _| asked(page));
        prop_assert_eq!(read_memory_in(&test.store, &root, &regions).unwrap(), memory);
    }
}
