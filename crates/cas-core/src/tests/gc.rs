use std::time::Instant;

use super::*;
use crate::catalogue::PackNo;
use crate::crypto::Keyring;
use crate::gc::{Action, GcPlan};
use crate::pack::salvage;
use crate::testing::{passphrase, remove};
use crate::{OpenOptions, StoreError};

/// Chunks of noise in one pack, of which a note under `name` refers to the first `used`.
fn some_chunks(test: &TestStore, name: &str, seed: u64, used: usize) -> Vec<ObjectId> {
    let transaction = test.store.write(&[]).unwrap();
    let chunks: Vec<ObjectId> =
        (0..10).map(|n| transaction.put(Kind::CHUNK, noise(seed * 100 + n, 20_000)).unwrap()).collect();
    let below: Vec<_> = chunks[..used].iter().map(|id| Reference::strong(Kind::CHUNK, *id)).collect();
    let id = transaction.put(NOTE, note(name, &below)).unwrap();
    transaction.commit(&[point(name, id)]).unwrap();
    chunks
}

/// What a plan says, in a form that can be compared.
fn essence(plan: &GcPlan) -> Vec<String> {
    let packs = plan.packs.iter().map(|one| format!("{one:?}"));
    let sums = [plan.live_objects, plan.live_stored, plan.dead_objects, plan.dead_stored];
    packs.chain([format!("{sums:?}")]).collect()
}

fn condemned(store: &Store) -> usize {
    store.catalogue.packs().unwrap().iter().filter(|pack| pack.condemned.is_some()).count()
}

fn wait_until(mut what: impl FnMut() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(20), "this never happened");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_no_ref_leads_to_goes_and_the_rest_stays_as_it_was() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let transaction = test.store.write(&[]).unwrap();
        let parent = Snapshot::put(&transaction, 1, None).unwrap();
        transaction.flush().unwrap();
        let mut memory = parent.memory.clone();
        memory.touch(0x7000_0000_0000, 99);
        let child = Snapshot::put_content(&transaction, memory, noise(2, 200_000), Some(&parent)).unwrap();
        transaction.commit(&[point("kept", child.id)]).unwrap();
        let lonely = Snapshot::take(&test.store, 3, "gone");
        test.store.refs().update(&[remove("gone")]).unwrap();

        let report = collect(&test.store);
        assert!(report.packs_removed >= 2 && report.plan.dead_objects > 5, "{report:?}");
        for store in [test.store.clone(), test.open("correct horse").unwrap()] {
            child.check(&store);
            parent.check(&store);
            assert!(!store.contains(&lonely.id).unwrap());
            assert!(matches!(store.get(NOTE, &lonely.id), Err(StoreError::MissingObject { .. })));
        }
        assert_clean(&test.store);
        assert_no_transactions(&test);

        let before = files(&test, "objects");
        let again = collect(&test.store);
        assert_eq!((again.packs_removed, again.plan.dead_objects, again.bytes_copied), (0, 0, 0));
        assert_eq!(files(&test, "objects"), before);
    }
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_will_happen() {
    let test = TestStore::plain();
    some_chunks(&test, "sparse", 1, 2);
    some_chunks(&test, "dense", 2, 9);
    Snapshot::take(&test.store, 3, "gone");
    test.store.refs().update(&[remove("gone")]).unwrap();
    let before = (files(&test, "objects"), test.store.catalogue.packs().unwrap());
    let generation = test.store.catalogue.generation().unwrap();

    let plan = test.store.plan_gc(&Notes, &at_once(), &Silent).unwrap();
    assert_eq!((files(&test, "objects"), test.store.catalogue.packs().unwrap()), before);
    assert_eq!(test.store.catalogue.generation().unwrap(), generation);
    let count = |action| plan.with(action).count() as u64;
    assert!(count(Action::Drop) > 0 && count(Action::Repack) > 0 && count(Action::Keep) > 0);

    let report = collect(&test.store);
    assert_eq!(essence(&report.plan), essence(&plan));
    assert_eq!(report.packs_removed, count(Action::Drop) + count(Action::Repack));
    assert_eq!(report.bytes_copied, plan.with(Action::Repack).map(|one| one.live_stored).sum::<u64>());
    let bytes =
        |files: &BTreeMap<PathBuf, Vec<u8>>| files.values().map(|file| file.len() as u64).sum::<u64>();
    let freed = bytes(&before.0) - bytes(&files(&test, "objects"));
    // New packs have headers and footers of their own.
    assert!(freed <= plan.freed() && freed + 4096 > plan.freed(), "{freed} for {}", plan.freed());
}

