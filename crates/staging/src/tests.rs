use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

/// A key as snapshots have them.
fn key(n: u8) -> String {
    cas_core::ObjectId::from_bytes([n; 32]).to_string()
}

fn open(base: &Path, limit: u64) -> Stages {
    for name in ["state", "run"] {
        fs::create_dir_all(base.join(name)).unwrap();
    }
    Stages::open(&base.join("state"), &base.join("run"), Some(limit), false).unwrap()
}

/// Stages images of so many bytes.
fn staged(stages: &Stages, bytes: usize) -> Staged {
    let staged = stages.stage(4096).unwrap();
    fs::write(staged.path().join("pages-1.img"), vec![1; bytes]).unwrap();
    staged
}

fn keep(stages: &Stages, n: u8, bytes: usize) {
    stages.adopt(staged(stages, bytes), &key(n));
}

fn count(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir()).count()
}

#[test]
fn what_is_staged_goes_when_it_is_dropped() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path(), 1 << 20);
    let staged = staged(&stages, 4096);
    for directory in [staged.path(), staged.files()] {
        assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert!(stages.shared.promised.lock().unwrap().0 >= 4096);
    drop(staged);
    assert_eq!(count(&base.path().join("state/staging")), 0);
    assert_eq!(*stages.shared.promised.lock().unwrap(), (0, 0));
}

#[test]
fn what_was_not_finished_is_removed_at_the_next_start_and_the_cache_stays() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path(), 1 << 20);
    keep(&stages, 1, 8192);
    std::mem::forget(staged(&stages, 4096));
    // Half an eviction: renamed, not yet removed.
    fs::create_dir(base.path().join("state/staging/0123")).unwrap();
    fs::create_dir(base.path().join("state/cache/not-a-snapshot")).unwrap();
    drop(stages);
    let stages = open(base.path(), 1 << 20);
    assert_eq!(count(&base.path().join("state/staging")), 0);
    assert_eq!(count(&base.path().join("state/cache")), 1);
    let cached = stages.cached(&key(1)).unwrap();
    assert_eq!(fs::read(cached.path().join("pages-1.img")).unwrap(), vec![1; 8192]);
    assert_eq!(stages.shared.cache.bytes(), 8192);
}

#[test]
fn a_cache_of_another_boot_is_dropped() {
    let base = tempfile::tempdir().unwrap();
    keep(&open(base.path(), 1 << 20), 1, 4096);
    let boot = base.path().join("state/cache/.boot");
    let now = fs::read_to_string(&boot).unwrap();
    fs::write(&boot, "another").unwrap();
    assert!(open(base.path(), 1 << 20).cached(&key(1)).is_none());
    assert_eq!(count(&base.path().join("state/cache")), 0);
    assert_eq!(fs::read_to_string(&boot).unwrap(), now);
    // The same if the machine went down before the first line was written.
    keep(&open(base.path(), 1 << 20), 1, 4096);
    fs::remove_file(&boot).unwrap();
    assert!(open(base.path(), 1 << 20).cached(&key(1)).is_none());
}

#[test]
fn the_one_that_was_not_used_for_longest_makes_way() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path(), 3 * 8192);
    for n in 1..=3 {
        keep(&stages, n, 8192);
    }
    drop(stages.cached(&key(1)).unwrap());
    keep(&stages, 4, 8192);
    let there = |stages: &Stages| (1..=4).filter(|n| stages.cached(&key(*n)).is_some()).collect::<Vec<_>>();
    assert_eq!(there(&stages), [1, 3, 4]);
    assert_eq!(stages.shared.cache.bytes(), 3 * 8192);
    // Too large for the whole cache: nothing else goes for it.
    keep(&stages, 2, 4 * 8192);
    assert_eq!(there(&stages), [1, 3, 4]);
    assert_eq!(count(&base.path().join("state/staging")), 0);
    // The next daemon knows the order too.
    drop(stages.cached(&key(1)));
    drop(stages);
    let stages = open(base.path(), 3 * 8192);
    keep(&stages, 2, 2 * 8192);
    assert_eq!(there(&stages), [1, 2]);
}

#[test]
fn what_is_in_use_stays() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path(), 2 * 8192);
    keep(&stages, 1, 8192);
    let (one, again) = (stages.cached(&key(1)).unwrap(), stages.cached(&key(1)).unwrap());
    keep(&stages, 2, 8192);
    keep(&stages, 3, 8192);
    assert!(one.path().join("pages-1.img").exists());
    assert!(stages.cached(&key(2)).is_none() && stages.cached(&key(3)).is_some());
    keep(&stages, 2, 2 * 8192);
    assert!(stages.cached(&key(2)).is_none(), "there is no room while the first is in use");
    stages.forget(&key(1));
    assert!(stages.cached(&key(1)).is_none(), "nobody new gets it");
    drop(one);
    assert!(again.path().exists());
    let path = again.path().to_owned();
    drop(again);
    assert!(!path.exists());
    stages.forget(&key(9));
    assert_eq!(count(&base.path().join("state/staging")), 0);
}

