use super::*;
use crate::testing::{encryption, passphrase};
use crate::{Class, OpenOptions, StoreError};

#[test]
fn after_a_rotation_only_the_new_passphrase_opens_and_no_pack_has_changed() {
    let test = TestStore::encrypted();
    let kept = Snapshot::take(&test.store, 1, "main");
    let before = files(&test, "objects");
    assert_eq!(test.store.rotate_keys(&encryption("battery staple")).unwrap(), 2);
    assert_eq!(files(&test, "objects"), before);
    assert!(matches!(test.open("correct horse"), Err(StoreError::WrongKey { .. })));
    let store = test.open("battery staple").unwrap();
    kept.check(&store);
    Snapshot::take(&store, 2, "other").check(&test.store);
    Snapshot::take(&test.store, 3, "main").check(&store);
    assert_clean(&store);
    assert!(matches!(test.open("correct horse"), Err(StoreError::WrongKey { .. })));
}

/// It can go on reading with the keys it has, but to write it would need keys that it must not have.
#[test]
fn a_handle_from_before_a_rotation_reads_and_does_not_write() {
    let test = TestStore::encrypted();
    let kept = Snapshot::take(&test.store, 1, "main");
    let old = test.open("correct horse").unwrap();
    let transaction = old.write(&[]).unwrap();
    test.store.rotate_keys(&encryption("battery staple")).unwrap();
    kept.check(&old);
    // What began before the rotation is finished: its key was on disk, and was carried over.
    let running = Snapshot::put(&transaction, 2, None).unwrap();
    transaction.commit(&[point("running", running.id)]).unwrap();
    running.check(&test.open("battery staple").unwrap());

    let newer = Snapshot::take(&test.store, 3, "newer");
    let keyrings = test.store.layout.keyrings().map(|path| std::fs::read(path).unwrap());
    let refusals = [
        old.write(&[]).map(drop).unwrap_err(),
        newer.read(&old).unwrap_err(),
        old.gc(&Notes, &at_once(), &Silent).map(drop).unwrap_err(),
        old.rotate_keys(&encryption("mine again")).map(drop).unwrap_err(),
    ];
    for refused in refusals {
        assert!(matches!(&refused, StoreError::KeysRotated { path } if *path == test.root), "{refused:?}");
        assert_eq!(refused.class(), Class::Key);
        assert!(refused.hint().unwrap().contains("open it again"));
    }
    assert_eq!(test.store.layout.keyrings().map(|path| std::fs::read(path).unwrap()), keyrings);
    assert_no_transactions(&test);
    running.check(&test.open("battery staple").unwrap());
}

#[test]
fn one_damaged_copy_of_the_keyring_does_no_harm_and_is_made_whole() {
    for copy in ["keyring", "keyring.bak"] {
        for gone in [false, true] {
            let test = TestStore::encrypted();
            let kept = Snapshot::take(&test.store, 1, "main");
            let path = test.root.join(copy);
            if gone {
                std::fs::remove_file(&path).unwrap()
            } else {
                flip(&path, 60)
            }
            let store = test.open("correct horse").unwrap();
            kept.check(&store);
            assert!(matches!(test.open("wrong"), Err(StoreError::WrongKey { .. })));
            Snapshot::take(&store, 2, "main").check(&store);
            assert_clean(&store);
        }
    }
}

#[test]
fn without_any_whole_keyring_the_damage_is_named_and_not_the_key() {
    let test = TestStore::encrypted();
    Snapshot::take(&test.store, 1, "main");
    test.store.layout.keyrings().iter().for_each(|path| flip(path, 60));
    let error = test.open("correct horse").unwrap_err();
    assert!(matches!(error, StoreError::Damaged { what: "keyring", .. }), "{error:?}");
}

#[test]
fn a_rotation_cut_short_between_the_copies_leaves_both_passphrases_until_the_next_write() {
    for winner in ["correct horse", "battery staple"] {
        let test = TestStore::encrypted();
        let kept = Snapshot::take(&test.store, 1, "main");
        let [first, copy] = test.store.layout.keyrings();
        let before = std::fs::read(&first).unwrap();
        test.store.rotate_keys(&encryption("battery staple")).unwrap();
        assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&copy).unwrap());
        // The copy is written first.
        std::fs::write(&first, &before).unwrap();
        for text in ["correct horse", "battery staple"] {
            kept.check(&test.open(text).unwrap());
        }
        let store = test.open(winner).unwrap();
        let next = Snapshot::take(&store, 2, "next");
        assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&copy).unwrap());
        let reopened = test.open(winner).unwrap();
        kept.check(&reopened);
        next.check(&reopened);
        let loser = if winner == "correct horse" { "battery staple" } else { "correct horse" };
        assert!(matches!(test.open(loser), Err(StoreError::WrongKey { .. })));
        assert_clean(&reopened);
    }
}

#[test]
fn errors_about_keys_name_the_store() {
    let test = TestStore::encrypted();
    let path = test.root.display();
    let needed = Store::open(&test.root, OpenOptions::default()).unwrap_err();
    assert_eq!(needed.to_string(), format!("store `{path}` is encrypted and no key was given"));
    let wrong = test.open("wrong").unwrap_err();
    assert_eq!(wrong.to_string(), format!("the key given does not open the store `{path}`"));
    assert_eq!((needed.class(), wrong.class()), (Class::Key, Class::Key));
    let plain = TestStore::plain();
    let refused = plain.store.rotate_keys(&encryption("x")).unwrap_err();
    assert_eq!(refused.to_string(), format!("store `{}` is not encrypted", plain.root.display()));
}

#[test]
fn each_of_several_keys_opens() {
    let test = TestStore::encrypted();
    let kept = Snapshot::take(&test.store, 1, "main");
    let mut both = encryption("battery staple");
    let file = crate::crypto::Unlock::KeyFile(noise(1, 64).into());
    both.unlocks.push(file.clone());
    test.store.rotate_keys(&both).unwrap();
    for unlock in [passphrase("battery staple"), file] {
        let options = OpenOptions { unlock: Some(unlock), ..OpenOptions::default() };
        kept.check(&Store::open(&test.root, options).unwrap());
    }
}
