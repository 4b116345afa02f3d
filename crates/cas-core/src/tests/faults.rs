//! What happens when the disk fails. Every single operation of a write, a gc, a rotation and a change of refs is made to
//! fail in turn, in every way that disks know. (Reads have a file of their own, `read_faults.rs`.) The call must say so; what was acknowledged before must be there after; and
//! the store must go on as soon as the disk does.
//!
//! The catalogue writes through SQLite, which is not within reach of this.

use super::faulty_disk::{Fault, FaultyDisk, Op};
use super::let_go::{Other, has_data_of};
use super::*;
use crate::refs::Refs;
use crate::testing::{encryption, passphrase, remove};
use crate::{Class, OpenOptions, StoreError};

/// A store on a disk that fails, and what it owes us.
pub(super) struct Ground {
    pub(super) test: TestStore,
    pub(super) disk: FaultyDisk,
    pub(super) passphrase: String,
    pub(super) acknowledged: Vec<Snapshot>,
    round: u64,
}

impl Ground {
    pub(super) fn new(encrypted: bool) -> Self {
        let disk = FaultyDisk::default();
        let options = OpenOptions { disk: Arc::new(disk.clone()), threads: 1, ..OpenOptions::default() };
        let passphrase = "round 0".to_owned();
        let test = TestStore::create(encrypted.then(|| encryption(&passphrase)), options);
        Self { test, disk, passphrase, acknowledged: Vec::new(), round: 0 }
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.test.store
    }

    /// Another handle on the same disk, which has nothing open and nothing in memory.
    pub(super) fn reopen(&self) -> Result<Arc<Store>> {
        let unlock = self.store().format.encrypted.then(|| passphrase(&self.passphrase));
        let disk = Arc::new(self.disk.clone());
        Store::open(&self.test.root, OpenOptions { unlock, disk, threads: 1, ..OpenOptions::default() })
    }

    /// A small snapshot that has never been there.
    pub(super) fn put(&mut self, transaction: &WriteTransaction) -> Result<Snapshot> {
        self.round += 1;
        let mut memory = Memory::default();
        memory.fill(0x7000_0000_0000, 1, self.round);
        Snapshot::put_content(transaction, memory, noise(self.round, 500), None)
    }

    pub(super) fn snapshot(&mut self) -> Result<()> {
        let transaction = self.store().write(&[])?;
        let snapshot = self.put(&transaction)?;
        transaction.commit(&[point(&format!("round-{}", self.round), snapshot.id)])?;
        self.acknowledged.push(snapshot);
        Ok(())
    }

