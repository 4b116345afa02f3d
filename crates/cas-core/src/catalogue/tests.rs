//! What the catalogue promises, by use.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Catalogue, Location, NewEntry, NewPack, PackClass, PackNo, Totals, WriteNo};
use crate::error::{Class, StoreError};
use crate::id::{Kind, ObjectId, PackId};

pub(super) fn object(n: u64) -> ObjectId {
    ObjectId::from_bytes(*blake3::hash(&n.to_le_bytes()).as_bytes())
}

/// Ids that all begin with the same eight bytes.
pub(super) fn twin(n: u8) -> ObjectId {
    let mut bytes = [7; 32];
    bytes[31] = n;
    ObjectId::from_bytes(bytes)
}

pub(super) fn pack_id(n: u64) -> PackId {
    PackId::from_bytes(*blake3::hash(&(n + (1 << 40)).to_le_bytes()).as_bytes())
}

pub(super) fn new_pack(n: u64) -> NewPack {
    NewPack { id: pack_id(n), class: PackClass::Data, epoch: 3, file_len: 1 << 20 }
}

pub(super) fn entries(ids: impl IntoIterator<Item = ObjectId>) -> Vec<NewEntry> {
    let number = |(n, id): (usize, ObjectId)| {
        let entry = u32::try_from(n).unwrap();
        NewEntry {
            id,
            entry,
            offset: u64::from(entry) * 100,
            stored_len: 90,
            plain_len: 200,
            kind: Kind::PAGES,
        }
    };
    ids.into_iter().enumerate().map(number).collect()
}

pub(super) fn fresh() -> (TempDir, PathBuf, Catalogue) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalogue");
    let catalogue = Catalogue::create(&path).unwrap();
    (dir, path, catalogue)
}

pub(super) fn add(catalogue: &Catalogue, n: u64, ids: impl IntoIterator<Item = ObjectId>) -> PackNo {
    catalogue.add_pack(&new_pack(n), &entries(ids), None).unwrap()
}

fn place(catalogue: &Catalogue, id: &ObjectId) -> Option<PackNo> {
    catalogue.lookup(id).unwrap().map(|at| at.pack)
}

fn assert_sound(catalogue: &Catalogue) {
    assert_eq!(catalogue.check().unwrap(), Vec::<String>::new());
}

/// Copies the database with its log, as a crash would leave them.
fn copy_as_it_is(from: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        let with = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        std::fs::copy(with(from), with(to)).unwrap();
    }
}

#[test]
fn a_pack_is_found_again_after_reopening() {
    let (_dir, path, catalogue) = fresh();
    let no = add(&catalogue, 1, (0..1000).map(object));
    drop(catalogue);
    let catalogue = Catalogue::open(&path).unwrap();
    let expected =
        Location { pack: no, entry: 7, offset: 700, stored_len: 90, plain_len: 200, kind: Kind::PAGES };
    assert_eq!(catalogue.lookup(&object(7)).unwrap(), Some(expected));
    assert_eq!(catalogue.lookup_reusable(&object(7)).unwrap(), Some(expected));
    assert_eq!(catalogue.lookup(&object(1000)).unwrap(), None);
    let row = catalogue.pack(no).unwrap().unwrap();
    assert_eq!((row.id, row.class, row.epoch, row.file_len), (pack_id(1), PackClass::Data, 3, 1 << 20));
    assert_eq!((row.objects, row.stored, row.condemned), (1000, 90_000, None));
    assert_eq!(catalogue.packs().unwrap(), [row]);
    assert_eq!(catalogue.pack(PackNo(no.0 + 1)).unwrap(), None);
    assert_eq!(
        catalogue.totals().unwrap(),
        Totals { packs: 1, objects: 1000, stored: 90_000, plain: 200_000 }
    );
    assert_sound(&catalogue);
}

