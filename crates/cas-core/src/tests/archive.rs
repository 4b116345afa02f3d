use super::*;
use crate::StoreError;
use crate::archive::{Follow, Moved};

fn export(test: &TestStore, id: &ObjectId, follow: Follow) -> (Vec<u8>, Moved) {
    let mut out = Vec::new();
    let moved = test.store.export(id, follow, &Notes, &mut out, &Silent).unwrap();
    (out, moved)
}

/// Imports and commits under `name`.
fn import(test: &TestStore, file: &[u8], name: &str) -> Result<Moved> {
    let transaction = test.store.write(&[])?;
    let moved = transaction.import(Path::new("the.export"), &mut &file[..], &Notes, &Silent)?;
    transaction.commit(&[point(name, moved.root)])?;
    Ok(moved)
}

/// A snapshot and its child, which shares most of its memory with it.
fn family(test: &TestStore) -> (Snapshot, Snapshot) {
    let parent = Snapshot::take(&test.store, 1, "main");
    let transaction = test.store.write(&[parent.id]).unwrap();
    let mut memory = parent.memory.clone();
    memory.touch(0x7000_0000_0000, 99);
    let child = Snapshot::put_content(&transaction, memory, noise(2, 200_000), Some(&parent)).unwrap();
    transaction.commit(&[point("main", child.id)]).unwrap();
    (parent, child)
}

/// The snapshot as it is called in another store: the ids are read from its note, and all else is as it was.
fn renamed(store: &Store, id: ObjectId, original: &Snapshot) -> Snapshot {
    let text = store.get(NOTE, &id).unwrap();
    let below = Notes.references(NOTE, &text).unwrap();
    let map = MapRoot { id: below[0].id, ..original.map };
    let blob = Blob { id: below[1].id, ..original.blob };
    Snapshot { id, text, map, blob, ..original.clone() }
}

#[test]
fn plain_stores_keep_ids() {
    let (from, to) = (TestStore::plain(), TestStore::plain());
    let (parent, child) = family(&from);
    let (file, moved) = export(&from, &child.id, Follow::All);
    assert_eq!((moved.root, moved.kind), (child.id, NOTE));
    assert_eq!(moved.objects, from.store.catalogue.totals().unwrap().objects);
    assert_eq!(import(&to, &file, "main").unwrap(), moved);
    child.check(&to.store);
    parent.check(&to.store);
    assert_clean(&to.store);
    // Once more, it brings nothing new.
    let packs = to.packs();
    import(&to, &file, "again").unwrap();
    assert_eq!(to.packs(), packs);
    // What it becomes does not depend on where it comes from.
    assert!(export(&to, &child.id, Follow::All).0 == file);
}

#[test]
fn one_snapshot_comes_without_its_history() {
    let (from, to) = (TestStore::plain(), TestStore::plain());
    let (parent, child) = family(&from);
    let (file, _) = export(&from, &child.id, Follow::Strong);
    import(&to, &file, "main").unwrap();
    child.check(&to.store);
    assert!(!to.store.contains(&parent.id).unwrap());
    assert_clean(&to.store);
    assert_eq!(collect(&to.store).plan.dead_objects, 0);
}

#[test]
fn stores_with_other_secrets_get_other_ids_and_the_same_content() {
    let stores = || [TestStore::plain(), TestStore::encrypted()];
    for (from, to) in stores()
        .into_iter()
        .zip(stores().into_iter().rev())
        .chain([(TestStore::encrypted(), TestStore::encrypted())])
    {
        let (parent, child) = family(&from);
        for follow in [Follow::All, Follow::Strong] {
            let (file, exported) = export(&from, &child.id, follow);
            let moved = import(&to, &file, "main").unwrap();
            assert_ne!(moved.root, child.id);
            assert_eq!((moved.objects, moved.bytes), (exported.objects, exported.bytes));
            let there = renamed(&to.store, moved.root, &child);
            assert_ne!((there.map.id, there.blob.id), (child.map.id, child.blob.id));
            there.check(&to.store);
            let above = Notes.references(NOTE, &there.text).unwrap()[2];
            assert!(above.weak);
            match follow {
                Follow::All => renamed(&to.store, above.id, &parent).check(&to.store),
                // What was left behind keeps the name that it has there.
                Follow::Strong => assert_eq!(above.id, parent.id),
            }
            assert_clean(&to.store);
        }
        assert!(!to.store.contains(&child.id).unwrap() && !to.store.contains(&parent.id).unwrap());
    }
}

