use super::*;
use crate::testing::{passphrase, remove};
use crate::{Class, OpenOptions, RebuildReport, StoreError, rebuild};

fn again(test: &TestStore) -> RebuildReport {
    rebuild(&test.root, &Silent).unwrap()
}

fn lose_catalogue(root: &Path) {
    for name in ["catalogue.sqlite", "catalogue.sqlite-wal", "catalogue.sqlite-shm"] {
        let _ = std::fs::remove_file(root.join(name));
    }
}

/// The store, closed.
struct Closed {
    root: PathBuf,
    _directory: tempfile::TempDir,
    unlock: Option<crate::crypto::Unlock>,
}

impl Closed {
    fn open(&self) -> Result<Arc<Store>> {
        Store::open(&self.root, OpenOptions { unlock: self.unlock.clone(), ..OpenOptions::default() })
    }
}

fn close(test: TestStore) -> Closed {
    let unlock = test.store.format().encrypted.then(|| passphrase("correct horse"));
    let (root, directory) = test.close();
    Closed { root, _directory: directory, unlock }
}

#[test]
fn a_lost_or_spoiled_catalogue_is_made_anew() {
    for encrypted in [false, true] {
        for spoil in [false, true] {
            let test = if encrypted { TestStore::encrypted() } else { TestStore::plain() };
            let kept = [Snapshot::take(&test.store, 1, "a"), Snapshot::take(&test.store, 2, "b")];
            let totals = test.store.catalogue.totals().unwrap();
            let closed = close(test);
            if spoil {
                let path = closed.root.join("catalogue.sqlite");
                let mut bytes = std::fs::read(&path).unwrap();
                bytes[..64].fill(b'x');
                std::fs::write(&path, bytes).unwrap();
            } else {
                lose_catalogue(&closed.root);
            }
            let error = closed.open().unwrap_err();
            assert_eq!(error.class(), Class::Corruption, "{error}");
            assert!(error.hint().unwrap().contains("infinijup store rebuild"), "{error}");

            // No key is given here.
            let report = rebuild(&closed.root, &Silent).unwrap();
            assert_eq!((report.packs, report.objects), (totals.packs, totals.objects));
            assert!(report.salvaged.is_empty() && report.unusable.is_empty());
            let store = closed.open().unwrap();
            assert_eq!(store.catalogue.totals().unwrap(), totals);
            kept.iter().for_each(|snapshot| snapshot.check(&store));
            assert_clean(&store);
            Snapshot::take(&store, 3, "c").check(&store);
        }
    }
}

#[test]
fn what_is_whole_in_a_pack_that_was_cut_off_is_saved() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let transaction = test.store.write(&[]).unwrap();
        let chunks: Vec<ObjectId> =
            (0..10).map(|n| transaction.put(Kind::CHUNK, noise(n, 20_000)).unwrap()).collect();
        transaction.commit(&[]).unwrap();
        let path = test.packs().remove(0);
        let closed = close(test);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let report = rebuild(&closed.root, &Silent).unwrap();
        let [(_, StoreError::Damaged { .. }, saved, lost)] = report.salvaged[..] else {
            panic!("{report:?}")
        };
        assert!((3..8).contains(&saved) && lost > 0, "{saved} saved, {lost} bytes lost");
        let store = closed.open().unwrap();
        let mut read = 0;
        for (n, id) in (0..).zip(&chunks) {
            match store.get(Kind::CHUNK, id) {
                Ok(content) => {
                    assert!(content == noise(n, 20_000));
                    read += 1;
                }
                Err(error) => assert!(matches!(error, StoreError::MissingObject { .. }), "{error}"),
            }
        }
        assert_eq!(read, saved);
    }
}