#[test]
fn extreme_values_come_back_and_impossible_ones_are_refused() {
    let (_dir, _path, catalogue) = fresh();
    let mut entry = NewEntry {
        id: ObjectId::from_bytes([0xff; 32]),
        entry: u32::MAX,
        offset: i64::MAX.cast_unsigned() - u64::from(u32::MAX),
        stored_len: u32::MAX,
        plain_len: u32::MAX,
        kind: Kind(255),
    };
    let pack = NewPack {
        class: PackClass::Metadata,
        epoch: u32::MAX,
        file_len: i64::MAX.cast_unsigned(),
        ..new_pack(1)
    };
    catalogue.add_pack(&pack, &[entry], None).unwrap();
    let at = catalogue.lookup(&entry.id).unwrap().unwrap();
    assert_eq!((at.entry, at.offset, at.stored_len, at.kind), (u32::MAX, entry.offset, u32::MAX, Kind(255)));
    assert_sound(&catalogue);
    entry.id = object(2);
    entry.offset = u64::MAX;
    catalogue.add_pack(&new_pack(2), &[entry], None).unwrap_err();
    assert_eq!(catalogue.packs().unwrap().len(), 1);
    assert_eq!(place(&catalogue, &object(2)), None);
}

#[test]
fn an_object_keeps_its_place_unless_that_is_condemned() {
    let (_dir, _path, catalogue) = fresh();
    let first = add(&catalogue, 1, [object(1), object(2)]);
    let second = add(&catalogue, 2, [object(2), object(3)]);
    assert_eq!(place(&catalogue, &object(2)), Some(first));
    assert_eq!(catalogue.pack(second).unwrap().unwrap().objects, 1);
    assert_eq!(catalogue.generation().unwrap(), 0);
    assert_eq!(catalogue.condemn(&[first]).unwrap(), 1);
    assert_eq!(catalogue.generation().unwrap(), 1);
    assert_eq!(catalogue.pack(first).unwrap().unwrap().condemned, Some(1));
    assert_eq!(place(&catalogue, &object(2)), Some(first));
    assert_eq!(catalogue.lookup_reusable(&object(2)).unwrap(), None);
    assert_eq!(catalogue.lookup_reusable(&object(3)).unwrap().map(|at| at.pack), Some(second));
    let third = add(&catalogue, 3, [object(2)]);
    assert_eq!(place(&catalogue, &object(2)), Some(third));
    assert_eq!(catalogue.pack(first).unwrap().unwrap().objects, 1);
    assert_sound(&catalogue);
    catalogue.pardon(&[first]).unwrap();
    assert_eq!(catalogue.lookup_reusable(&object(1)).unwrap().map(|at| at.pack), Some(first));
    assert!(matches!(catalogue.condemn(&[PackNo(99)]), Err(StoreError::Invalid { .. })));
    assert_eq!(catalogue.generation().unwrap(), 1);
}

#[test]
fn a_dropped_pack_takes_with_it_only_what_is_still_there() {
    let (_dir, _path, catalogue) = fresh();
    let first = add(&catalogue, 1, (0..10).map(object));
    catalogue.condemn(&[first]).unwrap();
    let second = add(&catalogue, 2, (5..8).map(object));
    catalogue.drop_packs(&[first, first, PackNo(77)]).unwrap();
    for n in 0..10 {
        assert_eq!(place(&catalogue, &object(n)), (5..8).contains(&n).then_some(second), "object {n}");
    }
    assert_eq!(catalogue.doomed().unwrap(), [pack_id(1)]);
    assert_eq!(catalogue.totals().unwrap().objects, 3);
    assert_sound(&catalogue);
    let again = catalogue.add_pack(&new_pack(1), &entries([object(0)]), None);
    assert!(matches!(again, Err(StoreError::Invalid { .. })));
    catalogue.undoom(&pack_id(1)).unwrap();
    assert_eq!(catalogue.doomed().unwrap(), []);
    let third = add(&catalogue, 1, [object(0)]);
    assert!(third > second, "numbers are not used twice");
    catalogue.drop_packs(&[third]).unwrap();
    assert!(add(&catalogue, 9, [object(0)]) > third, "not even the last one");
}