#[test]
fn a_copy_in_another_store_has_other_ids_and_the_same_content() {
    let (from, to) = (TestStore::plain(), TestStore::encrypted());
    let (parent, child) = family(&from);
    let other = Snapshot::take(&from.store, 7, "other");
    let transaction = to.store.write(&[]).unwrap();
    let mut named = std::collections::HashMap::new();
    let mut objects = 0;
    from.store
        .copy_to(&transaction, &[child.id, other.id, parent.id], &Notes, &Silent, &mut |kind, old, new| {
            objects += 1;
            if kind == NOTE {
                named.insert(*old, *new);
            }
        })
        .unwrap();
    transaction.commit(&[point("main", named[&child.id]), point("other", named[&other.id])]).unwrap();
    assert_eq!(named.len(), 3);
    assert_eq!(objects, to.store.catalogue.totals().unwrap().objects, "none twice");
    for snapshot in [&parent, &child, &other] {
        assert_ne!(named[&snapshot.id], snapshot.id);
        renamed(&to.store, named[&snapshot.id], snapshot).check(&to.store);
    }
    assert_clean(&to.store);
    let unknown = ObjectId::from_bytes([9; 32]);
    let transaction = to.store.write(&[]).unwrap();
    let missing = from.store.copy_to(&transaction, &[unknown], &Notes, &Silent, &mut |_, _, _| ());
    assert!(matches!(missing, Err(StoreError::MissingObject { id }) if id == unknown));
}

#[test]
fn there_and_back_again_is_where_it_was() {
    let (plain, encrypted) = (TestStore::plain(), TestStore::encrypted());
    let (_, child) = family(&plain);
    let moved = import(&encrypted, &export(&plain, &child.id, Follow::All).0, "main").unwrap();
    let back = TestStore::plain();
    assert_eq!(
        import(&back, &export(&encrypted, &moved.root, Follow::All).0, "main").unwrap().root,
        child.id
    );
    child.check(&back.store);
}

#[test]
fn an_export_with_any_damage_is_refused_and_leaves_nothing() {
    let from = TestStore::plain();
    let transaction = from.store.write(&[]).unwrap();
    let chunk = transaction.put(Kind::CHUNK, noise(1, 300)).unwrap();
    let root = transaction.put(NOTE, note("small", &[Reference::strong(Kind::CHUNK, chunk)])).unwrap();
    transaction.commit(&[point("main", root)]).unwrap();
    let (file, _) = export(&from, &root, Follow::All);
    let to = [TestStore::plain(), TestStore::encrypted()];
    let mut tried = 0;
    // The plain store sees every byte, the other one, whose transactions are dearer, some.
    for (test, step) in to.iter().zip([7, 61]) {
        for at in (0..file.len()).step_by(step) {
            let mut flipped = file.clone();
            flipped[at] ^= 4;
            for damaged in [&flipped[..], &file[..at]] {
                let refused = import(test, damaged, "main");
                let error = refused.expect_err(&format!("byte {at} of {}", file.len()));
                assert!(matches!(error, StoreError::Damaged { what: "export file", .. }), "{at}: {error}");
                tried += 1;
            }
        }
        assert!(test.packs().is_empty());
        assert!(test.store.refs().list("").unwrap().is_empty());
        assert_no_transactions(test);
        import(test, &file, "main").unwrap();
    }
    assert!(tried > 150, "{tried}");
}

/// A file whose hash is right and whose content is not complete: somebody made it so.
#[test]
fn an_export_that_lacks_something_is_refused() {
    struct Blind;
    impl References for Blind {
        fn references(&self, _: Kind, _: &[u8]) -> Result<Vec<Reference>, String> {
            Ok(Vec::new())
        }
    }
    let from = TestStore::plain();
    let (_, child) = family(&from);
    let mut file = Vec::new();
    from.store.export(&child.id, Follow::All, &Blind, &mut file, &Silent).unwrap();
    for to in [TestStore::plain(), TestStore::encrypted()] {
        assert!(matches!(import(&to, &file, "main"), Err(StoreError::Damaged { .. })));
        assert!(to.packs().is_empty());
    }
}
