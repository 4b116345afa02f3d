use super::*;
use crate::StoreError;
use crate::id::PackId;
use crate::refs::{Expected, RefChange};

#[test]
fn a_dropped_transaction_leaves_nothing() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let transaction = test.store.write(&[]).unwrap();
        let snapshot = Snapshot::put(&transaction, 1, None).unwrap();
        assert_eq!(transaction_locks(&test).len(), 1);
        drop(transaction);
        assert!(test.packs().is_empty());
        assert_no_transactions(&test);
        assert!(!test.store.contains(&snapshot.id).unwrap());
        assert_clean(&test.store);
    }
}

#[test]
fn after_a_flush_another_handle_reads_what_was_put() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let other = test.open("correct horse").unwrap();
        let transaction = test.store.write(&[]).unwrap();
        let snapshot = Snapshot::put(&transaction, 1, None).unwrap();
        transaction.flush().unwrap();
        snapshot.check(&other);
        snapshot.check(&test.open("correct horse").unwrap());
        drop(transaction);
        snapshot.check(&other);
        assert_no_transactions(&test);
    }
}

#[test]
fn what_a_dead_process_left_is_removed_by_the_next_write() {
    let test = TestStore::plain();
    let kept = Snapshot::take(&test.store, 1, "main");
    let alive = test.store.write(&[]).unwrap();
    let catalogue = &test.store.catalogue;
    let alive_row = catalogue.open_writes().unwrap().remove(0);
    let dead_token = "0123456789abcdef0123456789abcdef";
    let dead = catalogue.begin_write(dead_token, &[kept.id]).unwrap();
    let mut left = Vec::new();
    for (byte, transaction, token) in [(7, dead, dead_token), (8, alive_row.no, &alive_row.token)] {
        let pack = PackId::from_bytes([byte; 32]);
        catalogue.announce(Some(transaction), &pack.to_string()).unwrap();
        let written = test.root.join(format!("objects/tmp/{token}-90.pack"));
        std::fs::write(&written, "half a pack").unwrap();
        left.push([test.put_stray(&pack, b"half a pack"), written]);
    }
    // Its process died between taking the lock and now.
    std::fs::write(test.root.join(format!("locks/session-{dead_token}")), "").unwrap();

    let next = test.store.write(&[]).unwrap();
    assert!(left[0].iter().all(|path| !path.exists()), "what the dead one left is gone");
    assert!(left[1].iter().all(|path| path.exists()), "what the living one has is not");
    assert!(catalogue.open_writes().unwrap().iter().all(|transaction| transaction.token != dead_token));
    assert_eq!(catalogue.announced().unwrap().len(), 1);
    assert_eq!(transaction_locks(&test).len(), 2);

    drop((alive, next));
    assert!(left[1].iter().all(|path| !path.exists()), "a transaction that ends cleans up behind itself");
    assert_no_transactions(&test);
    kept.check(&test.store);
    assert_clean(&test.store);
}

#[test]
fn two_transactions_at_once_may_put_the_same() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let (one, two) = (test.store.write(&[]).unwrap(), test.store.write(&[]).unwrap());
        let shared = vec![7; 5000];
        let id = one.put(Kind::CHUNK, shared.clone()).unwrap();
        assert_eq!(two.put(Kind::CHUNK, shared.clone()).unwrap(), id);
        let below = [Reference::strong(Kind::CHUNK, id)];
        let first = one.put(NOTE, note("one", &below)).unwrap();
        let second = two.put(NOTE, note("two", &below)).unwrap();
        two.commit(&[point("two", second)]).unwrap();
        one.commit(&[point("one", first)]).unwrap();
        assert_eq!(test.store.get(Kind::CHUNK, &id).unwrap(), shared);
        assert_eq!(test.store.get(NOTE, &first).unwrap(), note("one", &below));
        assert_eq!(test.store.get(NOTE, &second).unwrap(), note("two", &below));
        assert_eq!(test.store.catalogue.totals().unwrap().objects, 3);
        assert_clean(&test.store);
    }
}

#[test]
fn what_the_store_has_is_not_written_again() {
    let test = TestStore::plain();
    let transaction = test.store.write(&[]).unwrap();
    transaction.put(Kind::CHUNK, vec![1; 9000]).unwrap();
    transaction.put(Kind::CHUNK, vec![1; 9000]).unwrap();
    let written = transaction.commit(&[]).unwrap();
    assert_eq!((written.new_objects, written.known_objects), (1, 1));
    let transaction = test.store.write(&[]).unwrap();
    transaction.put(Kind::CHUNK, vec![1; 9000]).unwrap();
    let written = transaction.commit(&[]).unwrap();
    assert_eq!((written.new_objects, written.new_stored, written.known_plain), (0, 0, 9000));
    assert_eq!(test.packs().len(), 1);
    // The same bytes as something else are another object.
    let transaction = test.store.write(&[]).unwrap();
    transaction.put(Kind::PAGES, vec![1; 9000]).unwrap();
    assert_eq!(transaction.commit(&[]).unwrap().new_objects, 1);
}

