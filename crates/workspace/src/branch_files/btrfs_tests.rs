//! On a btrfs of the test's own. It needs root, `mkfs.btrfs` and a loop device.

use std::os::unix::fs::MetadataExt;

use nix::sched::CloneFlags;

use super::tests::Branch;
use super::*;
use crate::stage::{Stage, Staged};
use crate::testing::{Home, age};

/// Mounts a new btrfs where nobody but this thread, and those that it starts, can see it. `None` if that can't be here.
fn mounted(directory: &Path) -> Option<PathBuf> {
    let skipped = |why: &str| {
        assert!(std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{why}");
        println!("skipped: files on btrfs because {why}");
    };
    if !rustix::process::geteuid().is_root() {
        skipped("this is not root");
        return None;
    }
    let image = directory.join("image");
    fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
    let run = |program: &str, arguments: &[&Path]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    if !run("mkfs.btrfs", &[Path::new("-q"), &image]) {
        skipped("mkfs.btrfs does not work here");
        return None;
    }
    nix::sched::unshare(CloneFlags::CLONE_NEWNS).unwrap();
    assert!(run("mount", &[Path::new("--make-rprivate"), Path::new("/")]));
    let mountpoint = directory.join("mounted");
    fs::create_dir(&mountpoint).unwrap();
    if !run("mount", &[Path::new("-o"), Path::new("loop"), &image, &mountpoint]) {
        skipped("there is no loop device to mount btrfs from");
        return None;
    }
    Some(mountpoint)
}

#[test]
fn a_subvolume_is_snapshotted_and_inode_numbers_stay() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let Some(mountpoint) = mounted(directory.path()) else { return };
    {
        let home = Home::below(&mountpoint);
        let work = home.path("work");
        fs::remove_dir(&work).unwrap();
        assert!(run_btrfs(&["create".as_ref(), work.as_os_str()]).unwrap());
        home.give(&work);
        let mut database = b"SQLite format 3\0".to_vec();
        database.resize(1 << 20, 3);
        let path = home.write("work/d.db", &database);
        let log = home.write("work/run.log", "at the snapshot");
        age(&log);
        let mut stage = Stage::new(&home.path("staging")).unwrap();
        let staged = stage.copy(&fs::File::open(&path).unwrap(), 1 << 20, 1 << 20).unwrap();
        assert!(matches!(staged, Staged::Shared(_)), "{staged:?}");
        let from = home.capture_named(&[&path, &log]);
        home.write("work/run.log", "later");
        home.write("work/d.db-wal", "later");

        let branch = Branch::of(&home);
        let made = branch.files(&home, &from, std::slice::from_ref(&path)).make().unwrap();
        assert!(made.inodes_kept);
        assert_eq!((made.warnings, made.left_out), (vec![], vec![]));
        let copy = branch.workspace.join("d.db");
        assert_eq!(fs::metadata(&copy).unwrap().ino(), fs::metadata(&path).unwrap().ino());
        assert_eq!(fs::read(branch.workspace.join("run.log")).unwrap(), b"at the snapshot");
        assert!(!branch.workspace.join("d.db-wal").exists());
        fs::write(&copy, "the branch's").unwrap();
        assert_eq!(fs::read(&path).unwrap(), database);
        remove(&branch.workspace).unwrap();
        assert!(!branch.workspace.exists());

        // A directory that is no subvolume is copied, and shares its blocks.
        fs::create_dir(work.join("plain")).unwrap();
        home.give(&work.join("plain"));
        let file = home.write("work/plain/big", vec![5; 4 << 20]);
        let plain =
            Places { workspace: Some((work.join("plain"), work.join("plain"))), ..home.places.clone() };
        let nothing = Listing::default();
        let made = BranchFiles { source: &plain, ..branch.files(&home, &nothing, &[]) }.make().unwrap();
        assert_eq!((made.inodes_kept, made.bytes), (false, 0));
        assert_eq!(fs::read(branch.workspace.join("big")).unwrap(), fs::read(&file).unwrap());
        remove(&branch.workspace).unwrap();
    }
    nix::mount::umount(&mountpoint).unwrap();
}
