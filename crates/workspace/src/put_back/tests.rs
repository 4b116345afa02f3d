use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use manifest::snapshot::WorkspacePolicy;
use proptest::prelude::*;

use super::*;
use crate::testing::{Holder, Home, age, tree};
use crate::{AtWork, open_files, plan::Blocked};

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// Everything that is to be overwritten is in this one.
fn automatic(home: &Home) -> Listing {
    home.capture_tree()
}

#[test]
fn a_file_gets_its_bytes_mode_and_time_back_and_keeps_its_inode() {
    let home = Home::new();
    let file = home.write("work/data", vec![7; 300_000]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&file).unwrap();
    let to = home.capture_named(&[&file]);
    let mut changed = vec![7; 200_000];
    changed[5000] = 8;
    changed.extend([9; 200_000]);
    fs::write(&file, &changed).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    let put_back = home.put_back(&FilePolicy::Open, &to);
    assert_eq!(put_back.plan().unwrap().write, [file.as_path()]);
    let done = put_back.run(&automatic(&home)).unwrap();
    assert_eq!(done.written, [file.as_path()]);
    assert_eq!(done.kept, []);
    let after = fs::metadata(&file).unwrap();
    assert_eq!(fs::read(&file).unwrap(), vec![7; 300_000]);
    assert_eq!((after.ino(), after.mode()), (before.ino(), before.mode()));
    assert_eq!((after.mtime(), after.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
    // One block, and what had been overwritten beyond 200,000.
    assert!(done.bytes < 110_000, "{}", done.bytes);
    // Again: nothing to do.
    assert_eq!(put_back.plan().unwrap().unchanged, 1);
    assert_eq!(put_back.run(&Listing::default()).unwrap().bytes, 0);
}

#[test]
fn what_is_gone_is_made_again_with_its_directories() {
    let home = Home::new();
    let file = home.write("work/a/b/data", "text");
    let outside = home.write("elsewhere/c/log", "log");
    fs::set_permissions(home.path("work/a"), fs::Permissions::from_mode(0o750)).unwrap();
    let to = home.capture_named(&[&file, &outside]);
    fs::remove_dir_all(home.path("work/a")).unwrap();
    fs::remove_dir_all(home.path("elsewhere/c")).unwrap();
    let put_back = home.put_back(&FilePolicy::Open, &to);
    assert_eq!(put_back.plan().unwrap().create.len(), 2);
    put_back.run(&Listing::default()).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"text");
    assert_eq!(fs::read(&outside).unwrap(), b"log");
    assert_eq!(fs::metadata(home.path("work/a")).unwrap().mode() & 0o777, 0o750);
    assert_eq!(fs::metadata(&file).unwrap().uid(), home.user.uid);
}

#[test]
fn two_names_of_one_file_stay_two_names_of_one_file() {
    let home = Home::new();
    let one = home.write("work/one", "same");
    let two = home.path("work/two");
    fs::hard_link(&one, &two).unwrap();
    let to = home.capture_tree();
    fs::remove_file(&two).unwrap();
    home.put_back(&tree(), &to).run(&automatic(&home)).unwrap();
    assert_eq!(inode(&one), inode(&two));
    fs::remove_file(&one).unwrap();
    fs::remove_file(&two).unwrap();
    home.put_back(&tree(), &to).run(&automatic(&home)).unwrap();
    assert_eq!(inode(&one), inode(&two));
    assert_eq!(fs::read(&two).unwrap(), b"same");
}

#[test]
fn holes_become_holes_again() {
    let home = Home::new();
    let file = home.write("work/sparse", "");
    File::options().write(true).open(&file).unwrap().set_len(8 << 20).unwrap();
    let to = home.capture_tree();
    fs::write(&file, vec![1; 8 << 20]).unwrap();
    home.put_back(&tree(), &to).run(&automatic(&home)).unwrap();
    let stat = fs::metadata(&file).unwrap();
    assert_eq!(stat.len(), 8 << 20);
    assert!(stat.blocks() * 512 < 1 << 20, "{} blocks", stat.blocks());
    fs::remove_file(&file).unwrap();
    home.put_back(&tree(), &to).run(&automatic(&home)).unwrap();
    assert!(fs::metadata(&file).unwrap().blocks() * 512 < 1 << 20);
}

#[test]
fn a_later_log_of_a_database_goes_if_the_automatic_snapshot_has_it() {
    let home = Home::new();
    let mut content = b"SQLite format 3\0".to_vec();
    content.resize(4096, 1);
    let database = home.write("work/d.db", &content);
    let text = home.write("work/notes", "no database");
    let to = home.capture_named(&[&database, &text]);
    let wal = home.write("work/d.db-wal", "later");
    let beside = home.write("work/notes-journal", "has nothing to do with SQLite");
    let put_back = home.put_back(&FilePolicy::Open, &to);
    assert_eq!(put_back.plan().unwrap().remove, [wal.as_path()]);
    let done = put_back.run(&Listing::default()).unwrap();
    assert!(done.removed.is_empty() && wal.exists());
    assert!(done.kept[0].1.contains("no snapshot"), "{:?}", done.kept);
    let automatic = home.capture_named(&[&database, &text]);
    let done = put_back.run(&automatic).unwrap();
    assert_eq!(done.removed, [wal.as_path()]);
    assert!(!wal.exists() && beside.exists());
}

#[test]
fn what_was_added_to_the_directory_goes_if_the_automatic_snapshot_has_it_as_it_is() {
    let home = Home::new();
    home.write("work/old", "old");
    let to = home.capture_tree();
    let added = home.write("work/new/dir/added", "new");
    let excluded = home.write("work/x.tmp", "excluded");
    let policy = FilePolicy::Tree {
        include: vec![],
        exclude: vec!["*.tmp".into()],
        max_bytes: u64::MAX,
        volumes: vec![],
    };
    let automatic = home.capture_with(&policy, &[], &Listing::default(), &[]).1;
    let later = home.write("work/later", "after the automatic snapshot");
    let changed = home.write("work/new/changed", "x");
    let done = home.put_back(&policy, &to).run(&automatic).unwrap();
    assert_eq!(done.removed, [added]);
    assert!(later.exists() && changed.exists() && excluded.exists());
    assert!(!home.path("work/new/dir").exists(), "an empty directory goes with its last file");
    assert_eq!(done.kept.len(), 2);
}

#[test]
fn empty_directories_and_links_of_the_tree_come_back() {
    let home = Home::new();
    fs::create_dir(home.path("work/empty")).unwrap();
    home.give(&home.path("work/empty"));
    symlink("nowhere", home.path("work/link")).unwrap();
    let to = home.capture_tree();
    fs::remove_dir(home.path("work/empty")).unwrap();
    fs::remove_file(home.path("work/link")).unwrap();
    home.put_back(&tree(), &to).run(&automatic(&home)).unwrap();
    assert!(home.path("work/empty").is_dir());
    assert_eq!(fs::read_link(home.path("work/link")).unwrap(), Path::new("nowhere"));
}

#[test]
fn a_path_that_was_swapped_for_a_link_is_never_written_through() {
    let home = Home::new();
    let file = home.write("work/file", "mine");
    let below = home.write("work/dir/file", "mine");
    let to = home.capture_named(&[&file, &below]);
    let victim = home.path("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), "not yours").unwrap();
    fs::remove_file(&file).unwrap();
    symlink(victim.join("file"), &file).unwrap();
    fs::remove_dir_all(home.path("work/dir")).unwrap();
    symlink(&victim, home.path("work/dir")).unwrap();
    let put_back = home.put_back(&FilePolicy::Open, &to);
    let plan = put_back.plan().unwrap();
    assert_eq!(plan.blocked.len(), 2, "{plan:?}");
    assert!(plan.blocked.iter().all(|Blocked { reason, .. }| reason.contains("symbolic link")), "{plan:?}");
    let done = put_back.run(&automatic(&home)).unwrap();
    assert_eq!(done.kept.len(), 2);
    assert_eq!(fs::read(victim.join("file")).unwrap(), b"not yours");
    // A pipe in its place is not waited for.
    fs::remove_file(&file).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, Mode::RWXU).unwrap();
    assert!(put_back.plan().unwrap().blocked.iter().any(|blocked| blocked.reason.contains("pipe")));
}

#[test]
fn nothing_is_overwritten_that_no_snapshot_has() {
    let home = Home::new();
    let file = home.write("work/data", "old");
    let to = home.capture_named(&[&file]);
    home.write("work/data", "changed");
    let kept = automatic(&home);
    let put_back = home.put_back(&FilePolicy::Open, &to);
    assert_eq!(put_back.uncovered(&kept).unwrap(), Vec::<PathBuf>::new());
    // Changed again after the automatic snapshot.
    home.write("work/data", "newest!");
    assert_eq!(put_back.uncovered(&kept).unwrap(), [file.as_path()]);
    let error = put_back.run(&Listing::default()).unwrap_err();
    assert!(matches!(error, WorkspaceError::Changed { .. }), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"newest!");
    // The way out: those files by name, without a policy.
    let (_, mut safe) =
        home.capture_with(&FilePolicy::None, std::slice::from_ref(&file), &Listing::default(), &[]);
    assert_eq!(put_back.uncovered(&safe).unwrap(), Vec::<PathBuf>::new());
    assert_eq!(home.content_in(&safe, &file).as_deref(), Some(b"newest!".as_slice()));
    safe.merge(kept);
    put_back.run(&safe).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"old");
}