#[test]
fn an_object_that_is_too_long_is_refused_and_nothing_else() {
    let test = TestStore::plain();
    let transaction = test.store.write(&[]).unwrap();
    let refused = transaction.put(Kind::CHUNK, vec![0; crate::MAX_OBJECT + 1]);
    assert!(matches!(refused, Err(StoreError::Invalid { .. })));
    let longest = transaction.put(Kind::CHUNK, vec![0; crate::MAX_OBJECT]).unwrap();
    transaction.commit(&[]).unwrap();
    assert_eq!(test.store.get(Kind::CHUNK, &longest).unwrap().len(), crate::MAX_OBJECT);
}

#[test]
fn a_ref_conflict_changes_no_ref_and_harms_nothing() {
    let test = TestStore::plain();
    let main = Snapshot::take(&test.store, 1, "main");
    let before = files(&test, "refs");
    let transaction = test.store.write(&[]).unwrap();
    let late = Snapshot::put(&transaction, 2, None).unwrap();
    let changes = [
        point("other", late.id),
        RefChange { name: "threads/main".into(), expected: Expected::At(late.id), new: Some(late.id) },
    ];
    let refused = transaction.commit(&changes);
    assert!(matches!(
        refused,
        Err(StoreError::RefConflict { name, found, .. }) if name == "threads/main" && found == Some(main.id)
    ));
    assert_eq!(files(&test, "refs"), before);
    assert_no_transactions(&test);
    main.check(&test.store);
    Snapshot::take(&test.store, 3, "main").check(&test.store);
    assert_clean(&test.store);
}

#[test]
fn a_panic_in_a_worker_fails_the_transaction_and_not_the_process() {
    let test = TestStore::plain();
    let transaction = test.store.write(&[]).unwrap();
    transaction.put(Kind::CHUNK, vec![1; 100]).unwrap();
    transaction.submit(|_, _| panic!("on purpose")).unwrap();
    let failed = transaction.flush();
    assert!(
        matches!(&failed, Err(StoreError::Bug { detail }) if detail.contains("on purpose")),
        "{failed:?}"
    );
    assert!(matches!(transaction.put(Kind::CHUNK, vec![2; 100]), Err(StoreError::TransactionFailed { .. })));
    assert!(matches!(transaction.commit(&[]), Err(StoreError::TransactionFailed { .. })));
    assert!(test.packs().is_empty());
    assert_no_transactions(&test);
    Snapshot::take(&test.store, 1, "main").check(&test.store);
}

#[test]
fn a_damaged_copy_is_not_counted_on() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let content = noise(5, 100_000);
        let put = || {
            let transaction = test.store.write(&[]).unwrap();
            let id = transaction.put(Kind::CHUNK, content.clone()).unwrap();
            (id, transaction.commit(&[]).unwrap())
        };
        let (id, _) = put();
        assert_eq!(put().1.new_objects, 0, "a good copy is");
        test.damage_the_data();
        assert!(matches!(test.store.get(Kind::CHUNK, &id), Err(crate::StoreError::Damaged { .. })));
        assert_eq!(put().1.new_objects, 1);
        assert_eq!(test.store.get(Kind::CHUNK, &id).unwrap(), content);
    }
}

#[test]
fn an_init_that_was_cut_short_can_be_repeated_and_a_store_is_never_started_over() {
    let test = TestStore::plain();
    std::fs::remove_file(test.root.join("format")).unwrap();
    let again = Store::init(&test.root, None, crate::OpenOptions::default()).unwrap();
    let transaction = again.write(&[]).unwrap();
    transaction.put(Kind::CHUNK, noise(1, 1000)).unwrap();
    transaction.commit(&[]).unwrap();
    let refused = Store::init(&test.root, None, crate::OpenOptions::default());
    assert!(matches!(refused, Err(crate::StoreError::AlreadyAStore { .. })));
    std::fs::remove_file(test.root.join("format")).unwrap();
    let refused = Store::init(&test.root, None, crate::OpenOptions::default());
    assert!(matches!(refused, Err(crate::StoreError::Damaged { .. })), "there are packs");
    assert_eq!(test.packs().len(), 1);
}
