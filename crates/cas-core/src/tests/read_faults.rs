//! What happens when the disk cannot be read. Every single read of everything that a store does is made to fail in turn: files
//! that do not open, reads that fail or return nothing, directories that cannot be listed. What cannot be read now is not
//! damaged and not gone. So the call must fail, in words that name the file, and class it as trouble of the machine; and when
//! the disk is well again, everything is there.
//!
//! Two are forgiven a fault: the keyring, of which there are two copies for that, and the directory of temporary files, which a
//! commit cleans up after it has happened. Recovery does it otherwise.

use super::faults::Ground;
use super::faulty_disk::{Fault, FaultyDisk, Op};
use super::*;
use crate::layout::Layout;
use crate::packs::{LocalPacks, Packs};
use crate::refs::Refs;
use crate::testing::{encryption, remove};
use crate::{Class, RebuildReport, StoreError, rebuild, rebuild_from};

/// Where there are very many of one operation (a store has 256 directories), so many are tried.
const MOST_OF_A_KIND: u64 = 24;

/// Every read fault of one operation of which there are `count`.
fn faults(op: Op, count: u64) -> impl Iterator<Item = (u64, Fault)> {
    let ways: &[Fault] = match op {
        Op::ReadAt => &[Fault::Once, Fault::ForGood, Fault::Nothing],
        op if op.is_read() => &[Fault::Once, Fault::ForGood],
        _ => &[],
    };
    let step = usize::try_from(count.div_ceil(MOST_OF_A_KIND).max(1)).unwrap();
    (0..count).step_by(step).flat_map(move |n| ways.iter().map(move |fault| (n, *fault)))
}

/// Holds an error to what this file promises of it.
#[track_caller]
fn assert_names(error: &StoreError, failed: &[PathBuf], what: &str) {
    assert_eq!(error.class(), Class::Environment, "{what}: {error}");
    let text = error.to_string();
    assert!(failed.iter().any(|path| text.contains(path.to_str().unwrap())), "{what}: {text}: {failed:?}");
}

fn is_forgiven(path: &Path) -> bool {
    is_keyring(path) || path.ends_with("objects/tmp")
}

fn is_keyring(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("keyring")
}

/// Makes each read of `act` fail in each way, on a handle that has nothing open. `prepare` runs on a disk that is well.
fn every_read_fault<T>(
    encrypted: bool,
    floor: u64,
    prepare: impl Fn(&mut Ground) -> T,
    act: impl Fn(&Ground, &Arc<Store>, &T) -> Result<()>,
) {
    let fresh = || {
        let mut ground = Ground::new(encrypted);
        ground.snapshot().unwrap();
        ground.snapshot().unwrap();
        ground
    };
    let mut ground = fresh();
    let prepared = prepare(&mut ground);
    let store = ground.reopen().unwrap();
    ground.disk.heal();
    act(&ground, &store, &prepared).unwrap();
    let counts = ground.disk.heal().counts;

    let mut injected = 0;
    ground = fresh();
    for (op, count) in counts {
        for (n, fault) in faults(op, count) {
            if ground.acknowledged.len() > 8 {
                ground = fresh();
            }
            let what = format!("{op:?} {n} of {count}, {fault:?}");
            let prepared = prepare(&mut ground);
            let store = ground.reopen().unwrap();
            ground.disk.arm(op, n, fault);
            let result = act(&ground, &store, &prepared);
            let failed = ground.disk.heal().failed;
            injected += u64::from(!failed.is_empty());
            match result {
                Ok(()) => {
                    assert!(failed.iter().all(|path| is_forgiven(path)), "{what}: nobody noticed: {failed:?}")
                }
                Err(error) => assert_names(&error, &failed, &what),
            }
            drop(store);
            ground.check(&what);
        }
    }
    assert!(injected >= floor, "only {injected} faults");
}

fn nothing(_: &mut Ground) {}

fn read_all(ground: &Ground, store: &Arc<Store>) -> Result<()> {
    ground.acknowledged.iter().take(2).try_for_each(|snapshot| snapshot.read(store))
}

#[test]
fn nothing_wrong_is_read() {
    every_read_fault(false, 40, nothing, |ground, store, ()| read_all(ground, store));
    every_read_fault(true, 40, nothing, |ground, store, ()| read_all(ground, store));
}

#[test]
fn a_store_that_cannot_be_read_does_not_open() {
    for encrypted in [false, true] {
        every_read_fault(encrypted, 4, nothing, |ground, _, ()| {
            let store = ground.reopen()?;
            read_all(ground, &store)
        });
    }
}