#[test]
fn sparse_packs_are_repacked_and_dense_ones_kept() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let sparse = some_chunks(&test, "sparse", 1, 2);
        let dense = some_chunks(&test, "dense", 2, 9);
        let report = collect(&test.store);
        assert_eq!(report.plan.with(Action::Repack).count(), 1);
        assert_eq!(report.packs_removed, 1);
        assert!(test.store.contains(&sparse[1]).unwrap());
        assert!(!test.store.contains(&sparse[2]).unwrap());
        assert!(test.store.contains(&dense[9]).unwrap(), "one dead object does not make a pack sparse");

        let options = GcOptions { erase: true, ..at_once() };
        let report = test.store.gc(&Notes, &options, &Silent).unwrap();
        assert_eq!(report.packs_removed, 1, "for erasing, one dead object is enough");
        assert!(!test.store.contains(&dense[9]).unwrap());
        for (seed, chunks, used) in [(1, sparse, 2), (2, dense, 9)] {
            for (n, id) in (0..).zip(&chunks[..used]) {
                assert!(test.store.get(Kind::CHUNK, id).unwrap() == noise(seed * 100 + n, 20_000));
            }
        }
        assert_clean(&test.store);
    }
}

#[test]
fn pins_keep_what_they_name_and_all_it_leads_to() {
    let test = TestStore::plain();
    let (first, second) = (Snapshot::take(&test.store, 1, "a"), Snapshot::take(&test.store, 2, "b"));
    let transaction = test.store.write(&[first.id]).unwrap();
    transaction.pin(&second.id).unwrap();
    test.store.refs().update(&[remove("a"), remove("b")]).unwrap();
    let report = collect(&test.store);
    assert_eq!((report.plan.dead_objects, report.packs_removed, report.waiting_for), (0, 0, 0));
    first.check(&test.store);
    second.check(&test.store);
    drop(transaction);
    assert!(collect(&test.store).packs_removed > 0);
    assert!(test.packs().is_empty());
}

/// The danger that the module documentation of gc speaks of.
#[test]
fn an_older_transaction_may_count_on_what_it_found() {
    let test = TestStore::plain();
    let content = noise(1, 9000);
    let garbage = test.store.write(&[]).unwrap();
    let id = garbage.put(Kind::CHUNK, content.clone()).unwrap();
    garbage.commit(&[]).unwrap();

    let transaction = test.store.write(&[]).unwrap();
    transaction.put(Kind::CHUNK, content.clone()).unwrap();
    assert_eq!(transaction.stats().known_objects, 1, "it relies on the copy that is there");
    let report = collect(&test.store);
    assert_eq!((report.waiting_for, report.packs_removed), (1, 0));
    assert_eq!(condemned(&test.store), 0, "what was postponed is not held against later writers");

    // With patience gc waits for the transaction, and marks again afterwards.
    let store = test.store.clone();
    let patient = GcOptions { patience: Duration::from_secs(20), ..at_once() };
    let gc = std::thread::spawn(move || store.gc(&Notes, &patient, &Silent).unwrap());
    wait_until(|| condemned(&test.store) > 0);
    let root = transaction.put(NOTE, note("late", &[Reference::strong(Kind::CHUNK, id)])).unwrap();
    transaction.commit(&[point("main", root)]).unwrap();
    let report = gc.join().unwrap();
    assert_eq!(report.waiting_for, 0);
    assert_eq!(test.store.get(Kind::CHUNK, &id).unwrap(), content);
    assert_clean(&test.store);
}