#[test]
fn a_run_that_was_cut_short_is_repeated() {
    let home = Home::new();
    let paths: Vec<PathBuf> = (0..5).map(|n| home.write(format!("work/{n}"), vec![n; 50_000])).collect();
    let to = home.capture_tree();
    for path in &paths {
        fs::write(path, vec![99; 70_000]).unwrap();
    }
    fs::remove_file(&paths[4]).unwrap();
    let automatic = automatic(&home);
    // What a run leaves behind that ended in the middle: one file done, one half written, one made and still empty.
    fs::write(&paths[0], vec![0; 50_000]).unwrap();
    let mut half = vec![1; 20_000];
    half.extend([99; 30_000]);
    fs::write(&paths[1], half).unwrap();
    home.write("work/4", "");
    home.put_back(&tree(), &to).run(&automatic).unwrap_err();
    // The empty one was not there: the caller knows it from the plan of the first run, and keeps it.
    let (_, mut safe) = home.capture_with(&FilePolicy::None, &paths[4..], &Listing::default(), &[]);
    safe.merge(automatic);
    home.put_back(&tree(), &to).run(&safe).unwrap();
    for (n, path) in (0..).zip(&paths) {
        assert_eq!(fs::read(path).unwrap(), vec![n; 50_000]);
    }
}

