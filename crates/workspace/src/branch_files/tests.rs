use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;
use crate::testing::{Home, age};

pub(super) struct Branch {
    pub(super) workspace: PathBuf,
    pub(super) outside: PathBuf,
}

impl Branch {
    pub(super) fn of(home: &Home) -> Self {
        let parent = home.path("branches");
        let _ = fs::create_dir(&parent);
        Self { workspace: parent.join("b1"), outside: parent.join("b1.outside") }
    }

    pub(super) fn files<'a>(
        &'a self,
        home: &'a Home,
        from: &'a Listing,
        open: &'a [PathBuf],
    ) -> BranchFiles<'a> {
        BranchFiles {
            store: &home.store,
            user: &home.user,
            from,
            source: &home.places,
            taken: SystemTime::now(),
            workspace: &self.workspace,
            outside: &self.outside,
            exclude: &[],
            max_bytes: 1 << 20,
            open,
        }
    }
}

#[test]
fn a_branch_has_the_files_of_the_snapshot_and_they_are_its_own() {
    let home = Home::new();
    let log = home.write("work/run.log", "at the snapshot");
    let other = home.write("work/sub/other.txt", "as it is now");
    let journal = home.write("elsewhere/journal", "outside");
    let table = home.write("elsewhere/table", "only read");
    symlink("sub/other.txt", home.path("work/link")).unwrap();
    fs::hard_link(&other, home.path("work/second-name")).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(home.path("work/sub"), fs::Permissions::from_mode(0o2770)).unwrap();
    let from = home.capture_named(&[&log, &journal]);
    home.write("work/run.log", "later, and longer than before");
    home.write("elsewhere/journal", "later");
    let branch = Branch::of(&home);
    let open = [log.clone(), journal.clone(), table.clone()];
    let made = branch.files(&home, &from, &open).make().unwrap();

    let at = |name: &str| branch.workspace.join(name);
    assert_eq!(fs::read(at("run.log")).unwrap(), b"at the snapshot");
    assert_eq!(fs::read(at("link")).unwrap(), b"as it is now");
    assert_eq!(fs::metadata(at("sub/other.txt")).unwrap().mode() & 0o777, 0o640);
    assert_eq!(
        fs::metadata(at("sub/other.txt")).unwrap().ino(),
        fs::metadata(at("second-name")).unwrap().ino()
    );
    let root = fs::metadata(&branch.workspace).unwrap();
    // Closed to others, whatever the original is: that one may be in a home that is closed itself.
    assert_eq!((root.uid(), root.mode() & 0o7777), (home.user.uid, 0o700));
    assert_eq!(fs::metadata(at("sub")).unwrap().mode(), fs::metadata(home.path("work/sub")).unwrap().mode());
    assert_eq!(fs::metadata(at("run.log")).unwrap().uid(), home.user.uid);
    let copy = branch.outside.join(journal.strip_prefix("/").unwrap());
    assert_eq!(made.moved, [(journal.clone(), copy.clone())]);
    assert_eq!(fs::read(&copy).unwrap(), b"outside");
    assert_eq!(made.shared, [table]);
    assert_eq!((made.left_out, made.warnings), (vec![], vec![]));

    fs::write(at("sub/other.txt"), "the branch's").unwrap();
    fs::write(&copy, "the branch's").unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"as it is now");
    assert_eq!(fs::read(&journal).unwrap(), b"later");
    assert_eq!(fs::read(&log).unwrap(), b"later, and longer than before");
    remove(&branch.workspace).unwrap();
    remove(&branch.workspace).unwrap();
    assert!(!branch.workspace.exists() && other.exists());
}