#[test]
fn a_transaction_that_begins_after_the_verdict_writes_its_own_copy() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let content = noise(1, 9000);
        let garbage = test.store.write(&[]).unwrap();
        let id = garbage.put(Kind::CHUNK, content.clone()).unwrap();
        garbage.commit(&[]).unwrap();

        let older = test.store.write(&[]).unwrap();
        let store = test.store.clone();
        let patient = GcOptions { patience: Duration::from_secs(20), ..at_once() };
        let gc = std::thread::spawn(move || store.gc(&Notes, &patient, &Silent).unwrap());
        wait_until(|| condemned(&test.store) > 0);
        let newer = test.store.write(&[]).unwrap();
        newer.put(Kind::CHUNK, content.clone()).unwrap();
        let root = newer.put(NOTE, note("late", &[Reference::strong(Kind::CHUNK, id)])).unwrap();
        assert_eq!(newer.stats().new_objects, 2);
        drop(older);
        // The newer transaction still lives: gc does not wait for it.
        let report = gc.join().unwrap();
        assert_eq!((report.waiting_for, report.packs_removed), (0, 1));
        newer.commit(&[point("main", root)]).unwrap();
        assert_eq!(test.open("correct horse").unwrap().get(Kind::CHUNK, &id).unwrap(), content);
        assert_clean(&test.store);
    }
}

#[test]
fn nothing_is_deleted_while_something_reachable_cannot_be_read() {
    let test = TestStore::plain();
    Snapshot::take(&test.store, 1, "kept");
    let metadata = packs_of(&test, PackClass::Metadata);
    Snapshot::take(&test.store, 2, "gone");
    test.store.refs().update(&[remove("gone")]).unwrap();
    let first = salvage(&PackBytes::of_file(&metadata[0]).unwrap()).unwrap().records[0];
    flip(&metadata[0], usize::try_from(first.offset).unwrap() + crate::pack::ENTRY_LEN + 3);
    let before = files(&test, "objects");
    let report = collect(&test.store);
    assert_eq!(report.packs_removed, 0);
    assert_eq!(report.plan.unreadable.len(), 1);
    assert!(report.plan.dead_objects > 0, "there was something to delete");
    assert_eq!((files(&test, "objects"), condemned(&test.store)), (before, 0));

    // So it is with a ref that cannot be read.
    flip(&metadata[0], usize::try_from(first.offset).unwrap() + crate::pack::ENTRY_LEN + 3);
    flip(&test.root.join("refs/threads/kept"), 5);
    let report = collect(&test.store);
    assert_eq!((report.packs_removed, report.plan.unreadable.len()), (0, 1));
}

#[test]
fn a_weak_reference_to_nothing_is_fine_and_a_strong_one_is_not() {
    let test = TestStore::plain();
    let missing = test.store.hasher.id(NOTE, b"never stored");
    Snapshot::take(&test.store, 2, "gone");
    test.store.refs().update(&[remove("gone")]).unwrap();
    let transaction = test.store.write(&[]).unwrap();
    let good = transaction.put(NOTE, note("weak", &[weak(NOTE, missing)])).unwrap();
    let bad = transaction.put(NOTE, note("strong", &[Reference::strong(NOTE, missing)])).unwrap();
    transaction.commit(&[point("good", good), point("bad", bad)]).unwrap();
    assert_eq!(collect(&test.store).packs_removed, 0);
    test.store.refs().update(&[remove("bad")]).unwrap();
    let report = collect(&test.store);
    assert!(report.plan.unreadable.is_empty() && report.packs_removed > 0);
    assert_clean(&test.store);
}