#[test]
fn files_that_somebody_else_changed_are_named() {
    let home = Home::new();
    let log = home.write("work/own.log", "one");
    let other = home.write("work/others.log", "one");
    let notes = home.write("work/notes.txt", "one");
    let old = home.write("work/old", "one");
    let all = [log.as_path(), &other, &notes, &old];
    let to = home.capture_named(&all);
    home.write("work/old", "two");
    let head = home.capture_named(&all);
    let append = |path: &Path| fs::OpenOptions::new().append(true).open(path).unwrap();
    let (mut own, not_own) = (append(&log), append(&other));
    let null = std::process::Stdio::null;
    let one = Holder::new(&home, null(), own.try_clone().unwrap());
    let two = Holder::new(&home, null(), not_own);
    // Through the session's own descriptor, which it shares with us; the others by name.
    std::io::Write::write_all(&mut own, b", two by the session").unwrap();
    fs::write(&other, "written by somebody else").unwrap();
    fs::write(&notes, "saved by an editor").unwrap();
    let open = open_files(&[one.pid(), two.pid()], &home.places).unwrap();
    let put_back = PutBack { head: Some(&head), open: &open, ..home.put_back(&FilePolicy::Open, &to) };
    let plan = put_back.plan().unwrap();
    assert_eq!(plan.write, [notes.as_path(), &old, &other, &log]);
    assert_eq!(plan.changed_by_others, [notes.as_path(), &other]);
    assert_eq!(plan.touches(), plan.write);
    // Touched, but not changed; and what is as it was at the snapshot needs nothing at all.
    home.write("work/notes.txt", "one");
    let plan = put_back.plan().unwrap();
    assert_eq!(plan.changed_by_others, [other.as_path()]);
    assert!(!plan.write.contains(&notes));
    // Where the whole directory is the session's, files that it opened and closed may be its own doing; while it has no
    // processes, they are not.
    let whole = home.capture_tree();
    home.write("work/notes.txt", "two");
    let added = home.write("work/added", "new");
    let policy = tree();
    let put_back = PutBack { head: Some(&whole), open: &open, ..home.put_back(&policy, &whole) };
    let plan = put_back.plan().unwrap();
    assert_eq!(plan.changed_by_others, Vec::<PathBuf>::new());
    assert_eq!(plan.unclear, [notes.as_path()]);
    let [changed, newer] = &plan.warnings()[..] else { panic!("{:?}", plan.warnings()) };
    assert!(changed.contains("notes.txt") && newer.contains("added"), "{changed} {newer}");
    let asleep = PutBack { running: false, open: &[], ..put_back };
    assert_eq!(asleep.plan().unwrap().changed_by_others, [notes.as_path()]);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&added, Some(0), None).unwrap();
        assert_eq!(put_back.plan().unwrap().changed_by_others, [added.as_path()]);
    }
}

