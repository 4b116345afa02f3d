use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Stdio;

use manifest::Node;
use manifest::snapshot::TypedSection;
use rustix::fs::Mode;

use super::*;
use crate::listing::content;
use crate::stage::{Stage, Staged};
use crate::testing::{Holder, Home, age, tree};

fn appending(path: &Path) -> File {
    fs::OpenOptions::new().append(true).open(path).unwrap()
}

fn bytes(captured: &Captured) -> u64 {
    [captured.workspace.tree, captured.outside.tree].iter().flatten().map(|(_, bytes)| bytes).sum()
}

fn reasons(captured: &Captured) -> Vec<(String, String)> {
    captured
        .not_captured
        .iter()
        .map(|item| {
            let path = item.path.to_string_lossy().into_owned();
            let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, item.reason.clone())
        })
        .collect()
}

#[test]
fn policy_open_takes_what_is_open_for_writing_and_compares_what_is_read() {
    let home = Home::new();
    let log = home.write("work/run.log", "one\n");
    let other = home.write("work/other.txt", "not open");
    let table = home.write("elsewhere/table.csv", "a,b");
    let holder = Holder::new(&home, File::open(&table).unwrap(), appending(&log));
    let (captured, listing) = home.capture_with(&FilePolicy::Open, &[], &Listing::default(), &[holder.pid()]);
    assert_eq!(home.content_in(&listing, &log).as_deref(), Some(b"one\n".as_slice()));
    assert!(!listing.entries.contains_key(&other));
    let seen = &listing.entries[&table];
    assert_eq!(seen.node, Node::File { size: 3, content: None });
    assert_eq!(bytes(&captured), 4);
    // Both sections are what a snapshot can hold.
    let again = WorkspaceSection::from_section(&captured.workspace.to_section().unwrap()).unwrap();
    assert_eq!(again, captured.workspace);

    let (captured, listing) = home.capture_with(&FilePolicy::None, &[], &Listing::default(), &[holder.pid()]);
    assert_eq!(captured.workspace.tree, None);
    assert_eq!(bytes(&captured), 0);
    assert!(listing.entries.contains_key(&table));
    assert!(!listing.entries.contains_key(&log), "a log may grow");
}

#[test]
fn small_files_that_are_read_are_captured_in_the_workspace() {
    let home = Home::new();
    let read = home.write("work/in.txt", "input");
    let holder = Holder::new(&home, File::open(&read).unwrap(), Stdio::null());
    let (_, listing) = home.capture_with(&FilePolicy::Open, &[], &Listing::default(), &[holder.pid()]);
    assert_eq!(home.content_in(&listing, &read).as_deref(), Some(b"input".as_slice()));
}

#[test]
fn the_notebook_is_captured_by_name_and_a_database_with_its_companions() {
    let home = Home::new();
    let notebook = home.write("work/n.ipynb", "{}");
    let database = home.write("elsewhere/d.db", "SQLite format 3\0");
    let wal = home.write("elsewhere/d.db-wal", "log");
    let gone = home.path("work/gone");
    let named = [notebook.clone(), database, gone.clone()];
    let (captured, listing) = home.capture_with(&FilePolicy::Open, &named, &Listing::default(), &[]);
    assert_eq!(home.content_in(&listing, &notebook).as_deref(), Some(b"{}".as_slice()));
    assert_eq!(home.content_in(&listing, &wal).as_deref(), Some(b"log".as_slice()));
    assert!(!listing.entries.contains_key(&gone));
    assert_eq!(captured.not_captured, []);
}

#[test]
fn policy_tree_takes_the_directory_within_patterns_and_bounds() {
    let home = Home::new();
    let kept = home.write("work/src/a.py", "print()");
    home.write("work/cache/x.bin", "x");
    home.write("work/.infinijup/format", "a store");
    let big = home.write("work/z-big.bin", vec![1; 5000]);
    symlink("src/a.py", home.path("work/link")).unwrap();
    let policy =
        FilePolicy::Tree { include: vec![], exclude: vec!["cache".into()], max_bytes: 1000, volumes: vec![] };
    let (captured, listing) = home.capture_with(&policy, &[], &Listing::default(), &[]);
    assert!(home.content_in(&listing, &kept).is_some());
    assert!(matches!(listing.entries[&home.path("work/link")].node, Node::Symlink { .. }));
    assert_eq!(home.content_in(&listing, &big), None);
    assert_eq!(
        reasons(&captured),
        [
            ("cache".into(), "excluded by a pattern".into()),
            ("z-big.bin".into(), "beyond the bound of 1000 bytes".into())
        ]
    );
    assert!(listing.left_out(&home.path("work/cache/x.bin")));
    assert!(listing.entries.keys().all(|path| !path.to_string_lossy().contains(".infinijup")));
}