#[test]
fn what_was_erased_cannot_be_opened_with_the_keys_that_are_left() {
    let test = TestStore::encrypted();
    // Both in the same packs, so that erasing has to move one of them.
    let transaction = test.store.write(&[]).unwrap();
    let kept = Snapshot::put(&transaction, 1, None).unwrap();
    let secret = Snapshot::put(&transaction, 2, None).unwrap();
    transaction.commit(&[point("kept", kept.id), point("secret", secret.id)]).unwrap();
    let old: Vec<_> = files(&test, "objects").into_iter().collect();
    assert_eq!(old.len(), 2);
    let other = test.open("correct horse").unwrap();
    secret.check(&other);

    test.store.refs().update(&[remove("secret")]).unwrap();
    let options = GcOptions { erase: true, ..at_once() };
    let report = test.store.gc(&Notes, &options, &Silent).unwrap();
    assert_eq!(report.epochs_forgotten, 1);
    assert!(!test.store.contains(&secret.id).unwrap());

    let reopened = test.open("correct horse").unwrap();
    kept.check(&reopened);
    for (path, bytes) in &old {
        assert!(!path.exists());
        std::fs::write(path, bytes).unwrap();
        let reader = open_pack(path);
        let epoch = reader.header().epoch.unwrap();
        for store in [&test.store, &reopened] {
            assert!(store.keys.as_ref().unwrap().pack_key(reader.header()).unwrap().is_none());
            let name = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
            assert!(matches!(store.key_of(&reader, &name), Err(StoreError::KeyErased { .. })));
        }
        for copy in test.store.layout.keyrings() {
            let bytes = std::fs::read(&copy).unwrap();
            let keyring = Keyring::open(&copy, &bytes, &passphrase("correct horse")).unwrap();
            assert!(keyring.epochs().all(|known| known != epoch), "{}", copy.display());
        }
        std::fs::remove_file(path).unwrap();
    }
    assert_clean(&reopened);
}

#[test]
fn keys_that_seal_nothing_are_forgotten_and_those_in_use_are_not() {
    let test = TestStore::encrypted();
    let epochs = || test.store.keys.as_ref().unwrap().epochs().unwrap();
    let kept = Snapshot::take(&test.store, 1, "main");
    drop(test.store.write(&[]).unwrap());
    assert_eq!(epochs(), [1, 2]);
    // A living transaction's key has sealed nothing yet.
    let transaction = test.store.write(&[]).unwrap();
    assert_eq!(collect(&test.store).epochs_forgotten, 0);
    let late = Snapshot::put(&transaction, 2, None).unwrap();
    transaction.commit(&[point("late", late.id)]).unwrap();
    // Neither is the key of a pack forgotten that only a rebuild would find.
    let stray = Snapshot::take(&test.store, 3, "stray");
    let before = files(&test, "objects");
    test.store.refs().update(&[remove("stray")]).unwrap();
    let numbers: Vec<PackNo> = [stray.id, stray.blob.id]
        .iter()
        .map(|id| test.store.catalogue.lookup(id).unwrap().unwrap().pack)
        .collect();
    test.store.catalogue.drop_packs(&numbers).unwrap();
    for pack in test.store.catalogue.doomed().unwrap() {
        test.store.catalogue.undoom(&pack).unwrap();
    }
    assert_eq!(epochs(), [1, 2, 3, 4]);
    assert_eq!(collect(&test.store).epochs_forgotten, 1);
    assert_eq!(files(&test, "objects").len(), before.len() - 1, "the stray data pack alone was dropped");
    assert_eq!(epochs(), [1, 3, 4, 5], "the fifth is that of gc itself");
    for store in [test.store.clone(), test.open("correct horse").unwrap()] {
        kept.check(&store);
        late.check(&store);
    }
}

/// A crash between the two copies of the keyring leaves the key in one of them.
#[test]
fn a_key_is_forgotten_when_no_copy_of_the_keyring_has_it() {
    let test = TestStore::encrypted();
    let kept = Snapshot::take(&test.store, 1, "kept");
    Snapshot::take(&test.store, 2, "secret");
    test.store.refs().update(&[remove("secret")]).unwrap();
    let [first, copy] = test.store.layout.keyrings();
    let before = std::fs::read(&first).unwrap();
    assert_eq!(collect(&test.store).epochs_forgotten, 1);
    collect(&test.store);
    std::fs::write(&first, before).unwrap();
    collect(&test.store);
    for path in [first, copy] {
        let bytes = std::fs::read(&path).unwrap();
        let keyring = Keyring::open(&path, &bytes, &passphrase("correct horse")).unwrap();
        assert_eq!(keyring.epochs().collect::<Vec<_>>(), [1], "{}", path.display());
    }
    kept.check(&test.open("correct horse").unwrap());
}