/// The first thing that `verify` says of the disk. It says nothing of damage, and nothing is missing.
fn verified(store: &Store, depth: Depth) -> Result<()> {
    let report = store.verify(&Notes, depth, &Silent)?;
    let mut errors: Vec<_> = report.problems.into_iter().map(|problem| problem.error.unwrap()).collect();
    for error in &errors {
        assert_eq!(error.class(), Class::Environment, "{error}");
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.remove(0)) }
}

#[test]
fn verify_says_what_it_could_not_read() {
    every_read_fault(false, 60, nothing, |_, store, ()| verified(store, Depth::Structure));
    every_read_fault(true, 60, nothing, |_, store, ()| verified(store, Depth::Bytes));
}

/// What is there already is read before it is counted upon.
#[test]
fn a_snapshot_is_not_acknowledged_on_the_strength_of_what_cannot_be_read() {
    for encrypted in [false, true] {
        every_read_fault(encrypted, 10, nothing, |ground, store, ()| {
            let transaction = store.write(&[])?;
            let known = &ground.acknowledged[0];
            let again = Snapshot::put_content(&transaction, known.memory.clone(), known.file.clone(), None)?;
            assert_eq!(again.id, known.id);
            transaction.commit(&[point("again", again.id)]).map(drop)
        });
    }
}

#[test]
fn gc_removes_nothing_that_it_could_not_follow() {
    let prepare = |ground: &mut Ground| {
        let transaction = ground.store().write(&[]).unwrap();
        let (kept, garbage) = (ground.put(&transaction).unwrap(), ground.put(&transaction).unwrap());
        transaction.commit(&[point(&format!("kept-{}", kept.id), kept.id)]).unwrap();
        ground.acknowledged.push(kept);
        garbage
    };
    let options = GcOptions { erase: true, ..at_once() };
    for encrypted in [false, true] {
        every_read_fault(encrypted, 60, prepare, |_, store, _: &Snapshot| {
            let report = store.gc(&Notes, &options, &Silent)?;
            assert!(report.damaged.is_empty(), "{:?}", report.damaged);
            match report.plan.unreadable.into_iter().next() {
                Some(unreadable) => {
                    assert_eq!(report.packs_removed, 0);
                    Err(unreadable.error)
                }
                None => Ok(()),
            }
        });
    }
}