#[test]
fn what_a_pattern_takes_back_is_captured() {
    let home = Home::new();
    let kept = home.write("work/logs/keep.log", "kept");
    let left = home.write("work/logs/run.log", "left");
    let file = home.write("work/build", "a file, not a directory");
    home.write("work/src/build/x.o", "x");
    let exclude = vec!["*.log".into(), "!keep.log".into(), "build/".into()];
    let policy = FilePolicy::Tree { include: vec![], exclude, max_bytes: 1 << 20, volumes: vec![] };
    let (captured, listing) = home.capture_with(&policy, &[], &Listing::default(), &[]);
    assert!(home.content_in(&listing, &kept).is_some() && home.content_in(&listing, &file).is_some());
    assert_eq!(home.content_in(&listing, &left), None);
    let excluded = |name: &str| (name.into(), "excluded by a pattern".into());
    assert_eq!(reasons(&captured), [excluded("run.log"), excluded("build")]);
}

#[test]
fn what_did_not_change_is_not_read_again() {
    let home = Home::new();
    let file = home.write("work/data", "12345");
    age(&file);
    let mut parent = home.capture_tree();
    // Another content in the parent's entry: if the next capture has it, it did not look at the file.
    let trap = home.capture_named(&[&home.write("elsewhere/trap", "trap!")]);
    parent.entries.get_mut(&file).unwrap().node = trap.entries[&home.path("elsewhere/trap")].node.clone();
    let (_, listing) = home.capture_with(&tree(), &[], &parent, &[]);
    assert_eq!(home.content_in(&listing, &file).as_deref(), Some(b"trap!".as_slice()));
    // The same size, another ctime.
    home.write("work/data", "54321");
    let (_, listing) = home.capture_with(&tree(), &[], &parent, &[]);
    assert_eq!(home.content_in(&listing, &file).as_deref(), Some(b"54321".as_slice()));
}

#[test]
fn a_file_that_changed_a_moment_ago_is_read_again_next_time() {
    let home = Home::new();
    let file = home.write("work/data", "old");
    let fresh = home.capture_tree();
    // Unless this machine took longer than a tick to get here.
    let entry = &fresh.entries[&file];
    let taken_late = entry.ctime.is_some();
    age(&file);
    let aged = home.capture_tree();
    assert!(aged.entries[&file].ctime.is_some());
    assert!(taken_late || entry.ctime.is_none());
}

#[test]
fn holes_are_left_out_of_the_copy_and_come_back_as_zeros() {
    let home = Home::new();
    let path = home.write("work/sparse", "");
    let mut file = File::options().write(true).open(&path).unwrap();
    file.set_len(32 << 20).unwrap();
    file.seek(SeekFrom::Start(20 << 20)).unwrap();
    file.write_all(b"in the middle").unwrap();
    let mut stage = Stage::new(&home.path("staging")).unwrap();
    let facts = super::super::access::facts_of(&file).unwrap();
    let source = File::open(&path).unwrap();
    let copy = stage.copy(&source, facts.size, facts.allocated).unwrap();
    if let Staged::Pieces { pieces, .. } = &copy {
        assert_eq!(pieces.len(), 1, "{pieces:?}");
    }
    let listing = home.capture_tree();
    assert_eq!(home.content_in(&listing, &path).unwrap(), fs::read(&path).unwrap());
}

#[test]
fn a_deleted_file_with_another_name_is_captured_under_the_name_that_criu_gave_it() {
    let home = Home::new();
    let path = home.write("work/data", "still here");
    let holder = Holder::new(&home, Stdio::null(), appending(&path));
    fs::hard_link(&path, home.path("elsewhere/other-name")).unwrap();
    fs::hard_link(&path, home.path("work/link_remap.7")).unwrap();
    home.write("work/link_remap.8", "of another file");
    fs::remove_file(&path).unwrap();
    let (_, listing) = home.capture_with(&FilePolicy::Open, &[], &Listing::default(), &[holder.pid()]);
    let remap = home.path("work/link_remap.7");
    assert_eq!(home.content_in(&listing, &remap).as_deref(), Some(b"still here".as_slice()));
    assert!(!listing.entries.contains_key(&path));
    assert!(!listing.entries.contains_key(&home.path("work/link_remap.8")));
}