#[test]
fn ids_that_share_a_key_are_different_objects() {
    let (_dir, _path, catalogue) = fresh();
    let first = add(&catalogue, 1, [twin(1), object(1), twin(2)]);
    let second = add(&catalogue, 2, [twin(3), twin(2)]);
    let places = |numbers: [u8; 4]| numbers.map(|n| place(&catalogue, &twin(n)));
    assert_eq!(places([1, 2, 3, 4]), [Some(first), Some(first), Some(second), None]);
    assert_sound(&catalogue);
    let mut seen = Vec::new();
    catalogue
        .for_each_object(&mut |id, _| {
            seen.push(*id);
            Ok(())
        })
        .unwrap();
    let mut expected = [twin(1), twin(2), twin(3), object(1)];
    expected.sort();
    assert_eq!(seen, expected);

    // The slot in the main table becomes free; the twin that stays is found, and not stored a second time.
    catalogue.condemn(&[first]).unwrap();
    catalogue.drop_packs(&[first]).unwrap();
    assert_eq!(places([1, 2, 3, 4]), [None, None, Some(second), None]);
    let third = add(&catalogue, 3, [twin(3), twin(4)]);
    assert_eq!(places([1, 2, 3, 4]), [None, None, Some(second), Some(third)]);
    assert_eq!(catalogue.totals().unwrap().objects, 2);
    assert_sound(&catalogue);
    catalogue.condemn(&[second]).unwrap();
    assert_eq!(catalogue.lookup_reusable(&twin(3)).unwrap(), None);
    let fourth = add(&catalogue, 4, [twin(3)]);
    assert_eq!(places([1, 2, 3, 4]), [None, None, Some(fourth), Some(third)]);
    catalogue.drop_packs(&[second]).unwrap();
    assert_eq!(places([1, 2, 3, 4]), [None, None, Some(fourth), Some(third)]);
    assert_sound(&catalogue);
}

#[test]
fn adding_a_pack_twice_changes_nothing() {
    let (_dir, _path, catalogue) = fresh();
    let first = add(&catalogue, 1, [object(1)]);
    catalogue.announce(None, "pack-1").unwrap();
    let again = catalogue.add_pack(&new_pack(1), &entries([object(2)]), Some("pack-1")).unwrap();
    assert_eq!(first, again);
    assert_eq!(place(&catalogue, &object(2)), None);
    assert_eq!(catalogue.announced().unwrap(), []);
}

#[test]
fn several_packs_are_added_all_or_none() {
    let (_dir, _path, catalogue) = fresh();
    let good = (new_pack(1), entries([object(1), object(1)]), Some("one".to_owned()));
    let mut bad = (new_pack(2), entries([object(2)]), None);
    bad.1[0].offset = u64::MAX;
    catalogue.announce(None, "one").unwrap();
    catalogue.add_packs(&[good.clone(), bad.clone()]).unwrap_err();
    assert_eq!(catalogue.totals().unwrap(), Totals::default());
    assert_eq!(catalogue.announced().unwrap().len(), 1);
    bad.1[0].offset = 5;
    let numbers = catalogue.add_packs(&[good, bad]).unwrap();
    assert_eq!([1, 2].map(|n| place(&catalogue, &object(n))), [Some(numbers[0]), Some(numbers[1])]);
    assert_eq!(catalogue.announced().unwrap(), []);
    assert_eq!(catalogue.totals().unwrap().objects, 2, "an id twice in a pack counts once");
    assert_sound(&catalogue);
}