/// When a file was changed.
fn changed_at(path: &Path) -> SystemTime {
    let stat = fs::metadata(path).unwrap();
    UNIX_EPOCH + Duration::new(stat.ctime().try_into().unwrap(), stat.ctime_nsec().try_into().unwrap())
}

#[test]
fn what_somebody_else_wrote_stays_and_what_the_session_wrote_goes_back() {
    let home = Home::new();
    let (own, edited) = (home.write("work/own.csv", "old"), home.write("work/utils.py", "old"));
    let (open, notebook) = (home.write("work/open.log", "old"), home.write("work/n.ipynb", "old"));
    let holder = Holder::new(
        &home,
        std::process::Stdio::null(),
        fs::OpenOptions::new().append(true).open(&open).unwrap(),
    );
    let (_, to) = home.capture_with(&tree(), &[], &Listing::default(), &[holder.pid()]);
    drop(holder);
    home.write("work/utils.py", "edited");
    home.write("work/open.log", "edited");
    let added = home.write("work/mine.txt", "a person's");
    age(&added);
    let begun = changed_at(&home.write("work/own.csv", "new"));
    home.write("work/n.ipynb", "saved in the midst of a cell");
    let made = home.write("work/made.txt", "by the session");
    let at_work = AtWork::in_periods(UNIX_EPOCH, [(begun, changed_at(&made))]);
    let policy = tree();
    let put_back = PutBack { at_work: &at_work, head: Some(&to), ..home.put_back(&policy, &to) };
    let plan = put_back.plan().unwrap();
    assert_eq!(plan.spared, [notebook.as_path(), &edited, &added]);
    assert_eq!(
        (plan.write.as_slice(), plan.remove.as_slice()),
        ([open.clone(), own.clone()].as_slice(), [made.clone()].as_slice())
    );
    assert_eq!(plan.changed_by_others, [open.as_path()], "a process needs it as it was");
    assert!(plan.unclear.is_empty());
    assert!(plan.warnings().iter().any(|warning| warning.contains("utils.py")), "{:?}", plan.warnings());

    let spared = plan.spared.iter().cloned().collect();
    PutBack { spared: &spared, ..put_back }.run(&automatic(&home)).unwrap();
    for (path, text) in [(&own, "old"), (&open, "old"), (&edited, "edited"), (&added, "a person's")] {
        assert_eq!(fs::read_to_string(path).unwrap(), text, "{path:?}");
    }
    assert!(!made.exists());

    // Whoever forces it means all of it.
    let plan = PutBack { force: true, ..put_back }.plan().unwrap();
    assert!(
        plan.spared.is_empty() && plan.write.contains(&edited) && plan.remove.contains(&added),
        "{plan:?}"
    );
}

#[test]
fn a_file_that_a_restore_needs_and_that_has_another_size_is_found_beforehand() {
    let home = Home::new();
    let table = home.write("elsewhere/table.csv", "a,b");
    let gone = home.write("elsewhere/gone.csv", "x");
    let holder = Holder::new(&home, File::open(&table).unwrap(), std::process::Stdio::null());
    let second = Holder::new(&home, File::open(&gone).unwrap(), std::process::Stdio::null());
    let pids = [holder.pid(), second.pid()];
    let (_, to) = home.capture_with(&FilePolicy::Open, &[], &Listing::default(), &pids);
    let put_back = home.put_back(&FilePolicy::Open, &to);
    assert_eq!(put_back.plan().unwrap().blocked, []);
    home.write("elsewhere/table.csv", "a,b,c");
    fs::remove_file(&gone).unwrap();
    let plan = put_back.plan().unwrap();
    let blocked: Vec<_> = plan.blocked.iter().map(|blocked| blocked.path.clone()).collect();
    assert_eq!(blocked, [gone, table]);
    assert!(plan.blocked[1].reason.contains("has 5 bytes, had 3"), "{:?}", plan.blocked);
}