#[test]
fn an_empty_store_has_no_garbage() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let report = collect(&test.store);
        assert!(report.plan.packs.is_empty());
        assert_eq!((report.packs_removed, report.plan.live_objects, report.plan.dead_objects), (0, 0, 0));
        assert_clean(&test.store);
    }
}

#[test]
fn the_marks_of_a_gc_that_died_are_taken_off() {
    let test = TestStore::plain();
    let kept = Snapshot::take(&test.store, 1, "main");
    let packs: Vec<PackNo> = test.store.catalogue.packs().unwrap().iter().map(|pack| pack.no).collect();
    test.store.catalogue.condemn(&packs).unwrap();
    assert_eq!(condemned(&test.store), packs.len());
    assert_eq!(collect(&test.store).packs_removed, 0);
    assert_eq!(condemned(&test.store), 0);
    kept.check(&test.store);
    let transaction = test.store.write(&[]).unwrap();
    Snapshot::put(&transaction, 1, None).unwrap();
    assert_eq!(transaction.commit(&[]).unwrap().new_objects, 0, "its packs are counted on again");
}

#[test]
fn files_that_a_gc_gave_up_are_removed_later() {
    let test = TestStore::plain();
    let kept = Snapshot::take(&test.store, 1, "main");
    let before = files(&test, "objects");
    Snapshot::take(&test.store, 2, "gone");
    test.store.refs().update(&[remove("gone")]).unwrap();
    let plan = test.store.plan_gc(&Notes, &at_once(), &Silent).unwrap();
    let dead: Vec<PackNo> = plan.with(Action::Drop).map(|plan| plan.pack.no).collect();
    test.store.catalogue.drop_packs(&dead).unwrap();
    assert_eq!(files(&test, "objects").len(), before.len() + dead.len());
    assert_clean(&test.store);

    assert_eq!(test.store.recover().unwrap().files, dead.len() as u64);
    assert_eq!(files(&test, "objects"), before);
    assert!(test.store.catalogue.doomed().unwrap().is_empty());
    assert_eq!(test.store.recover().unwrap(), crate::Recovered::default());
    kept.check(&test.store);
}

#[test]
fn one_gc_at_a_time() {
    let test = TestStore::plain();
    let _other = crate::lock::exclusive(&test.store.layout.lock("gc")).unwrap();
    let refused = test.store.gc(&Notes, &at_once(), &Silent);
    assert!(matches!(refused, Err(StoreError::Locked { .. })));
}

/// A reader that has looked up an object's place finds it gone, and looks again: without the row, without the file, and
/// without the key.
#[test]
fn a_place_that_is_out_of_date_is_looked_up_again() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let kept = Snapshot::take(&test.store, 1, "main");
        let stale = test.store.catalogue.lookup(&kept.id).unwrap().unwrap();
        let packs: Vec<PackNo> = test.store.catalogue.packs().unwrap().iter().map(|pack| pack.no).collect();
        let old = files(&test, "objects");
        move_all(&test, &packs);
        collect(&test.store);
        for file_is_back in [false, true] {
            if file_is_back {
                old.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
            }
            let reader = test.open("correct horse").unwrap();
            let (pack, place) = reader.open_at(&kept.id, stale).unwrap();
            assert_ne!(place.pack, stale.pack);
            let mut buffer = Vec::new();
            pack.reader.read(&kept.id, place.offset, place.stored_len, &mut buffer).unwrap();
        }
        // What is really gone is not looked for without end.
        test.packs().iter().for_each(|path| std::fs::remove_file(path).unwrap());
        let reader = test.open("correct horse").unwrap();
        assert!(matches!(reader.get(NOTE, &kept.id), Err(StoreError::MissingPack { .. })));
    }
}