#[test]
fn a_transaction_ends_with_its_pins_and_announcements() {
    let (_dir, path, catalogue) = fresh();
    let no = add(&catalogue, 1, [object(1)]);
    catalogue.condemn(&[no]).unwrap();
    let transaction = catalogue.begin_write("token", &[object(2), object(1), object(2)]).unwrap();
    let other = catalogue.begin_write("other", &[]).unwrap();
    catalogue.pin(transaction, &object(3)).unwrap();
    catalogue.announce(Some(transaction), "a").unwrap();
    catalogue.announce(Some(other), "b").unwrap();
    catalogue.announce(None, "c").unwrap();

    let elsewhere = Catalogue::open(&path).unwrap();
    let transactions = elsewhere.open_writes().unwrap();
    let row = &transactions[0];
    assert_eq!((row.no, row.token.as_str(), row.started_generation), (transaction, "token", 1));
    assert_eq!(row.pid, std::process::id());
    assert!(row.started_unix > 1_700_000_000);
    assert_eq!(row.pins.iter().collect::<BTreeSet<_>>(), [&object(1), &object(2), &object(3)].into());
    assert!(transactions[1].pins.is_empty());
    let expected =
        [("a", Some(transaction)), ("b", Some(other)), ("c", None)].map(|(name, no)| (name.to_owned(), no));
    assert_eq!(elsewhere.announced().unwrap(), expected);

    elsewhere.end_write(transaction).unwrap();
    assert_eq!(catalogue.open_writes().unwrap().len(), 1);
    assert_eq!(catalogue.announced().unwrap(), expected[1..]);
    catalogue.end_write(transaction).unwrap();
    assert!(matches!(catalogue.pin(transaction, &object(3)), Err(StoreError::Invalid { .. })));
    assert!(matches!(catalogue.announce(Some(WriteNo(99)), "d"), Err(StoreError::Invalid { .. })));
    catalogue.retract("c").unwrap();
    assert_eq!(catalogue.announced().unwrap(), expected[1..2]);
    assert!(catalogue.begin_write("new", &[]).unwrap() > other);
    catalogue.set_meta("store", "x").unwrap();
    assert_eq!(
        (elsewhere.meta("store").unwrap().as_deref(), elsewhere.meta("y").unwrap()),
        (Some("x"), None)
    );
    assert_sound(&catalogue);
}

#[test]
fn two_handles_write_and_read_at_once() {
    let (_dir, path, first) = fresh();
    let second = Catalogue::open(&path).unwrap();
    std::thread::scope(|scope| {
        for (handle, base) in [(&first, 0), (&second, 100), (&second, 200)] {
            scope.spawn(move || {
                for n in base..base + 30 {
                    // Every pack shares an object with the other threads' packs.
                    add(handle, n, [object(n), object(1000 + n % 100)]);
                    assert!(place(handle, &object(n)).is_some());
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..20 {
                let mut count = 0;
                first
                    .for_each_object(&mut |_, _| {
                        count += 1;
                        Ok(())
                    })
                    .unwrap();
                assert!(count <= 120);
                second.checkpoint().unwrap();
            }
        });
    });
    assert_eq!(first.totals().unwrap(), Totals { packs: 90, objects: 120, stored: 10_800, plain: 24_000 });
    assert_eq!(first.packs().unwrap(), second.packs().unwrap());
    assert_sound(&first);
}

#[test]
fn every_state_that_a_crash_can_leave_is_one_between_two_calls() {
    let (dir, path, catalogue) = fresh();
    for n in 0..6 {
        let no = add(&catalogue, n, (0..200).map(|i| object(n * 200 + i)));
        if n == 3 {
            catalogue.checkpoint().unwrap();
            catalogue.condemn(&[no]).unwrap();
            catalogue.drop_packs(&[no]).unwrap();
        }
    }
    let after = dir.path().join("after");
    copy_as_it_is(&path, &after);
    let log = PathBuf::from(format!("{}-wal", after.display()));
    let whole = std::fs::read(&log).unwrap();
    assert!(whole.len() > 10_000);
    let mut seen = BTreeSet::new();
    // The log cut off at many lengths, with rubbish behind the cut.
    for step in 0..=60 {
        let cut = whole.len() * step / 60;
        let copy = dir.path().join(format!("cut{step}"));
        copy_as_it_is(&after, &copy);
        let mut left = whole[..cut].to_vec();
        if step % 2 == 0 {
            left.resize(whole.len(), 0xa5);
        }
        std::fs::write(format!("{}-wal", copy.display()), left).unwrap();
        let copied = Catalogue::open(&copy).unwrap();
        assert_sound(&copied);
        let totals = copied.totals().unwrap();
        assert_eq!(totals.objects, totals.packs * 200);
        seen.insert((totals.packs, copied.doomed().unwrap().len()));
    }
    assert_eq!(seen, [(4, 0), (3, 1), (4, 1), (5, 1)].into());
}

#[test]
fn an_unfinished_write_is_gone_and_harms_nobody() {
    let (_dir, _path, catalogue) = fresh();
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        catalogue.connections.write::<()>("panic", |tx| {
            tx.execute("DELETE FROM gc", [])?;
            panic!("in the middle");
        })
    }));
    stopped.unwrap_err();
    assert_eq!(catalogue.generation().unwrap(), 0);
    let failed = catalogue.connections.write::<()>("fail", |tx| Ok(tx.execute_batch("NO SUCH WORD")?));
    assert!(matches!(failed, Err(StoreError::Catalogue { .. })));
    let failed =
        catalogue.connections.read::<()>("fail", |conn| Ok(conn.execute_batch("BEGIN; NO SUCH WORD")?));
    assert!(matches!(failed, Err(StoreError::Catalogue { .. })));
    catalogue.connections.read("leave open", |conn| Ok(conn.execute_batch("BEGIN")?)).unwrap();
    let written = catalogue.connections.read("write", |conn| Ok(conn.execute("DELETE FROM gc", [])?));
    assert!(written.is_err(), "readers cannot write");
    add(&catalogue, 1, [object(1)]);
    assert!(place(&catalogue, &object(1)).is_some());
    catalogue.checkpoint().unwrap();
}