#[test]
fn a_pack_that_is_no_pack_is_named_and_left_alone() {
    let test = TestStore::plain();
    let kept = Snapshot::take(&test.store, 1, "main");
    let stray = crate::PackId::from_bytes([9; 32]);
    test.put_stray(&stray, b"not a pack");
    let closed = close(test);
    let report = rebuild(&closed.root, &Silent).unwrap();
    assert!(matches!(report.unusable[..], [(id, _)] if id == stray));
    kept.check(&closed.open().unwrap());
}

#[test]
fn nobody_writes_during_a_rebuild() {
    let test = TestStore::plain();
    let kept = Snapshot::take(&test.store, 1, "main");
    let transaction = test.store.write(&[]).unwrap();
    let before = catalogues(&test.root);
    let refused = rebuild(&test.root, &Silent);
    assert!(matches!(&refused, Err(StoreError::Locked { holder, .. }) if holder == "a write transaction"));
    assert_eq!(catalogues(&test.root), before);
    drop(transaction);
    // And the other way round.
    let gate = crate::lock::try_exclusive(&test.store.layout.lock("writers")).unwrap().unwrap();
    let refused = test.store.write(&[]);
    assert!(matches!(&refused, Err(StoreError::Locked { holder, .. }) if holder == "a rebuild"));
    drop(gate);
    let gc = crate::lock::exclusive(&test.store.layout.lock("gc")).unwrap();
    assert!(matches!(rebuild(&test.root, &Silent), Err(StoreError::Locked { .. })));
    drop(gc);
    again(&test);
    kept.check(&test.open("").unwrap());
}

/// What a handle from before a rebuild knows is out of date. It must not act upon it.
#[test]
fn an_old_handle_removes_nothing_that_the_new_catalogue_has() {
    let test = TestStore::plain();
    let kept = Snapshot::take(&test.store, 1, "main");
    let packs: Vec<_> = test.store.catalogue.packs().unwrap().iter().map(|pack| pack.no).collect();
    test.store.catalogue.drop_packs(&packs).unwrap();
    assert_eq!(test.store.catalogue.doomed().unwrap().len(), packs.len());
    again(&test);
    let refused = test.store.write(&[]);
    assert!(matches!(&refused, Err(StoreError::Invalid { what }) if what.contains("open the store again")));
    kept.check(&test.open("").unwrap());
}

#[test]
fn a_rebuild_that_was_cut_short_is_said_and_done_again() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        let kept = Snapshot::take(&test.store, 1, "main");
        let closed = close(test);
        std::fs::rename(closed.root.join("catalogue.sqlite"), closed.root.join("catalogue.old")).unwrap();
        std::fs::write(closed.root.join("catalogue.new-0123"), "half a catalogue").unwrap();
        std::fs::write(closed.root.join("catalogue.new-0123-wal"), "").unwrap();
        let error = closed.open().unwrap_err();
        assert!(error.to_string().contains("catalogue.sqlite`: is not there"), "{error}");
        assert!(error.hint().unwrap().contains("infinijup store rebuild"));
        rebuild(&closed.root, &Silent).unwrap();
        let store = closed.open().unwrap();
        kept.check(&store);
        assert_clean(&store);
        drop(store);
        assert_eq!(catalogues(&closed.root), ["catalogue.sqlite"]);
    }
}

/// Every file that has to do with the catalogue.
fn catalogues(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with("catalogue"));
    names.sort();
    names
}

#[test]
fn what_dead_transactions_left_goes_with_the_old_catalogue() {
    let test = TestStore::plain();
    let kept = Snapshot::take(&test.store, 1, "main");
    Snapshot::take(&test.store, 2, "gone");
    test.store.refs().update(&[remove("gone")]).unwrap();
    std::fs::write(test.root.join("objects/tmp/0123-0.pack"), "half a pack").unwrap();
    std::fs::write(test.root.join("locks/session-0123"), "").unwrap();
    again(&test);
    assert!(files(&test, "objects/tmp").is_empty() && transaction_locks(&test).is_empty());
    let store = test.open("").unwrap();
    assert!(collect(&store).packs_removed > 0);
    kept.check(&store);
    assert_clean(&store);
}