#[test]
fn reading_goes_on_while_gc_moves_things() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let transaction = test.store.write(&[]).unwrap();
        let mut memory = Memory::default();
        memory.fill(0x7000_0000_0000, 2, 0);
        let kept = Snapshot::put_content(&transaction, memory.clone(), noise(0, 500), None).unwrap();
        transaction.commit(&[point("kept", kept.id)]).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut times = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) || times == 0 {
                    // A handle that is new has no pack open.
                    let options = OpenOptions {
                        unlock: Some(passphrase("correct horse")),
                        threads: 1,
                        ..OpenOptions::default()
                    };
                    kept.check(&Store::open(&test.root, options).unwrap());
                    times += 1;
                }
            });
            for seed in 1..6 {
                let transaction = test.store.write(&[]).unwrap();
                let garbage =
                    Snapshot::put_content(&transaction, memory.clone(), noise(seed, 500), None).unwrap();
                transaction.commit(&[point("garbage", garbage.id)]).unwrap();
                test.store.refs().update(&[remove("garbage")]).unwrap();
                let packs: Vec<PackNo> =
                    test.store.catalogue.packs().unwrap().iter().map(|pack| pack.no).collect();
                move_all(&test, &packs);
                collect(&test.store);
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            reader.join().unwrap();
        });
        kept.check(&test.store);
        assert_clean(&test.store);
    }
}

/// Moves everything into new packs, as gc does with a pack that is sparse.
fn move_all(test: &TestStore, packs: &[PackNo]) {
    test.store.catalogue.condemn(packs).unwrap();
    let transaction = test.store.write(&[]).unwrap();
    let mut buffer = Vec::new();
    let mut opened = Vec::new();
    for pack in packs {
        let open = test.store.open_pack(*pack).unwrap();
        for (id, at) in test.store.catalogue.objects_of(*pack).unwrap() {
            let raw = open.reader.read(&id, at.offset, at.stored_len, &mut buffer).unwrap();
            let encoded = open.reader.unseal(&raw, open.key.as_ref(), &mut opened).unwrap();
            transaction.put_encoded(raw.entry, encoded).unwrap();
        }
    }
    transaction.commit(&[]).unwrap();
    test.store.catalogue.drop_packs(packs).unwrap();
    test.store.recover().unwrap();
}

#[test]
fn many_small_packs_become_few() {
    let test = TestStore::encrypted();
    let kept: Vec<Snapshot> = (0..70).map(|n| Snapshot::take(&test.store, n, &format!("t{n}"))).collect();
    let before = test.packs().len();
    assert!(before >= 140);
    let report = collect(&test.store);
    assert!(test.packs().len() <= 4, "{} packs are left of {before}", test.packs().len());
    assert_eq!(report.epochs_forgotten, 70, "no pack needs the old keys any more");
    kept.iter().for_each(|snapshot| snapshot.check(&test.store));
    let again = collect(&test.store);
    assert_eq!(again.packs_removed, 0, "a second gc finds nothing to do");
}

/// A parent that no ref leads to any more is not there for those who come after gc has looked: a child of it must not
/// count on anything that is about to go.
#[test]
fn a_child_of_a_parent_that_is_being_collected_stands_on_its_own() {
    let test = TestStore::plain();
    let mut memory = Memory::default();
    memory.fill(0x7000_0000_0000, 700, 1);
    let parent = test.commit(&memory, None, "main");
    test.store.refs().update(&[remove("main")]).unwrap();
    let doomed: Vec<PackNo> = test.store.catalogue.packs().unwrap().iter().map(|pack| pack.no).collect();
    test.store.catalogue.condemn(&doomed).unwrap();

    memory.touch(0x7000_0000_0000, 5);
    let child = test.commit(&memory, Some(&parent), "child");
    test.store.catalogue.drop_packs(&doomed).unwrap();
    test.store.recover().unwrap();
    assert_eq!(test.read(&child), memory);
    assert!(collect(&test.store).plan.unreadable.is_empty());
}