#[test]
fn refs_that_cannot_be_read_are_not_taken_for_gone() {
    let prepare = |ground: &mut Ground| ground.acknowledged[0].id;
    every_read_fault(false, 10, prepare, |_, store, id: &ObjectId| {
        let refs: Refs = store.refs();
        let listed = refs.list("")?;
        assert!(listed.len() >= 2);
        listed.into_iter().try_for_each(|(_, target)| target.map(drop))?;
        let absent = crate::refs::Expected::Absent;
        let taken = crate::refs::RefChange { expected: absent, ..point("round-1", *id) };
        match refs.update(&[taken]) {
            Err(StoreError::RefConflict { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => panic!("a ref was taken for absent"),
        }
    });
}

#[test]
fn a_rotation_needs_only_one_copy_of_the_keyring() {
    every_read_fault(true, 6, nothing, |ground, _, ()| {
        let same = encryption(&ground.passphrase);
        ground.store().rotate_keys(&same).map(drop)
    });
}

/// The packs of a store on a disk that fails.
fn packs_on(disk: &FaultyDisk, root: &Path) -> LocalPacks {
    LocalPacks::new(Layout::new(root), Arc::new(disk.clone()))
}

/// Rebuilds under every read fault; none may succeed. `spoil` does something to the packs first.
fn rebuild_survives(floor: u64, spoil: impl Fn(&TestStore)) {
    let test = TestStore::plain();
    let kept = [Snapshot::take(&test.store, 1, "a"), Snapshot::take(&test.store, 2, "b")];
    spoil(&test);
    let known = |store: &Store| {
        let read = |snapshot: &Snapshot| snapshot.read(store).is_ok();
        (store.catalogue.totals().unwrap(), kept.iter().map(read).collect::<Vec<_>>())
    };
    let disk = FaultyDisk::default();
    let summary =
        |report: &RebuildReport| (report.packs, report.objects, report.salvaged.len(), report.unusable.len());
    let whole = summary(&rebuild_from(&test.root, &packs_on(&disk, &test.root), &Silent).unwrap());
    let counts = disk.heal().counts;
    let before = known(&test.open("").unwrap());

    let mut injected = 0;
    for (op, count) in counts {
        for (n, fault) in faults(op, count) {
            let what = format!("{op:?} {n} of {count}, {fault:?}");
            disk.arm(op, n, fault);
            let result = rebuild_from(&test.root, &packs_on(&disk, &test.root), &Silent);
            let failed = disk.heal().failed;
            injected += failed.len().min(1) as u64;
            assert_names(&result.expect_err(&what), &failed, &what);
            assert_eq!(known(&test.open("").unwrap()), before, "{what}: the catalogue is another");
        }
    }
    assert!(injected >= floor, "only {injected} faults");
    assert_eq!(summary(&rebuild(&test.root, &Silent).unwrap()), whole);
    assert_eq!(known(&test.open("").unwrap()), before);
}

#[test]
fn a_rebuild_forgets_no_pack_that_it_could_not_read() {
    rebuild_survives(60, |_| {});
}

#[test]
fn nothing_is_lost_in_salvage_because_it_could_not_be_read() {
    rebuild_survives(80, |test| {
        for path in packs_of(test, PackClass::Data) {
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        }
    });
}

/// A pack that the catalogue does not know would be taken in by a rebuild, so its key stays, also if it cannot be read now.
#[test]
fn a_key_is_not_destroyed_because_a_pack_could_not_be_read() {
    let mut ground = Ground::new(true);
    ground.snapshot().unwrap();
    let kept = ground.acknowledged.remove(0);
    let rows = ground.store().catalogue.packs().unwrap();
    ground.store().refs().update(&[remove("round-1")]).unwrap();
    ground.store().catalogue.drop_packs(&rows.iter().map(|row| row.no).collect::<Vec<_>>()).unwrap();
    rows.iter().for_each(|row| ground.store().catalogue.undoom(&row.id).unwrap());
    let epochs = ground.store().keys.as_ref().unwrap().epochs().unwrap();

    let mut injected = 0;
    for (op, fault) in [Op::Open, Op::Size, Op::ReadAt, Op::List]
        .into_iter()
        .flat_map(|op| [Fault::Once, Fault::ForGood].map(|fault| (op, fault)))
    {
        for n in 0..300 {
            let what = format!("{op:?} {n}, {fault:?}");
            let store = ground.reopen().unwrap();
            ground.disk.arm(op, n, fault);
            let result = store.gc(&Notes, &GcOptions { erase: true, ..at_once() }, &Silent);
            let failed = ground.disk.heal().failed;
            if failed.is_empty() {
                break;
            }
            injected += 1;
            if !failed.iter().all(|path| is_keyring(path)) {
                assert_names(&result.unwrap_err(), &failed, &what);
            }
            assert_eq!(store.keys.as_ref().unwrap().epochs().unwrap(), epochs, "{what}");
        }
    }
    assert!(injected > 50, "only {injected} faults");
    rebuild(&ground.test.root, &Silent).unwrap();
    kept.check(&ground.reopen().unwrap());
}

#[test]
fn short_reads_are_no_fault() {
    for encrypted in [false, true] {
        let mut ground = Ground::new(encrypted);
        let snapshot = Snapshot::take(ground.store(), 1, "main");
        ground.acknowledged.push(snapshot);
        ground.disk.be_short();
        let store = ground.reopen().unwrap();
        ground.acknowledged[0].check(&store);
        assert_clean(&store);
        let report = rebuild_from(&ground.test.root, &packs_on(&ground.disk, &ground.test.root), &Silent);
        assert!(report.unwrap().salvaged.is_empty());
        let counts = ground.disk.heal().counts;
        assert!(counts[&Op::ReadAt] > 1000, "{counts:?}");
        ground.acknowledged[0].check(&ground.reopen().unwrap());
    }
}

#[test]
fn the_packs_of_a_directory_keep_the_promises_of_the_port() {
    let test = TestStore::plain();
    Snapshot::take(&test.store, 1, "main");
    let packs = LocalPacks::below(&test.root);
    let listed = packs.list().unwrap();
    assert!(!listed.is_empty() && listed.is_sorted());
    let stranger = crate::PackId::from_bytes([7; 32]);
    assert!(matches!(packs.open(&stranger), Err(StoreError::MissingPack { pack }) if pack == stranger));

    // A name that is taken stays what it is, and the file stays with whoever wrote it.
    let staged = test.root.join("objects/tmp/0123-0.pack");
    std::fs::write(&staged, "something else").unwrap();
    let before = files(&test, "objects");
    let refused = packs.put_new(&listed[0], &staged).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists),
        "{refused:?}"
    );
    assert_eq!(files(&test, "objects"), before);

    packs.put_new(&stranger, &staged).unwrap();
    assert!(!staged.exists() && packs.list().unwrap().contains(&stranger));
    let open = packs.open(&stranger).unwrap();
    let mut bytes = [0; 14];
    open.read_exact(&mut bytes, 0).unwrap();
    assert_eq!((open.size().unwrap(), &bytes), (14, b"something else"));
    let beyond = open.read_exact(&mut bytes, 1).unwrap_err();
    assert!(matches!(beyond, StoreError::Damaged { .. }), "{beyond:?}");
    assert_eq!(packs.remove(&[stranger, stranger]).unwrap(), 1);
    assert_eq!(packs.list().unwrap(), listed);
}