#[test]
fn images_that_are_kept_already_are_not_kept_twice() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path(), 1 << 20);
    keep(&stages, 1, 8192);
    keep(&stages, 1, 4096);
    assert_eq!(stages.shared.cache.bytes(), 8192);
    assert_eq!(count(&base.path().join("state/staging")), 0);
}

#[test]
fn more_than_the_machine_has_is_refused_with_the_numbers() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path(), 1 << 20);
    keep(&stages, 1, 4096);
    let error = stages.stage(1 << 60).unwrap_err();
    assert!(matches!(error, StagingError::NoRoom { .. }), "{error}");
    assert!(error.to_string().contains("bytes are needed"), "{error}");
    assert!(stages.cached(&key(1)).is_none(), "what is only kept for convenience makes way");
    assert_eq!(*stages.shared.promised.lock().unwrap(), (0, 0));
}

#[test]
fn our_directory_in_memory_is_made_once_and_found_again() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path(), 1 << 20);
    assert!(!stages.shared.is_made().unwrap());
    let _litter = Litter(stages.shared.memory.clone());
    stages.shared.make_memory().unwrap();
    assert!(stages.shared.is_made().unwrap());
    stages.shared.make_memory().unwrap();
    let images = stages.shared.staging(Medium::Memory).join("x");
    fs::create_dir(&images).unwrap();
    fs::write(images.join("pages-1.img"), vec![1; 8192]).unwrap();
    let cache = stages.shared.cache_dir(Medium::Memory);
    let (kept, gone) = stages
        .shared
        .cache
        .put(&key(1), &images, &cache, Medium::Memory, &|medium| stages.shared.trash(medium));
    assert!(kept && gone.is_empty());
    drop(stages);
    let stages = open(base.path(), 1 << 20);
    assert_eq!(stages.cached(&key(1)).unwrap().path(), cache.join(key(1)));
    stages.shared.make_room(Medium::Disk, 1);
    assert!(stages.cached(&key(1)).is_some());
    stages.shared.make_room(Medium::Memory, 1);
    assert!(stages.cached(&key(1)).is_none());
}

#[test]
fn with_an_encrypted_store_nothing_is_on_disk() {
    let base = tempfile::tempdir().unwrap();
    let plain = open(base.path(), 1 << 20);
    keep(&plain, 1, 8192);
    drop(plain);
    let open =
        || Stages::open(&base.path().join("state"), &base.path().join("run"), Some(1 << 20), true).unwrap();
    let stages = open();
    let _litter = Litter(stages.shared.memory.clone());
    assert!(stages.cached(&key(1)).is_none(), "what was kept on disk is gone");
    assert_eq!(count(&base.path().join("state/cache")), 0);
    let staged = staged(&stages, 4096);
    assert!(staged.path().starts_with(&stages.shared.memory));
    stages.adopt(staged, &key(2));
    assert!(stages.cached(&key(2)).unwrap().path().starts_with(&stages.shared.memory));
    drop(stages);
    let stages = open();
    assert!(stages.cached(&key(2)).is_some(), "the next daemon finds them");
    assert_eq!(count(&base.path().join("state/cache")), 0);
    let refused = stages.stage(1 << 60).unwrap_err();
    assert!(
        matches!(&refused, StagingError::NoRoom { path, .. } if path.starts_with("/dev/shm")),
        "{refused}"
    );
}

#[test]
fn a_directory_in_memory_that_is_not_ours_alone_is_not_used() {
    let base = tempfile::tempdir().unwrap();
    let memory = open(base.path(), 1 << 20).shared.memory.clone();
    let _litter = Litter(memory.clone());
    let stages = |memory_only| {
        Stages::open(&base.path().join("state"), &base.path().join("run"), None, memory_only).unwrap()
    };
    let is_not_used = || {
        // Whoever made it first keeps nobody from working; but what must not be on disk goes nowhere.
        assert!(staged(&stages(false), 4096).path().starts_with(base.path()));
        let refused = stages(true).stage(4096).unwrap_err();
        assert!(refused.to_string().contains(memory.to_str().unwrap()), "{refused}");
    };
    fs::create_dir(&memory).unwrap();
    fs::set_permissions(&memory, fs::Permissions::from_mode(0o777)).unwrap();
    is_not_used();
    assert_eq!(count(&memory), 0);
    fs::remove_dir(&memory).unwrap();
    std::os::unix::fs::symlink(base.path(), &memory).unwrap();
    is_not_used();
}

/// What is removed also when a test fails: nobody else knows of it.
struct Litter(PathBuf);

impl Drop for Litter {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0).or_else(|_| fs::remove_dir_all(&self.0));
    }
}