#[test]
fn names_that_are_not_what_they_seem_are_refused_and_never_waited_for() {
    let home = Home::new();
    let secret = home.path("secret");
    fs::write(&secret, "root's").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let swapped = home.path("work/swapped");
    symlink(&secret, &swapped).unwrap();
    symlink(home.path(""), home.path("work/dir")).unwrap();
    let fifo = home.path("work/fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RWXU).unwrap();
    let named = [swapped, home.path("work/dir/secret"), fifo, home.path("work/../secret"), home.path("work")];
    let (captured, listing) = home.capture_with(&FilePolicy::Open, &named, &Listing::default(), &[]);
    assert!(listing.files().all(|(_, entry)| content(entry).is_none()), "{listing:?}");
    assert_eq!(bytes(&captured), 0);
    assert!(captured.not_captured.len() >= 3, "{:?}", captured.not_captured);
    // As a part of the directory they are what they are.
    let listing = home.capture_tree();
    assert_eq!(listing.entries[&home.path("work/fifo")].node, Node::Fifo);
    assert!(matches!(listing.entries[&home.path("work/swapped")].node, Node::Symlink { .. }));
    assert!(!listing.entries.contains_key(&home.path("work/dir/secret")));
}

#[test]
fn the_users_rights_decide() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the_users_rights_decide because it needs a second user");
        return;
    }
    let home = Home::new();
    let closed = home.path("work/closed");
    fs::write(&closed, "root's").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    // Open in a process of the user's, for writing only, as a service may hand it over.
    let holder = Holder::new(&home, Stdio::null(), appending(&closed));
    let (captured, listing) = home.capture_with(&FilePolicy::Open, &[], &Listing::default(), &[holder.pid()]);
    assert_eq!(home.content_in(&listing, &closed), None);
    assert_eq!(reasons(&captured), [("closed".to_owned(), "permission denied".to_owned())]);
}

#[test]
fn names_of_any_bytes_and_any_length_are_captured() {
    let home = Home::new();
    let odd = Path::new("work").join(OsStr::from_bytes(b"n\xff\n (deleted)"));
    let odd = home.write(odd, "odd");
    let long = home.write(Path::new("work").join("x".repeat(255)), "long");
    // Deeper than a path can be: made and seen step by step.
    let mut deep = PathBuf::from("work");
    for _ in 0..12 {
        deep.push("d".repeat(255));
    }
    let deep = home.write(deep.join("f"), "deep");
    let holder = Holder::new(&home, Stdio::null(), appending(&odd));
    let (_, listing) = home.capture_with(&tree(), &[], &Listing::default(), &[holder.pid()]);
    for (path, text) in [(&odd, "odd"), (&long, "long"), (&deep, "deep")] {
        assert_eq!(home.content_in(&listing, path).as_deref(), Some(text.as_bytes()), "{path:?}");
    }
    assert_eq!(listing.entries[&odd].ino, Some(fs::metadata(&odd).unwrap().ino()));
}

/// A capture in its parts, with something done in between.
fn in_parts(
    home: &Home,
    parent: &Listing,
    between: impl FnOnce(),
    after: impl FnOnce(),
) -> (Captured, Listing) {
    let (policy, staging) = (tree(), home.path("staging"));
    let request = CaptureRequest {
        user: &home.user,
        places: &home.places,
        policy: &policy,
        named: &[],
        staging: &staging,
        parent,
    };
    let ahead = ahead(&request).unwrap();
    between();
    // The clock of file systems lags behind ours by up to a tick.
    std::thread::sleep(TICK);
    let pending = begin(&request, ahead, &[]).unwrap();
    std::thread::sleep(TICK);
    after();
    home.store_pending(pending)
}

#[test]
fn a_snapshot_has_files_as_they_were_at_its_moment() {
    let home = Home::new();
    let (before, after) = (home.write("work/before", "1"), home.write("work/after", "1"));
    let (same, gone) = (home.write("work/same", "same"), home.write("work/gone", "1"));
    for path in [&before, &after, &same, &gone] {
        age(path);
    }
    let parent = home.capture_tree();
    let (new, late) = (home.path("work/dir/new"), home.path("work/late"));
    let (_, listing) = in_parts(
        &home,
        &parent,
        || {
            home.write("work/before", "2");
            home.write("work/dir/new", "2");
        },
        || {
            home.write("work/after", "3");
            home.write("work/late", "3");
            fs::remove_file(&gone).unwrap();
        },
    );
    let content = |path: &Path| home.content_in(&listing, path);
    assert_eq!(content(&before).as_deref(), Some(b"2".as_slice()), "between the look ahead and the moment");
    assert_eq!(content(&new).as_deref(), Some(b"2".as_slice()));
    assert_eq!(content(&after).as_deref(), Some(b"1".as_slice()), "after the moment");
    assert_eq!(content(&gone).as_deref(), Some(b"1".as_slice()));
    assert_eq!(content(&same).as_deref(), Some(b"same".as_slice()));
    assert_eq!(content(&late), None);
}

