use super::*;
use crate::StoreError;
use crate::id::PackId;
use crate::pack::{ENTRY_LEN, HEADER_LEN, TRAILER_LEN};

/// A store with two threads, `a` and `b`, that share nothing, and the packs of `b`.
struct Two {
    test: TestStore,
    data: PathBuf,
    metadata: PathBuf,
}

fn two(test: TestStore) -> Two {
    Snapshot::take(&test.store, 1, "a");
    let before = test.packs();
    Snapshot::take(&test.store, 2, "b");
    let new = |class| {
        let mut packs = packs_of(&test, class);
        packs.retain(|path| !before.contains(path));
        assert_eq!(packs.len(), 1);
        packs.remove(0)
    };
    let (data, metadata) = (new(PackClass::Data), new(PackClass::Metadata));
    assert_clean(&test.store);
    // Another handle has nothing in memory that could hide the damage.
    let store = test.open("correct horse").unwrap();
    Two { test: test.with(store), data, metadata }
}

/// What must be found: a sentence that contains `words`; whether data is lost; whether thread `b` is affected.
#[track_caller]
fn expect(two: &Two, depth: Depth, words: &str, lost: bool, affected: bool) {
    let report = verify(&two.test.store, depth);
    let found = report.problems.iter().filter(|problem| problem.sentence.contains(words));
    let found: Vec<bool> = found.map(|problem| problem.data_lost).collect();
    assert!(!found.is_empty(), "nobody says `{words}`: {:#?}", report.problems);
    assert!(found.iter().all(|data_lost| *data_lost == lost), "{:#?}", report.problems);
    assert_eq!(report.problems.iter().any(|problem| problem.data_lost), lost, "{:#?}", report.problems);
    let expected: &[&str] = if affected { &["threads/b"] } else { &[] };
    assert_eq!(report.affected_refs, expected);
}

#[test]
fn a_whole_store_is_clean() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        assert_clean(&test.store);
        let two = two(test);
        let report = verify(&two.test.store, Depth::Bytes);
        let totals = two.test.store.catalogue.totals().unwrap();
        assert_eq!((report.packs, report.objects, report.objects_read), (4, totals.objects, totals.objects));
        assert_eq!((report.reachable, report.bytes_read), (totals.objects, totals.stored));
        assert_eq!(verify(&two.test.store, Depth::Structure).objects_read, 0);
    }
}

#[test]
fn a_flipped_bit_in_bulk_data_is_found_by_reading_it() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let two = two(test);
        flip(&two.data, HEADER_LEN + ENTRY_LEN + 1000);
        assert!(verify(&two.test.store, Depth::Structure).is_clean(), "structure does not read bulk data");
        expect(&two, Depth::Bytes, "cannot be read", true, true);
        assert_eq!(verify(&two.test.store, Depth::Bytes).problems.len(), 1, "one object, one problem");
    }
}

#[test]
fn a_flipped_bit_in_what_describes_others_is_found_at_once() {
    let two = two(TestStore::plain());
    flip(&two.metadata, HEADER_LEN + ENTRY_LEN + 5);
    expect(&two, Depth::Structure, "is needed and cannot be read", true, true);
    expect(&two, Depth::Bytes, "cannot be read", true, true);
}

#[test]
fn a_damaged_footer_loses_nothing() {
    let two = two(TestStore::plain());
    let len = std::fs::read(&two.data).unwrap().len();
    flip(&two.data, len - TRAILER_LEN - 10);
    for depth in [Depth::Structure, Depth::Bytes] {
        expect(&two, depth, "the end of pack", false, false);
    }
}

#[test]
fn a_pack_that_is_cut_off_loses_what_lay_behind_the_cut() {
    let two = two(TestStore::plain());
    let bytes = std::fs::read(&two.data).unwrap();
    std::fs::write(&two.data, &bytes[..bytes.len() / 2]).unwrap();
    for depth in [Depth::Structure, Depth::Bytes] {
        expect(&two, depth, "is cut off", true, true);
    }
}

#[test]
fn a_pack_with_a_damaged_header_is_lost() {
    let two = two(TestStore::plain());
    flip(&two.data, 20);
    for depth in [Depth::Structure, Depth::Bytes] {
        expect(&two, depth, "is damaged, and", true, true);
    }
}

#[test]
fn a_pack_that_is_gone_is_missed_at_either_depth() {
    for data in [true, false] {
        let two = two(TestStore::plain());
        std::fs::remove_file(if data { &two.data } else { &two.metadata }).unwrap();
        for depth in [Depth::Structure, Depth::Bytes] {
            expect(&two, depth, "is missing, and", true, true);
        }
    }
}

#[test]
fn a_pack_under_a_wrong_name_is_noticed() {
    let two = two(TestStore::plain());
    let other = packs_of(&two.test, PackClass::Data).into_iter().find(|path| *path != two.data).unwrap();
    std::fs::copy(other, &two.data).unwrap();
    expect(&two, Depth::Structure, "the end of pack", false, false);
    expect(&two, Depth::Bytes, "cannot be read", true, true);
}

#[test]
fn a_damaged_ref_is_an_affected_ref() {
    let two = two(TestStore::plain());
    flip(&two.test.root.join("refs/threads/b"), 3);
    for depth in [Depth::Structure, Depth::Bytes] {
        expect(&two, depth, "ref `threads/b` cannot be read", true, true);
    }
}

#[test]
fn a_ref_to_nothing_is_an_affected_ref() {
    let two = two(TestStore::plain());
    let nothing = two.test.store.hasher.id(NOTE, b"nothing");
    two.test.store.refs().update(&[point("b", nothing)]).unwrap();
    let report = verify(&two.test.store, Depth::Structure);
    assert_eq!(report.affected_refs, ["threads/b"]);
    assert!(
        matches!(report.problems[..], [crate::verify::Problem { data_lost: true, error: Some(StoreError::MissingObject { id }), .. }] if id == nothing)
    );
}

#[test]
fn one_damaged_copy_of_the_keyring_loses_nothing() {
    for copy in ["keyring", "keyring.bak"] {
        let two = two(TestStore::encrypted());
        flip(&two.test.root.join(copy), 40);
        for depth in [Depth::Structure, Depth::Bytes] {
            expect(&two, depth, "one copy of the keyring is damaged", false, false);
        }
    }
}

#[test]
fn a_pack_that_nobody_knows_is_litter() {
    let two = two(TestStore::plain());
    two.test.put_stray(&PackId::from_bytes([9; 32]), &std::fs::read(&two.data).unwrap());
    for depth in [Depth::Structure, Depth::Bytes] {
        expect(&two, depth, "is not in the catalogue", false, false);
    }
}
