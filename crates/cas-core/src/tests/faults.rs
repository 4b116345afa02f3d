//! What happens when the disk fails. Every single operation of a write, a gc, a rotation and a change of refs is made to
//! fail in turn, in every way that disks know. The call must say so; what was acknowledged before must be there after; and
//! the store must go on as soon as the disk does.
//!
//! The catalogue writes through SQLite, which is not within reach of this.

use std::io;
use std::sync::{Mutex, MutexGuard};

use super::*;
use crate::fsio::{Disk, DiskFile, LocalDisk};
use crate::refs::Refs;
use crate::testing::{encryption, remove};
use crate::{Class, OpenOptions, StoreError};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Op {
    Create,
    Write,
    Sync,
    RenameNew,
    RenameOver,
    Remove,
    SyncDir,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// This one time: EIO.
    Once,
    /// This time and from now on: ENOSPC.
    ForGood,
    /// Half of what was to be written is, then ENOSPC.
    Half,
}

impl Fault {
    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(if self == Self::Once { 5 } else { 28 })
    }
}

#[derive(Debug, Default)]
struct Script {
    counts: BTreeMap<Op, u64>,
    /// Which operation fails, and how.
    plan: Option<(Op, u64, Fault)>,
    injected: u64,
    /// No write takes more than a few bytes.
    short: bool,
}

/// A disk that fails when it is told to.
#[derive(Clone, Debug, Default)]
struct FaultyDisk(Arc<Mutex<Script>>);

impl FaultyDisk {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    fn arm(&self, op: Op, n: u64, fault: Fault) {
        *self.script() = Script { plan: Some((op, n, fault)), ..Script::default() };
    }

    /// The disk is well again. Returns how often it has failed, and what it was asked to do.
    fn heal(&self) -> (u64, BTreeMap<Op, u64>) {
        let script = std::mem::take(&mut *self.script());
        (script.injected, script.counts)
    }

    /// Counts an operation; says whether it fails.
    fn next(&self, op: Op) -> Option<Fault> {
        let mut script = self.script();
        let count = script.counts.entry(op).or_default();
        let n = *count;
        *count += 1;
        let (planned, at, fault) = script.plan?;
        let hit = planned == op && (n == at || n > at && fault == Fault::ForGood);
        script.injected += u64::from(hit);
        hit.then_some(fault)
    }

    fn step<T>(&self, op: Op, does: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.next(op) {
            None => does(),
            Some(fault) => Err(fault.error()),
        }
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.step(Op::Create, || LocalDisk.create(path))?;
        Ok(Box::new(FaultyFile { file, disk: self.clone() }))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(Op::RenameNew, || LocalDisk.rename_new(from, to))
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(Op::RenameOver, || LocalDisk.rename_over(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(Op::Remove, || LocalDisk.remove(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Op::SyncDir, || LocalDisk.sync_dir(path))
    }
}

struct FaultyFile {
    file: Box<dyn DiskFile>,
    disk: FaultyDisk,
}

impl DiskFile for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.disk.next(Op::Write) {
            Some(Fault::Half) => {
                crate::fsio::write_all(self.file.as_mut(), &bytes[..bytes.len() / 2])?;
                Err(Fault::Half.error())
            }
            Some(fault) => Err(fault.error()),
            None if self.disk.script().short => {
                let n = self.disk.script().counts[&Op::Write];
                let some = usize::try_from(n * n % 701 + 1).unwrap().min(bytes.len());
                self.file.write(&bytes[..some])
            }
            None => self.file.write(bytes),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.step(Op::Sync, || self.file.sync())
    }
}

/// A store on a disk that fails, and what it owes us.
struct Ground {
    test: TestStore,
    disk: FaultyDisk,
    passphrase: String,
    acknowledged: Vec<Snapshot>,
    round: u64,
}

impl Ground {
    fn new(encrypted: bool) -> Self {
        let disk = FaultyDisk::default();
        let options = OpenOptions { disk: Arc::new(disk.clone()), threads: 1, ..OpenOptions::default() };
        let passphrase = "round 0".to_owned();
        let test = TestStore::create(encrypted.then(|| encryption(&passphrase)), options);
        Self { test, disk, passphrase, acknowledged: Vec::new(), round: 0 }
    }

    fn store(&self) -> &Arc<Store> {
        &self.test.store
    }

    /// A small snapshot that has never been there.
    fn put(&mut self, transaction: &WriteTransaction) -> Result<Snapshot> {
        self.round += 1;
        let mut memory = Memory::default();
        memory.fill(0x7000_0000_0000, 1, self.round);
        Snapshot::put_content(transaction, memory, noise(self.round, 500), None)
    }

    fn snapshot(&mut self) -> Result<()> {
        let transaction = self.store().write(&[])?;
        let snapshot = self.put(&transaction)?;
        transaction.commit(&[point(&format!("round-{}", self.round), snapshot.id)])?;
        self.acknowledged.push(snapshot);
        Ok(())
    }

    /// The disk is well again: is everything there, does the store go on, and is nothing left lying about?
    fn check(&mut self, what: &str) {
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

/// Every operation, in tests that are quick enough for all of them at once.
fn all(_: Op) -> bool {
    true
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
    let (_, counts) = ground.disk.heal();
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
                let (hits, _) = ground.disk.heal();
                injected += hits.min(1);
                match result {
                    // Packs lie in directories by chance, so that there are sometimes fewer to sync.
                    Ok(()) if hits == 0 => assert_eq!(op, Op::SyncDir, "{what}: did not happen"),
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
    gc_survives(true, 50, |op| op != Op::Write);
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
        ground.disk.script().short = true;
        let snapshot = Snapshot::take(ground.store(), 1, "main");
        ground.acknowledged.push(snapshot);
        collect(ground.store());
        if encrypted {
            ground.store().rotate_keys(&encryption("round 0")).unwrap();
        }
        let (_, counts) = ground.disk.heal();
        assert!(counts[&Op::Write] > 1000, "{counts:?}");
        ground.check("short writes");
    }
}

/// What a flush could not make durable is lost. A commit after it must not pretend otherwise.
#[test]
fn after_a_flush_that_failed_there_is_no_commit() {
    for op in [Op::Create, Op::Write, Op::Sync, Op::RenameNew, Op::SyncDir] {
        let mut ground = Ground::new(false);
        let transaction = ground.store().write(&[]).unwrap();
        ground.disk.arm(op, 0, Fault::Once);
        let snapshot = ground.put(&transaction);
        let flushed = transaction.flush();
        assert!(snapshot.is_err() || flushed.is_err(), "{op:?}");
        assert_eq!(ground.disk.heal().0, 1);
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
    assert!(ground.disk.heal().0 > 0);
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