#[test]
fn of_a_whole_directory_what_was_made_later_is_left_out_and_what_is_gone_is_there() {
    let home = Home::new();
    let kept = home.write("work/kept", "kept");
    let gone = home.write("work/dir/gone", "gone");
    age(&gone);
    let from = home.capture_tree();
    let taken = SystemTime::now();
    age(&gone);
    fs::remove_file(&gone).unwrap();
    // The file system's clock is behind ours by up to a tick.
    std::thread::sleep(std::time::Duration::from_millis(50));
    home.write("work/late", "late");
    let branch = Branch::of(&home);
    let made = BranchFiles { taken, ..branch.files(&home, &from, &[]) }.make().unwrap();
    assert_eq!(made.left_out, []);
    assert_eq!(fs::read(branch.workspace.join("kept")).unwrap(), b"kept");
    assert_eq!(fs::read(branch.workspace.join("dir/gone")).unwrap(), b"gone");
    let knows_birth = facts_of(fs::File::open(kept).unwrap()).unwrap().born.is_some();
    assert_eq!(branch.workspace.join("late").exists(), !knows_birth);
}

#[test]
fn what_does_not_fit_is_said_and_what_is_needed_is_copied_anyway() {
    let home = Home::new();
    let big = home.write("work/big", vec![1; 3 << 20]);
    let needed = home.write("work/needed", vec![2; 3 << 20]);
    home.write("work/cache/x", "x");
    let from = home.capture_named(&[]);
    let branch = Branch::of(&home);
    let open = [needed];
    let exclude = ["cache".to_owned()];
    let made = BranchFiles { exclude: &exclude, ..branch.files(&home, &from, &open) }.make().unwrap();
    let left_out: Vec<_> = made.left_out.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(left_out, [home.path("work/cache"), big]);
    assert!(branch.workspace.join("needed").exists() && !branch.workspace.join("big").exists());
}

#[test]
fn an_open_database_is_named_where_the_inode_number_changes() {
    let home = Home::new();
    let mut bytes = b"SQLite format 3\0".to_vec();
    bytes.resize(4096, 0);
    let inside = home.write("work/in.db", &bytes);
    let outside = home.write("elsewhere/out.db", &bytes);
    let closed = home.write("work/closed.db", &bytes);
    let from = home.capture_named(&[&inside, &outside, &closed]);
    home.write("work/in.db-wal", "later than the snapshot");
    let branch = Branch::of(&home);
    let open = [inside.clone(), outside.clone()];
    let made = branch.files(&home, &from, &open).make().unwrap();
    assert_eq!(made.warnings.len(), 2, "{:?}", made.warnings);
    assert!(made.warnings[0].contains(inside.to_str().unwrap()));
    assert!(made.warnings[1].contains(outside.to_str().unwrap()));
    assert!(!branch.workspace.join("in.db-wal").exists());
}

#[test]
fn a_directory_that_is_there_already_is_not_touched() {
    let home = Home::new();
    home.write("work/a", "a");
    let from = home.capture_named(&[]);
    let branch = Branch::of(&home);
    fs::create_dir(&branch.workspace).unwrap();
    fs::write(branch.workspace.join("precious"), "x").unwrap();
    branch.files(&home, &from, &[]).make().unwrap_err();
    assert!(branch.workspace.join("precious").exists());
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let home = Home::new();
    home.write("work/a", "a");
    let outside = home.write("elsewhere/o", "o");
    let mut from = home.capture_named(&[&outside]);
    // A content that the store does not have.
    for entry in from.entries.values_mut() {
        if let Node::File { content: Some(content), .. } = &mut entry.node {
            content.id = cas_core::ObjectId::from_bytes([9; 32]);
        }
    }
    let branch = Branch::of(&home);
    branch.files(&home, &from, &[]).make().unwrap_err();
    assert!(!branch.workspace.exists() && !branch.outside.exists());
}

#[test]
fn links_in_the_workspace_lead_nowhere_else_in_the_branch() {
    let home = Home::new();
    let victim = home.path("victim");
    fs::create_dir(&victim).unwrap();
    let file = home.write("work/dir/file", "mine");
    let from = home.capture_named(&[&file]);
    fs::remove_dir_all(home.path("work/dir")).unwrap();
    symlink(&victim, home.path("work/dir")).unwrap();
    let branch = Branch::of(&home);
    let made = branch.files(&home, &from, &[]).make().unwrap();
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    assert!(made.left_out[0].1.contains("symbolic link"), "{:?}", made.left_out);
}
