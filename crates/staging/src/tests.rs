use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

fn open(base: &Path) -> Stages {
    for name in ["state", "run"] {
        fs::create_dir_all(base.join(name)).unwrap();
    }
    Stages::open(&base.join("state"), &base.join("run"), false).unwrap()
}

/// Stages images of so many bytes.
fn staged(stages: &Stages, bytes: usize) -> Staged {
    let staged = stages.stage(4096).unwrap();
    fs::write(staged.path().join("pages-1.img"), vec![1; bytes]).unwrap();
    staged
}

fn count(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir()).count()
}

#[test]
fn what_is_staged_goes_when_it_is_dropped() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path());
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
fn what_was_not_finished_is_removed_at_the_next_start() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path());
    std::mem::forget(staged(&stages, 4096));
    fs::create_dir(base.path().join("state/staging/0123")).unwrap();
    drop(stages);
    let _stages = open(base.path());
    assert_eq!(count(&base.path().join("state/staging")), 0);
}

#[test]
fn what_an_earlier_version_has_kept_is_removed() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path());
    let _litter = Litter(stages.shared.memory.clone());
    stages.shared.make_memory().unwrap();
    let kept = [base.path().join("state/cache"), stages.shared.memory.join("cache")];
    for directory in &kept {
        fs::create_dir_all(directory.join("snapshot")).unwrap();
        fs::write(directory.join("snapshot/pages-1.img"), vec![1; 8192]).unwrap();
    }
    drop(stages);
    let _stages = open(base.path());
    assert!(!kept.iter().any(|directory| directory.exists()));
}

#[test]
fn more_than_the_machine_has_is_refused_with_the_numbers() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path());
    let error = stages.stage(1 << 60).unwrap_err();
    assert!(matches!(error, StagingError::NoRoom { .. }), "{error}");
    assert!(error.to_string().contains("bytes are needed"), "{error}");
    assert_eq!(*stages.shared.promised.lock().unwrap(), (0, 0));
}

#[test]
fn our_directory_in_memory_is_made_once_and_found_again() {
    let base = tempfile::tempdir().unwrap();
    let stages = open(base.path());
    assert!(!stages.shared.is_made().unwrap());
    let _litter = Litter(stages.shared.memory.clone());
    stages.shared.make_memory().unwrap();
    assert!(stages.shared.is_made().unwrap());
    stages.shared.make_memory().unwrap();
    let images = stages.shared.staging(Medium::Memory).join("x");
    fs::create_dir(&images).unwrap();
    drop(stages);
    let stages = open(base.path());
    assert!(stages.shared.is_made().unwrap());
    assert!(!images.exists(), "what was not finished is removed there, too");
}

#[test]
fn with_an_encrypted_store_nothing_is_on_disk() {
    let base = tempfile::tempdir().unwrap();
    let _plain = open(base.path());
    let stages = Stages::open(&base.path().join("state"), &base.path().join("run"), true).unwrap();
    let _litter = Litter(stages.shared.memory.clone());
    let staged = staged(&stages, 4096);
    assert!(staged.path().starts_with(&stages.shared.memory));
    let refused = stages.stage(1 << 60).unwrap_err();
    assert!(
        matches!(&refused, StagingError::NoRoom { path, .. } if path.starts_with("/dev/shm")),
        "{refused}"
    );
}

#[test]
fn a_directory_in_memory_that_is_not_ours_alone_is_not_used() {
    let base = tempfile::tempdir().unwrap();
    let memory = open(base.path()).shared.memory.clone();
    let _litter = Litter(memory.clone());
    let stages = |memory_only| {
        Stages::open(&base.path().join("state"), &base.path().join("run"), memory_only).unwrap()
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