#[test]
fn the_directory_that_a_process_was_in_comes_back() {
    let home = Home::new();
    let inside = home.write("work/here/x", "").with_file_name("");
    let null = std::process::Stdio::null;
    let holder = Holder::within(&home, &inside, null(), null());
    let (_, to) = home.capture_with(&FilePolicy::Open, &[], &Listing::default(), &[holder.pid()]);
    drop(holder);
    fs::remove_dir_all(&inside).unwrap();
    home.put_back(&FilePolicy::Open, &to).run(&Listing::default()).unwrap();
    assert!(inside.is_dir());
    assert_eq!(fs::metadata(&inside).unwrap().uid(), home.user.uid);
}

#[test]
fn a_file_that_was_only_seen_is_in_nobodys_way() {
    let home = Home::new();
    let big = home.write("work/big", vec![1; 5000]);
    let policy = FilePolicy::Tree { include: vec![], exclude: vec![], max_bytes: 1000, volumes: vec![] };
    let (_, to) = home.capture_with(&policy, &[], &Listing::default(), &[]);
    assert!(to.entries.contains_key(&big));
    home.write("work/big", "another size");
    let plan = home.put_back(&policy, &to).plan().unwrap();
    assert_eq!((plan.blocked, plan.remove), (vec![], vec![]));
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    // Runs, so that there are equal blocks, zero blocks and boundaries in odd places.
    let run = (prop_oneof![Just(0_u8), any::<u8>()], 1_usize..9000);
    proptest::collection::vec(run, 0..6)
        .prop_map(|runs| runs.into_iter().flat_map(|(byte, len)| std::iter::repeat_n(byte, len)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_there_becomes_what_is_wanted(old in bytes(), new in bytes(), cut in 1_usize..10_000) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &old).unwrap();
        let file = file.into_file();
        file.set_len((old.len().min(new.len())) as u64).unwrap();
        let mut at = 0;
        for chunk in new.chunks(cut) {
            let mut current = vec![0; old.len().min(new.len()).saturating_sub(at).min(chunk.len())];
            file.read_exact_at(&mut current, at as u64).unwrap();
            write_differing(&file, at as u64, chunk, &current).unwrap();
            at += chunk.len();
        }
        file.set_len(new.len() as u64).unwrap();
        let mut found = vec![0; new.len()];
        file.read_exact_at(&mut found, 0).unwrap();
        prop_assert_eq!(found, new);
    }
}

#[test]
fn what_may_only_be_read_is_never_written_to() {
    let mut home = Home::new();
    // A directory that is hidden behind one of the machine's, and a file that was read there.
    for name in ["work/data/hidden", "work/data/same", "work/data/deep/er"] {
        home.write(name, "old");
    }
    symlink("hidden", home.path("work/data/link")).unwrap();
    let to = home.capture_tree();
    let there = home.path("elsewhere");
    let (at, same) = (home.path("work/data"), home.write("elsewhere/same", "new"));
    home.places.mapped = vec![(at.clone(), there.clone())];
    home.places.read_only = vec![at.clone()];
    let (policy, automatic) = (tree(), automatic(&home));
    assert!(!automatic.entries.keys().any(|path| path.starts_with(&at)), "what is hidden is nobody's work");
    let plan = home.put_back(&policy, &to).plan().unwrap();
    assert_eq!((plan.write.len(), plan.create.len(), plan.remove.len(), plan.blocked), (0, 0, 0, vec![]));
    home.put_back(&policy, &to).run(&automatic).unwrap();
    assert_eq!(fs::read(&same).unwrap(), b"new");
    assert_eq!(fs::read_dir(&there).unwrap().count(), 1);
    // A process that had it open could not go on with another one.
    let to = Listing { open: Some([at.join("same"), at.join("hidden")].into()), ..to };
    fs::write(&same, "longer").unwrap();
    let blocked = home.put_back(&policy, &to).plan().unwrap().blocked;
    let told: Vec<_> =
        blocked.iter().map(|Blocked { path, reason }| (path.clone(), reason.as_str())).collect();
    assert_eq!(
        told,
        [
            (at.join("hidden"), "is gone, and was where it may only be read"),
            (at.join("same"), "has 6 bytes, had 3 at the snapshot, and is where it may only be read"),
        ]
    );
    // A workspace that may only be read is not gone through, and nothing in it goes.
    home.places.mapped.clear();
    home.places.read_only = vec![home.path("work")];
    let stranger = home.write("work/stranger", "x");
    let (captured, listing) = home.capture_with(&policy, &[], &Listing::default(), &[]);
    assert_eq!((captured.workspace.policy, listing.whole_tree), (WorkspacePolicy::Open, false));
    home.put_back(&policy, &to).run(&Listing::default()).unwrap();
    assert!(stranger.exists());
}