#[test]
fn a_walk_may_use_the_catalogue_and_stop_early() {
    let (_dir, _path, catalogue) = fresh();
    add(&catalogue, 1, (0..10_000).map(object));
    let mut last = None;
    let mut count = 0;
    catalogue
        .for_each_object(&mut |id, at| {
            assert!(last < Some(*id), "in the order of ids");
            last = Some(*id);
            count += 1;
            if count % 2500 == 0 {
                assert_eq!(catalogue.lookup(id)?, Some(*at));
                catalogue.announce(None, "from within")?;
                catalogue.checkpoint()?;
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(count, 10_000);
    let stopped =
        catalogue.for_each_object(&mut |_, _| Err(StoreError::Invalid { what: "enough".to_owned() }));
    assert_eq!(stopped.unwrap_err().to_string(), "enough");
}

#[test]
fn bulk_load_makes_what_adding_makes() {
    let (dir, _path, added) = fresh();
    let path = dir.path().join("bulk");
    let mut load = Catalogue::bulk(&path).unwrap();
    for n in 0..40 {
        let mut ids: Vec<_> = (0..2000).map(|i| object(n * 1900 + i)).collect();
        ids.extend([twin(u8::try_from(n / 2).unwrap()), object(n * 1900)]);
        let entries = entries(ids);
        let no = load.add(&new_pack(n), &entries).unwrap();
        assert_eq!(load.add(&new_pack(n), &[]).unwrap(), no);
        assert_eq!(added.add_pack(&new_pack(n), &entries, None).unwrap(), no);
    }
    load.finish().unwrap().close().unwrap();
    assert!(!dir.path().join("bulk-wal").exists(), "closed: all is in one file");
    let moved = dir.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    let loaded = Catalogue::open(&moved).unwrap();
    assert_sound(&loaded);
    assert_eq!(loaded.packs().unwrap(), added.packs().unwrap());
    assert_eq!(loaded.totals().unwrap(), added.totals().unwrap());
    assert_eq!(loaded.totals().unwrap().objects, 40 * 1900 + 100 + 20);
    let all = |catalogue: &Catalogue| {
        let mut all = Vec::new();
        catalogue
            .for_each_object(&mut |id, at| {
                all.push((*id, *at));
                Ok(())
            })
            .unwrap();
        all
    };
    assert_eq!(all(&loaded), all(&added));
    loaded.drop_packs(&[PackNo(3), PackNo(4)]).unwrap();
    assert_sound(&loaded);
    add(&loaded, 100, [object(999_999)]);
}

#[test]
fn a_bulk_load_that_is_given_up_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bulk");
    let mut load = Catalogue::bulk(&path).unwrap();
    load.add(&new_pack(1), &entries([object(1)])).unwrap();
    Catalogue::bulk(&path).expect_err("the path is taken");
    drop(load);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_bulk_load_that_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bulk");
    std::fs::write(dir.path().join("bulk.staging"), "left over").unwrap();
    let mut load = Catalogue::bulk(&path).unwrap();
    let mut bad = entries([object(1)]);
    bad[0].offset = u64::MAX;
    load.add(&new_pack(1), &bad).unwrap();
    load.finish().unwrap_err();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_is_no_catalogue_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalogue");
    assert!(matches!(Catalogue::open(&path), Err(StoreError::Io { .. })));
    assert!(!path.exists());
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(Catalogue::open(&path), Err(StoreError::Damaged { .. })));
    assert!(matches!(Catalogue::create(&path), Err(StoreError::Io { .. })));
    let noise: Vec<u8> = (0..2000u64).flat_map(|n| *object(n).as_bytes()).collect();
    std::fs::write(&path, &noise).unwrap();
    assert_eq!(Catalogue::open(&path).unwrap_err().class(), Class::Corruption);
    assert_eq!(std::fs::read(&path).unwrap(), noise);
    std::fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    let foreign = std::fs::read(&path).unwrap();
    assert!(matches!(Catalogue::open(&path), Err(StoreError::Damaged { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), foreign);
    Catalogue::open(dir.path()).unwrap_err();
}

#[test]
fn a_newer_version_is_refused() {
    let (_dir, path, catalogue) = fresh();
    drop(catalogue);
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 2).unwrap();
    assert!(matches!(Catalogue::open(&path), Err(StoreError::FormatTooNew { found: 2, supported: 1, .. })));
}

#[test]
fn a_catalogue_that_was_replaced_is_not_written_to() {
    let (dir, path, catalogue) = fresh();
    add(&catalogue, 1, [object(1)]);
    let other = dir.path().join("other");
    Catalogue::create(&other).unwrap().close().unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert!(matches!(
        catalogue.add_pack(&new_pack(2), &entries([object(2)]), None),
        Err(StoreError::Invalid { .. })
    ));
}

#[test]
fn check_finds_rows_that_do_not_fit() {
    let wrong = [
        ("UPDATE packs SET stored = stored + 1", "sums"),
        ("UPDATE objects SET pack = 9 WHERE rowid = (SELECT min(rowid) FROM objects)", "not there"),
        (
            "UPDATE objects SET offset = 1 << 40 WHERE rowid = (SELECT min(rowid) FROM objects)",
            "beyond the end",
        ),
        ("UPDATE contents SET keys = zeroblob(800)", "contents"),
        ("UPDATE contents SET keys = zeroblob(801)", "contents"),
        ("DELETE FROM contents", "contents"),
        ("INSERT INTO doomed SELECT id FROM packs", "doomed"),
        ("INSERT INTO twins SELECT * FROM objects LIMIT 1", "two places"),
        ("UPDATE objects SET rest = x'00'", "damaged"),
        ("UPDATE objects SET kind = 300", "damaged"),
        ("PRAGMA foreign_keys = OFF; INSERT INTO condemned VALUES(55, 1)", "refers to"),
    ];
    for (sql, word) in wrong {
        let (_dir, path, catalogue) = fresh();
        add(&catalogue, 1, (0..100).map(object));
        assert_sound(&catalogue);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let findings = catalogue.check().unwrap();
        assert!(findings.iter().any(|finding| finding.contains(word)), "{sql}: {findings:?}");
    }
}

#[test]
fn a_pack_is_not_dropped_by_wrong_contents() {
    let (_dir, path, catalogue) = fresh();
    let no = add(&catalogue, 1, (0..100).map(object));
    for sql in ["UPDATE contents SET keys = x'00'", "UPDATE contents SET keys = zeroblob(800)"] {
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        assert!(matches!(catalogue.drop_packs(&[no]), Err(StoreError::Damaged { .. })));
        assert_eq!(catalogue.doomed().unwrap(), []);
        assert!(place(&catalogue, &object(1)).is_some());
    }
}
