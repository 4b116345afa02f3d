//! A disk that is really full.
//!
//! The store lies on a tmpfs of 24 MiB, which needs root to mount. Where that cannot be done the tests say so and pass,
//! except in CI (`CI=true`), where they must run.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy.toml allows these in #[test] functions only, not in their helpers"
)]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use cas_core::gc::GcOptions;
use cas_core::progress::Silent;
use cas_core::refs::{Expected, RefChange};
use cas_core::verify::Depth;
use cas_core::{Class, ObjectId, OpenOptions, Store, StoreError};
use torture::model::Model;
use torture::snapshot::{self, Parent, Snapshots, set};

/// A small disk, which goes with the test.
struct Disk {
    mounted: PathBuf,
    _directory: tempfile::TempDir,
}

impl Disk {
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = directory.path().join("disk");
        fs::create_dir(&mounted).unwrap();
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m,mode=700", "torture"])
            .arg(&mounted)
            .output();
        let reason = match output {
            Ok(output) if output.status.success() => return Some(Self { mounted, _directory: directory }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("skipped: a full disk, because no tmpfs can be mounted: {reason}");
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "this test must run in CI");
        None
    }

    fn root(&self) -> PathBuf {
        self.mounted.join(".infinijup")
    }

    /// Fills the disk except for `room` bytes.
    fn ballast(&self, room: u64) -> Ballast {
        let path = self.mounted.join("ballast");
        let mut file = File::create(&path).unwrap();
        let mut size = 1 << 20;
        let mut len = 0;
        while size >= 4096 {
            match file.write(&vec![1; size]) {
                Ok(written) if written == size => len += written as u64,
                Ok(written) => {
                    len += written as u64;
                    size /= 2;
                }
                Err(_) => size /= 2,
            }
        }
        file.set_len(len.saturating_sub(room)).unwrap();
        Ballast(path)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mounted).status();
    }
}

struct Ballast(PathBuf);

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn open(root: &Path) -> cas_core::Result<Arc<Store>> {
    Store::open(root, OpenOptions::default())
}

/// What was acknowledged, and must be readable for ever.
type Acknowledged = Vec<(String, ObjectId, Model)>;

fn read_all(store: &Store, acknowledged: &Acknowledged) {
    for (name, id, model) in acknowledged {
        assert_eq!(store.refs().get(name).unwrap(), Some(*id));
        snapshot::read_back(store, id, model).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    }
}

fn is_clean(error: &StoreError) {
    assert_eq!(error.class(), Class::Environment, "{error:?}");
    let hint = error.hint().unwrap_or_else(|| panic!("there is no hint for {error:?}"));
    assert!(hint.contains("space"), "{hint}");
}

fn put(store: &Arc<Store>, model: Model, acknowledged: &mut Acknowledged) -> cas_core::Result<()> {
    let name = format!("threads/t{}", model.line);
    let id = snapshot::write(store, model, Parent::None, |id| vec![set(&name, id)])?;
    acknowledged.push((name, id, model));
    Ok(())
}

#[test]
fn a_store_that_fills_its_disk_keeps_what_it_has_and_goes_on_after_gc() {
    let Some(disk) = Disk::mount() else { return };
    let store = Store::init(&disk.root(), None, OpenOptions::default()).unwrap();
    let mut acknowledged = Vec::new();
    let model = |line| Model { line, generation: 1, pages: 768 };
    // Snapshots differ a little in size: full is when several in a row do not fit.
    let refused = (1..100).filter_map(|line| put(&store, model(line), &mut acknowledged).err()).take(5);
    assert_eq!(refused.inspect(is_clean).count(), 5);
    assert!((4..60).contains(&acknowledged.len()), "{} snapshots fitted", acknowledged.len());
    read_all(&store, &acknowledged);
    drop(store);

    let store = open(&disk.root()).unwrap();
    read_all(&store, &acknowledged);
    let report = store.verify(&Snapshots, Depth::Bytes, &Silent).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);

    // The way out: delete a thread, collect, and it fits again.
    let (name, id, _) = acknowledged.remove(0);
    store.refs().update(&[RefChange { name, expected: Expected::At(id), new: None }]).unwrap();
    let report = store.gc(&Snapshots, &GcOptions::default(), &Silent).unwrap();
    assert!(report.packs_removed > 0);
    put(&store, model(101), &mut acknowledged).unwrap();
    read_all(&store, &acknowledged);
}

/// Leaves a little more room each time, so that each write of a session, SQLite's among them, is once the one that fails.
#[test]
fn every_single_write_may_be_the_one_that_does_not_fit() {
    let Some(disk) = Disk::mount() else { return };
    drop(Store::init(&disk.root(), None, OpenOptions::default()).unwrap());
    let mut acknowledged = Vec::new();
    let model = |line| Model { line, generation: 1, pages: 32 };
    put(&open(&disk.root()).unwrap(), model(1), &mut acknowledged).unwrap();
    let (mut of_sqlite, mut of_files, mut successes) = (0, 0, 0);
    for step in 0..120 {
        let ballast = disk.ballast(step * 4096);
        let tried = open(&disk.root()).and_then(|store| put(&store, model(100 + step), &mut acknowledged));
        match &tried {
            Ok(()) => successes += 1,
            Err(error) => {
                is_clean(error);
                of_sqlite += u64::from(matches!(error, StoreError::Catalogue { .. }));
                of_files += u64::from(matches!(error, StoreError::Io { .. }));
            }
        }
        if tried.is_err() {
            // Nothing is visible of what failed, and what was there before can be read while the disk is full.
            if let Ok(store) = open(&disk.root()) {
                read_all(&store, &acknowledged);
                assert_eq!(store.refs().get(&format!("threads/t{}", 100 + step)).unwrap(), None);
            }
        }
        drop(ballast);
        let store = open(&disk.root()).unwrap();
        read_all(&store, &acknowledged);
        put(&store, model(1000 + step), &mut acknowledged).unwrap();
        // Keep the disk small: all but the first and the last go.
        let changes: Vec<RefChange> = acknowledged
            .drain(1..acknowledged.len() - 1)
            .map(|(name, id, _)| RefChange { name, expected: Expected::At(id), new: None })
            .collect();
        store.refs().update(&changes).unwrap();
        store.gc(&Snapshots, &GcOptions::default(), &Silent).unwrap();
        let report = store.verify(&Snapshots, Depth::Bytes, &Silent).unwrap();
        assert!(report.is_clean(), "with {step} pages left: {:?}", report.problems);
        if successes >= 5 {
            break;
        }
    }
    println!("did not fit: {of_sqlite} writes of SQLite, {of_files} other files; {successes} fitted");
    assert!(of_sqlite >= 3 && of_files >= 3 && successes >= 5, "{of_sqlite} {of_files} {successes}");
}