#[test]
fn what_is_read_in_place_is_as_it_was_or_left_out() {
    let home = Home::new();
    // More than is copied ahead, without taking room.
    let large = |name: &str| {
        let path = home.write(name, "x");
        File::options().write(true).open(&path).unwrap().set_len(200 << 20).unwrap();
        path
    };
    let (copied, kept, changed) = (large("work/a"), large("work/b"), large("work/c"));
    let (captured, listing) = in_parts(
        &home,
        &Listing::default(),
        || (),
        || {
            for path in [&copied, &changed] {
                fs::write(path, "another").unwrap();
            }
        },
    );
    assert_eq!(listing.content(&copied).map(|blob| blob.len), Some(200 << 20));
    assert_eq!(listing.content(&kept).map(|blob| blob.len), Some(200 << 20));
    assert_eq!(listing.content(&changed), None);
    assert_eq!(reasons(&captured), [("c".to_owned(), "changed while the snapshot was taken".to_owned())]);
}

#[test]
fn which_files_were_open_is_written_down() {
    let home = Home::new();
    let (open, closed) = (home.write("work/open", "x"), home.write("work/closed", "x"));
    let holder = Holder::new(&home, Stdio::null(), appending(&open));
    let (captured, listing) = home.capture_with(&tree(), &[], &Listing::default(), &[holder.pid()]);
    assert_eq!(captured.workspace.open, Some(vec!["open".into()]));
    assert!(listing.needs(&open) && !listing.needs(&closed));
    assert!(
        Listing { open: None, ..listing }.needs(&closed),
        "a snapshot of an earlier version does not say"
    );
}

#[test]
fn a_workspace_is_what_people_work_on() {
    let mut home = Home::new();
    let wanted = ["a.py", "data/b.csv", ".env"].map(|name| home.write(Path::new("work").join(name), "1"));
    for name in
        [".git/HEAD", "venv/bin/python", "sub/__pycache__/a.pyc", "state/store/pack", "web/node_modules/x/y"]
    {
        home.write(Path::new("work").join(name), "2");
    }
    symlink(home.path("work/state/branches/idea"), home.path("work/idea files")).unwrap();
    symlink("/dev/null", home.path("work/null")).unwrap();
    let large = home.write("work/large.bin", "");
    File::options().write(true).open(&large).unwrap().set_len((256 << 20) + 1).unwrap();
    home.places = home.places.clone().without(&home.path("work/state"));
    let (captured, listing) = home.capture_with(&FilePolicy::Workspace, &[], &Listing::default(), &[]);
    let mut found: Vec<_> = listing.files().filter(|(_, entry)| content(entry).is_some()).collect();
    found.sort_by_key(|(path, _)| wanted.iter().position(|name| name == path));
    assert_eq!(found.iter().map(|(path, _)| *path).collect::<Vec<_>>(), wanted);
    let told = reasons(&captured);
    assert!(
        told.iter().any(|(name, why)| name == "large.bin" && why.contains("268435456 bytes")),
        "{told:?}"
    );
    assert!(told.iter().any(|(name, _)| name == "venv") && told.iter().all(|(name, _)| name != "state"));
    assert!(listing.whole_tree && listing.entries.contains_key(&home.path("work/null")));
    assert!(
        !listing.entries.contains_key(&home.path("work/idea files")),
        "it leads to what the daemon keeps"
    );
}

#[test]
fn of_a_home_only_what_lies_directly_in_it_is_taken() {
    let mut home = Home::new();
    let (note, deep) = (home.write("work/note.txt", "1"), home.write("work/Downloads/film.mkv", "2"));
    home.user.home = home.path("work");
    let (captured, listing) = home.capture_with(&FilePolicy::Workspace, &[], &Listing::default(), &[]);
    assert!(listing.content(&note).is_some() && listing.content(&deep).is_none());
    assert_eq!(reasons(&captured), [("Downloads".to_owned(), "excluded by a pattern".to_owned())]);
}