    /// The disk is well again: is everything there, does the store go on, and is nothing left lying about?
    pub(super) fn check(&mut self, what: &str) {
        self.store().recover().unwrap();
        self.snapshot().unwrap_or_else(|error| panic!("{what}: no new snapshot afterwards: {error}"));
        let reopened = self.test.open(&self.passphrase);
        let reopened = reopened.unwrap_or_else(|error| panic!("{what}: cannot be opened: {error}"));
        for (n, snapshot) in self.acknowledged.iter().enumerate() {
            let store = if n % 2 == 0 { self.store() } else { &reopened };
            snapshot.read(store).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let report = verify(&reopened, Depth::Bytes);
        assert!(report.is_clean(), "{what}: {:?}", report.problems);
        assert_no_transactions(&self.test);
        for directory in [self.test.root.clone(), self.test.root.join("refs/threads")] {
            let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
            assert!(names.into_iter().all(|name| !name.to_str().unwrap().starts_with(".tmp")), "{what}");
        }
    }
}

/// Every operation that writes, in tests that are quick enough for all of them at once.
fn all(op: Op) -> bool {
    !op.is_read()
}

/// Makes each operation of `act` that is in `ops` fail in each way. `prepare` and `settle` run on a disk that is well.
fn torture<T>(
    encrypted: bool,
    floor: u64,
    ops: fn(Op) -> bool,
    prepare: impl Fn(&mut Ground) -> T,
    act: impl Fn(&mut Ground, &T) -> Result<()>,
    settle: impl Fn(&mut Ground, &T, &str),
) {
    let mut ground = Ground::new(encrypted);
    ground.snapshot().unwrap();
    let prepared = prepare(&mut ground);
    ground.disk.heal();
    act(&mut ground, &prepared).unwrap();
    let counts = ground.disk.heal().counts;
    settle(&mut ground, &prepared, "without a fault");
    ground.check("without a fault");

    let mut injected = 0;
    for (op, count) in counts.into_iter().filter(|(op, _)| ops(*op)) {
        for n in 0..count {
            for fault in [Fault::Once, Fault::ForGood, Fault::Half] {
                if fault == Fault::Half && op != Op::Write {
                    continue;
                }
                // A store that has been through much is a better witness, but a slower one.
                if ground.acknowledged.len() > 4 {
                    ground = Ground::new(encrypted);
                    ground.snapshot().unwrap();
                }
                let what = format!("{op:?} {n} of {count}, {fault:?}");
                let prepared = prepare(&mut ground);
                ground.disk.arm(op, n, fault);
                let result = act(&mut ground, &prepared);
                let hits = ground.disk.heal().failed.len() as u64;
                injected += hits.min(1);
                match result {
                    // Packs lie in directories by chance, so that there are sometimes fewer to make and to sync.
                    Ok(()) if hits == 0 => {
                        assert!(matches!(op, Op::CreateDir | Op::SyncDir), "{what}: did not happen");
                    }
                    // A lock file that stays is cleaned up later, and is no reason to call a commit failed.
                    Ok(()) => assert_eq!(op, Op::Remove, "{what}: nobody noticed"),
                    Err(error) => assert_ne!(error.class(), Class::Bug, "{what}: {error}"),
                }
                settle(&mut ground, &prepared, &what);
                ground.check(&what);
            }
        }
    }
    assert!(injected >= floor, "only {injected} faults");
}

fn nothing(_: &mut Ground) {}

#[test]
fn a_snapshot_survives_every_fault() {
    torture(false, 80, all, nothing, |ground, ()| ground.snapshot(), |_, (), _| {});
}

#[test]
fn a_snapshot_in_an_encrypted_store_survives_every_fault() {
    torture(true, 100, all, nothing, |ground, ()| ground.snapshot(), |_, (), _| {});
}

fn gc_survives(encrypted: bool, floor: u64, ops: fn(Op) -> bool) {
    let prepare = |ground: &mut Ground| {
        let transaction = ground.store().write(&[]).unwrap();
        let (kept, garbage) = (ground.put(&transaction).unwrap(), ground.put(&transaction).unwrap());
        transaction.commit(&[point(&format!("kept-{}", ground.round), kept.id)]).unwrap();
        ground.acknowledged.push(kept);
        garbage
    };
    let options = GcOptions { erase: true, ..at_once() };
    let act = |ground: &mut Ground, _: &Snapshot| ground.store().gc(&Notes, &options, &Silent).map(drop);
    let settle = |ground: &mut Ground, garbage: &Snapshot, what: &str| {
        ground.store().gc(&Notes, &options, &Silent).unwrap();
        assert!(!ground.store().contains(&garbage.id).unwrap(), "{what}");
        let used: std::collections::BTreeSet<u32> =
            ground.store().catalogue.packs().unwrap().iter().map(|pack| pack.epoch).collect();
        if let Some(keys) = &ground.store().keys {
            // gc itself takes an epoch, and may find nothing to seal with it.
            let unused = keys.epochs().unwrap().into_iter().filter(|epoch| !used.contains(epoch)).count();
            assert!(unused <= 1, "{what}: {unused} keys of erased packs are still there");
        }
    };
    torture(encrypted, floor, ops, prepare, act, settle);
}

#[test]
fn gc_survives_every_fault() {
    gc_survives(false, 60, all);
}

#[test]
fn gc_of_an_encrypted_store_survives_every_failed_write() {
    gc_survives(true, 60, |op| op == Op::Write);
}

#[test]
fn gc_of_an_encrypted_store_survives_every_other_fault() {
    gc_survives(true, 50, |op| op != Op::Write && all(op));
}

#[test]
fn letting_go_of_data_survives_every_fault() {
    let other = Other::default();
    let prepare = |ground: &mut Ground| {
        let transaction = ground.store().write(&[]).unwrap();
        let (kept, gone) = (ground.put(&transaction).unwrap(), ground.put(&transaction).unwrap());
        let names = [point(&format!("kept-{}", ground.round), kept.id), point("gone", gone.id)];
        transaction.commit(&names).unwrap();
        other.take_a_copy(&gone);
        ground.acknowledged.push(kept);
        gone
    };
    let options = GcOptions { repack_below_percent: 100, ..at_once() };
    let act = |ground: &mut Ground, gone: &Snapshot| {
        ground.store().let_go(&[gone.id], "origin", &Notes, &options, &Silent).map(drop)
    };
    let settle = |ground: &mut Ground, gone: &Snapshot, what: &str| {
        // Whoever comes now knows of every snapshot where its data is.
        let here = ground.reopen().unwrap();
        if here.elsewhere().unwrap().place(&gone.id).is_some() {
            here.look_beyond(Arc::new(other.clone()));
        }
        gone.read(&here).unwrap_or_else(|error| panic!("{what}: {error}"));
        ground.acknowledged.iter().for_each(|kept| kept.check(&ground.reopen().unwrap()));
        assert!(verify(&here, Depth::Bytes).is_clean(), "{what}");
        // The next attempt comes to its end.
        here.let_go(&[gone.id], "origin", &Notes, &options, &Silent).unwrap();
        assert!(!has_data_of(&here, gone), "{what}");
        here.look_beyond(Arc::new(other.clone()));
        gone.read(&here).unwrap_or_else(|error| panic!("{what}, afterwards: {error}"));
    };
    torture(false, 40, all, prepare, act, settle);
}

#[test]
fn a_rotation_survives_every_fault() {
    let prepare = |ground: &mut Ground| format!("round {}", ground.round + 1);
    let act = |ground: &mut Ground, new: &String| ground.store().rotate_keys(&encryption(new)).map(drop);
    let settle = |ground: &mut Ground, new: &String, what: &str| {
        let opens = |ground: &Ground, text: &str| ground.test.open(text).is_ok();
        let old = ground.passphrase.clone();
        assert!(opens(ground, &old) || opens(ground, new), "{what}: nothing opens the store any more");
        // The next write decides, and it goes through the handle whose rotation may have failed.
        ground.snapshot().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_ne!(opens(ground, &old), opens(ground, new), "{what}: both open");
        if opens(ground, new) {
            ground.passphrase.clone_from(new);
        }
    };
    torture(true, 18, all, prepare, act, settle);
}

#[test]
fn changes_of_refs_survive_every_fault() {
    let name = |ground: &Ground, n: u64| format!("deep-{}/er/{n}", ground.round);
    let prepare = |ground: &mut Ground| {
        ground.snapshot().unwrap();
        let id = ground.acknowledged[0].id;
        ground.store().refs().update(&[point(&name(ground, 1), id), point(&name(ground, 2), id)]).unwrap();
        (ground.round, ground.acknowledged[ground.acknowledged.len() - 1].id)
    };
    let act = |ground: &mut Ground, (_, new): &(u64, ObjectId)| {
        let changes = [
            point(&name(ground, 1), *new),
            point(&format!("{}/b", name(ground, 3)), *new),
            remove(&name(ground, 2)),
        ];
        ground.store().refs().update(&changes)
    };
    let settle = |ground: &mut Ground, (round, new): &(u64, ObjectId), what: &str| {
        let refs: Refs = ground.store().refs();
        let old = ground.acknowledged[0].id;
        let get = |n: &str| refs.get(&format!("threads/deep-{round}/er/{n}")).unwrap();
        let done = [get("1") == Some(*new), get("3/b") == Some(*new), get("2").is_none()];
        assert!(done[0] || get("1") == Some(old), "{what}");
        assert!(done[1] || get("3/b").is_none(), "{what}");
        assert!(done[2] || get("2") == Some(old), "{what}");
        assert!(done.is_sorted_by(|a, b| a >= b), "{what}: changes are made in order: {done:?}");
    };
    torture(false, 20, all, prepare, act, settle);
}

#[test]
fn short_writes_are_no_fault() {
    for encrypted in [false, true] {
        let mut ground = Ground::new(encrypted);
        ground.disk.be_short();
        let snapshot = Snapshot::take(ground.store(), 1, "main");
        ground.acknowledged.push(snapshot);
        collect(ground.store());
        if encrypted {
            ground.store().rotate_keys(&encryption("round 0")).unwrap();
        }
        let counts = ground.disk.heal().counts;
        assert!(counts[&Op::Write] > 1000, "{counts:?}");
        ground.check("short writes");
    }
}

/// What a flush could not make durable is lost. A commit after it must not pretend otherwise.
#[test]
fn after_a_flush_that_failed_there_is_no_commit() {
    for op in [Op::Create, Op::CreateDir, Op::Write, Op::Sync, Op::RenameNew, Op::SyncDir] {
        let mut ground = Ground::new(false);
        let transaction = ground.store().write(&[]).unwrap();
        ground.disk.arm(op, 0, Fault::Once);
        let snapshot = ground.put(&transaction);
        let flushed = transaction.flush();
        assert!(snapshot.is_err() || flushed.is_err(), "{op:?}");
        assert_eq!(ground.disk.heal().failed.len(), 1);
        let id = snapshot.map_or(ground.store().hasher.id(NOTE, b""), |snapshot| snapshot.id);
        assert!(matches!(transaction.flush(), Err(StoreError::TransactionFailed { .. })), "{op:?}");
        assert!(
            matches!(transaction.commit(&[point("main", id)]), Err(StoreError::TransactionFailed { .. })),
            "{op:?}"
        );
        assert_eq!(ground.store().refs().get("threads/main").unwrap(), None);
        assert!(ground.test.packs().is_empty(), "{op:?}");
        assert_no_transactions(&ground.test);
        ground.check(&format!("{op:?}"));
    }
}

/// Once its refs are changed a commit has happened, and must not be called failed for a lock file that stays.
#[test]
fn a_commit_that_cannot_clean_up_is_one() {
    let mut ground = Ground::new(false);
    let transaction = ground.store().write(&[]).unwrap();
    let snapshot = ground.put(&transaction).unwrap();
    ground.disk.arm(Op::Remove, 0, Fault::ForGood);
    transaction.commit(&[point("main", snapshot.id)]).unwrap();
    assert!(!ground.disk.heal().failed.is_empty());
    assert_eq!(transaction_locks(&ground.test).len(), 1);
    ground.acknowledged.push(snapshot);
    ground.check("a lock that stayed");
}

#[test]
fn a_full_disk_ends_a_long_write_soon_and_is_named() {
    let ground = Ground::new(false);
    let transaction = ground.store().write(&[]).unwrap();
    ground.disk.arm(Op::Write, 3, Fault::ForGood);
    let failed = (0..5000u64).find_map(|n| transaction.put(Kind::CHUNK, noise(n, 2000)).err());
    let failed = failed.expect("ten megabytes went to a disk that is full");
    assert!(failed.hint().is_some_and(|hint| hint.contains("free some space")), "{failed:?}");
    // Whoever is told second must know what to do, too.
    let told = transaction.commit(&[]).unwrap_err();
    assert!(matches!(told, StoreError::TransactionFailed { .. }), "{told:?}");
    assert_eq!(told.hint(), failed.hint());
}
