//! Layers of containers, their owners, and volumes that were chosen.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use super::*;
use crate::capture::{ahead, begin};
use crate::layer::{is_whiteout, says_removed};
use crate::testing::{Home, age, tree};
use crate::{WorkspaceError, access};

const OPAQUE: &str = "trusted.overlay.opaque";

/// A layer of a container. Only root may say in one what it hides.
fn layer() -> Option<Home> {
    if !rustix::process::geteuid().is_root() {
        let required = std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_some_and(|value| value == "1");
        assert!(!required, "only root may set attributes of overlays");
        return None;
    }
    let mut home = Home::new();
    (home.user.uid, home.user.gid, home.user.groups) = (0, 0, vec![0]);
    (home.places.is_layer, home.places.many_owners) = (true, true);
    lchown(home.path("work"), Some(0), Some(0)).unwrap();
    Some(home)
}

/// Everything that is to be overwritten or removed is in this one.
fn automatic(home: &Home) -> Listing {
    home.capture_tree()
}

fn whiteout(path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
}

fn facts(path: &Path) -> access::Facts {
    access::facts_at(CWD, path.as_os_str()).unwrap()
}

fn set(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn hides(path: &Path) -> bool {
    let mut value = [0; 8];
    rustix::fs::lgetxattr(path, OPAQUE, &mut value[..]).is_ok_and(|count| value[..count] == *b"y")
}

/// All that a layer says, by path.
fn said(home: &Home) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut unvisited = vec![home.path("work")];
    while let Some(directory) = unvisited.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            let kind = stat.file_type();
            let (owner, mode) = ((stat.uid(), stat.gid()), stat.mode() & 0o7777);
            found.push((
                path.clone(),
                if kind.is_dir() {
                    unvisited.push(path.clone());
                    format!("directory {owner:?} {mode:o} hides {}", hides(&path))
                } else if kind.is_symlink() {
                    format!("link {owner:?} {:?}", fs::read_link(&path).unwrap())
                } else if kind.is_fifo() {
                    format!("pipe {owner:?} {mode:o}")
                } else if is_whiteout(&facts(&path)) {
                    "removed".to_owned()
                } else {
                    format!("file {owner:?} {mode:o} {:?}", fs::read(&path).unwrap())
                },
            ));
        }
    }
    found.sort();
    found
}

/// Removed names, a directory that hides the image's, and files of several users.
fn furnished() -> Option<Home> {
    let home = layer()?;
    home.write("work/etc/settings", "old");
    whiteout(&home.path("work/etc/removed"));
    home.write("work/opt/tool/bin", "program");
    set(&home.path("work/opt/tool"), OPAQUE, b"y");
    home.write("work/srv/plain/file", "x");
    let run = home.write("work/home/ada/run", "#!");
    lchown(&run, Some(1001), Some(1002)).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o6750)).unwrap();
    symlink("run", home.path("work/home/ada/link")).unwrap();
    lchown(home.path("work/home/ada/link"), Some(1001), Some(1003)).unwrap();
    rustix::fs::mkfifoat(CWD, home.path("work/home/ada/pipe"), Mode::from_raw_mode(0o620)).unwrap();
    lchown(home.path("work/home/ada"), Some(1001), Some(1002)).unwrap();
    fs::set_permissions(home.path("work/home/ada"), fs::Permissions::from_mode(0o2710)).unwrap();
    age(&home.write("work/clock", "tick"));
    Some(home)
}

#[test]
fn a_layer_that_is_gone_is_made_from_nothing_as_it_was() {
    let Some(home) = furnished() else { return };
    let (to, before) = (home.capture_tree(), said(&home));
    assert!(to.not_captured.is_empty(), "{:?}", to.not_captured);
    let removed = &to.entries[&home.path("work/etc/removed")];
    assert!(says_removed(removed) && removed.ino.is_none(), "{removed:?}");
    assert_eq!(to.entries[&home.path("work/opt/tool")].xattrs[0].name.as_bytes(), OPAQUE.as_bytes());
    fs::remove_dir_all(home.path("work")).unwrap();
    fs::create_dir(home.path("work")).unwrap();
    let done = home.put_back(&tree(), &to).run(&Listing::default()).unwrap();
    assert_eq!(done.kept, []);
    assert_eq!(said(&home), before);
    // Again: there is nothing to do.
    let done = home.put_back(&tree(), &to).run(&Listing::default()).unwrap();
    assert_eq!((done.created, done.written, done.removed, done.kept), Default::default());
}

#[test]
fn what_a_layer_says_of_its_image_goes_back_with_its_files() {
    let Some(home) = furnished() else { return };
    let (to, before) = (home.capture_tree(), said(&home));
    // A file of the image is there again; others, and directories, are removed; one hides what it did not and the other way round.
    fs::remove_file(home.path("work/etc/removed")).unwrap();
    home.write("work/etc/removed", "there again");
    fs::remove_file(home.path("work/etc/settings")).unwrap();
    whiteout(&home.path("work/etc/settings"));
    whiteout(&home.path("work/etc/of-the-image"));
    fs::remove_dir_all(home.path("work/home")).unwrap();
    whiteout(&home.path("work/home"));
    rustix::fs::lremovexattr(home.path("work/opt/tool"), OPAQUE).unwrap();
    set(&home.path("work/srv/plain"), OPAQUE, b"y");
    home.write("work/usr/share/new/deep/file", "since");
    set(&home.path("work/usr/share"), OPAQUE, b"y");
    symlink("/nowhere", home.path("work/usr/link")).unwrap();
    fs::create_dir(home.path("work/var")).unwrap();
    set(&home.path("work/var"), OPAQUE, b"y");
    let changed = said(&home);
    let put_back = |policy: &FilePolicy, automatic: &Listing| {
        let put_back = home.put_back(policy, &to);
        assert_eq!(put_back.plan().unwrap().blocked, []);
        put_back.run(automatic).unwrap()
    };
    age(&home.write("work/clock", "tick"));
    let automatic = automatic(&home);
    let done = put_back(&tree(), &automatic);
    assert_eq!(done.kept, []);
    assert_eq!(said(&home), before);
    // And to where it was a moment before.
    let again = self::automatic(&home);
    let done = home.put_back(&tree(), &automatic).run(&again).unwrap();
    assert_eq!((done.kept, said(&home)), (Vec::new(), changed));
}

#[test]
fn nothing_of_a_layer_goes_that_no_snapshot_has() {
    let Some(home) = furnished() else { return };
    let to = home.capture_tree();
    fs::remove_file(home.path("work/etc/removed")).unwrap();
    let work = ["etc/removed", "usr/new/file"].map(|name| home.write(format!("work/{name}"), "only here"));
    whiteout(&home.path("work/etc/other"));
    symlink("/nowhere", home.path("work/usr/link")).unwrap();
    set(&home.path("work/usr/new"), OPAQUE, b"y");
    let before = said(&home);
    let done = home.put_back(&tree(), &to).run(&to).unwrap();
    assert_eq!(said(&home), before);
    assert!(done.removed.is_empty());
    let kept: Vec<&PathBuf> = done.kept.iter().map(|(path, _)| path).collect();
    for path in work.iter().chain([&home.path("work/etc/other"), &home.path("work/usr/link")]) {
        assert!(kept.contains(&path), "{path:?}: {kept:?}");
    }
    // In a copy nothing can be lost.
    let done = home.put_back(&tree(), &to).run_in_copy().unwrap();
    assert_eq!(done.kept, []);
    assert!(!home.path("work/usr").exists() && is_whiteout(&facts(&home.path("work/etc/removed"))));
}

#[test]
fn without_the_whole_layer_only_what_is_in_the_way_goes() {
    let Some(home) = furnished() else { return };
    let settings = home.path("work/etc/settings");
    let to = home.capture_named(&[&settings]);
    fs::remove_dir_all(home.path("work/etc")).unwrap();
    for name in ["work/etc", "work/media"] {
        whiteout(&home.path(name));
    }
    let put_back = home.put_back(&FilePolicy::Open, &to);
    assert_eq!(put_back.plan().unwrap().create, [settings.as_path()]);
    assert_eq!(put_back.run(&Listing::default()).unwrap().kept, []);
    assert_eq!(fs::read(&settings).unwrap(), b"old");
    assert!(is_whiteout(&facts(&home.path("work/media"))));
}

#[test]
fn what_lies_in_the_image_is_named_and_not_carried_over() {
    let Some(home) = furnished() else { return };
    let partly = home.write("work/etc/partly", vec![0; 100]);
    set(&partly, "trusted.overlay.metacopy", b"");
    home.write("work/moved/here/file", "x");
    set(&home.path("work/moved"), "trusted.overlay.redirect", b"/elsewhere");
    let to = home.capture_tree();
    assert_eq!(to.content(&partly), None);
    assert!(!to.entries.contains_key(&home.path("work/moved/here/file")));
    let left_out: BTreeSet<&PathBuf> = to.not_captured.iter().collect();
    assert_eq!(left_out, BTreeSet::from([&partly, &home.path("work/moved")]));
    // They stay what they are.
    let before = said(&home);
    home.put_back(&tree(), &to).run(&automatic(&home)).unwrap();
    assert_eq!(said(&home), before);
}

#[test]
fn what_is_removed_between_the_first_look_and_the_moment_is_seen() {
    let Some(home) = furnished() else { return };
    let staging = home.path("staging");
    let (policy, parent) = (tree(), Listing::default());
    let request = home.request(&policy, &staging, &parent);
    let first = ahead(&request).unwrap();
    let (settings, removed) = (home.path("work/etc/settings"), home.path("work/etc/removed"));
    fs::remove_file(&settings).unwrap();
    whiteout(&settings);
    fs::remove_file(&removed).unwrap();
    home.write("work/etc/removed/file", "in a directory now");
    set(&removed, OPAQUE, b"y");
    fs::remove_dir_all(home.path("work/opt")).unwrap();
    whiteout(&home.path("work/opt"));
    age(&settings);
    let (_, to) = home.store_pending(begin(&request, first, &[]).unwrap());
    assert!(says_removed(&to.entries[&settings]) && says_removed(&to.entries[&home.path("work/opt")]));
    assert!(!to.entries.contains_key(&home.path("work/opt/tool/bin")));
    assert_eq!(home.content_in(&to, &removed.join("file")).unwrap(), b"in a directory now");
    assert_eq!(to.entries[&removed].xattrs.len(), 1);
}

#[test]
fn an_owner_comes_back_also_where_the_bytes_stayed() {
    let Some(home) = furnished() else { return };
    let (to, before) = (home.capture_tree(), said(&home));
    let run = home.path("work/home/ada/run");
    let inode = fs::metadata(&run).unwrap().ino();
    lchown(&run, Some(0), Some(0)).unwrap();
    fs::write(home.path("work/etc/settings"), "new").unwrap();
    lchown(home.path("work/etc/settings"), Some(1001), Some(1001)).unwrap();
    lchown(home.path("work/home"), Some(7), Some(7)).unwrap();
    let automatic = automatic(&home);
    let done = home.put_back(&tree(), &to).run(&automatic).unwrap();
    assert_eq!((done.kept, said(&home)), (Vec::new(), before));
    assert_eq!(fs::metadata(&run).unwrap().ino(), inode);
    // Nobody is given a file that has another name by then.
    lchown(&run, Some(0), Some(0)).unwrap();
    fs::hard_link(&run, home.path("elsewhere/somebodys")).unwrap();
    let done = home.put_back(&tree(), &to).run(&automatic).unwrap();
    assert!(
        done.kept.iter().any(|(path, why)| *path == run && why.contains("another name")),
        "{:?}",
        done.kept
    );
    assert_eq!(fs::metadata(&run).unwrap().uid(), 0);
}

#[test]
fn where_one_user_lives_owners_and_devices_are_left_alone() {
    let Some(mut home) = furnished() else { return };
    (home.places.is_layer, home.places.many_owners) = (false, false);
    let to = home.capture_tree();
    assert!(to.not_captured.contains(&home.path("work/etc/removed")));
    assert!(to.entries.values().all(|entry| entry.xattrs.is_empty()));
    let run = home.path("work/home/ada/run");
    lchown(&run, Some(5), Some(5)).unwrap();
    home.put_back(&tree(), &to).run(&automatic(&home)).unwrap();
    assert_eq!(fs::metadata(&run).unwrap().uid(), 5);
}

/// A container's, with a volume of which everything belongs to a snapshot, and one that does not.
fn with_volumes() -> (Home, FilePolicy) {
    let mut home = Home::new();
    let (chosen, other) = (home.path("elsewhere/chosen"), home.path("elsewhere/other"));
    for name in ["kept", "changed", "removed", "sub/deep", "cache/deep"] {
        home.write(format!("elsewhere/chosen/{name}"), name);
    }
    home.write("elsewhere/other/file", "of others");
    home.write("work/own", "own");
    // What the image has there is hidden.
    home.write("work/data/hidden", "hidden");
    home.places.workspace = Some(("/".into(), home.path("work")));
    home.places.mapped = vec![
        ("/data".into(), chosen.clone()),
        ("/other".into(), other),
        ("/data/cache".into(), chosen.join("cache")),
    ];
    let FilePolicy::Tree { include, exclude, max_bytes, .. } = tree() else { unreachable!() };
    (home, FilePolicy::Tree { include, exclude, max_bytes, volumes: vec!["/data".into()] })
}

#[test]
fn a_chosen_volume_is_a_tree_like_the_workspace() {
    let (home, policy) = with_volumes();
    let capture = || home.capture_with(&policy, &[], &Listing::default(), &[]);
    let (captured, to) = capture();
    assert_eq!(to.volumes, [PathBuf::from("/data")]);
    assert!(captured.outside.tree.is_some());
    for (path, is_in) in
        [("/data/kept", true), ("/own", true), ("/data/cache/deep", false), ("/other/file", false)]
    {
        assert_eq!(to.content(Path::new(path)).is_some(), is_in, "{path}");
    }
    let here = |name: &str| home.path(format!("elsewhere/chosen/{name}"));
    fs::write(here("changed"), "since").unwrap();
    fs::remove_file(here("removed")).unwrap();
    fs::remove_dir_all(here("sub")).unwrap();
    for name in ["new/deep/file", "cache/new"] {
        home.write(format!("elsewhere/chosen/{name}"), "new");
    }
    home.write("elsewhere/other/new", "new");
    age(&home.write("work/clock", "tick"));
    let put_back = home.put_back(&policy, &to);
    let plan = put_back.plan().unwrap();
    assert!(
        plan.remove.contains(&"/data/new/deep/file".into()) && plan.write.contains(&"/data/changed".into())
    );
    // Without a snapshot that has it, what is new stays.
    let (_, automatic) = capture();
    let done = put_back.run(&Listing { entries: to.entries.clone(), ..Listing::default() }).unwrap();
    assert!(here("new/deep/file").exists() && done.kept.len() == 2, "{:?}", done.kept);
    let done = put_back.run(&automatic).unwrap();
    assert_eq!(done.kept, []);
    for (name, content) in
        [("kept", "kept"), ("changed", "changed"), ("removed", "removed"), ("sub/deep", "sub/deep")]
    {
        assert_eq!(fs::read_to_string(here(name)).unwrap(), content);
    }
    assert!(!here("new").exists() && here("cache/new").exists());
    assert!(home.path("elsewhere/other/new").exists() && home.path("work/data/hidden").exists());
    // A volume that loses its last file stays: it is mounted.
    let empty = Listing { entries: Default::default(), ..to.clone() };
    let (_, automatic) = capture();
    home.put_back(&policy, &empty).run(&automatic).unwrap();
    assert!(here("").exists() && !here("kept").exists());
}

#[test]
fn what_was_in_a_volume_that_is_gone_is_not_put_into_the_layer() {
    let (mut home, policy) = with_volumes();
    let to = home.capture_with(&policy, &[], &Listing::default(), &[]).1;
    home.places.mapped.clear();
    let none = policy.with_volumes(&[], &home.places);
    assert!(none.volumes().is_empty());
    home.put_back(&none, &to).run(&home.capture_with(&none, &[], &Listing::default(), &[]).1).unwrap();
    assert!(!home.path("work/data/kept").exists());
}

#[test]
fn a_directory_with_a_volume_in_it_is_not_taken_over() {
    let (mut home, _) = with_volumes();
    let kept = home.write("elsewhere/small/kept", "kept");
    home.write("work/srv/plain", "plain");
    home.places.mapped.push(("/srv/data".into(), kept.parent().unwrap().to_owned()));
    age(&home.write("work/clock", "tick"));
    // At first it has just a file that is open; then the volume is chosen, which has no other.
    let known = home.capture_with(&tree(), &["/srv/data/kept".into()], &Listing::default(), &[]).0.listing;
    let FilePolicy::Tree { include, exclude, max_bytes, .. } = tree() else { unreachable!() };
    let policy = FilePolicy::Tree { include, exclude, max_bytes, volumes: vec!["/srv/data".into()] };
    let (captured, _) = home.capture_with(&policy, &[], &known, &[]);
    let (anew, _) = home.capture_with(&policy, &[], &Listing::default(), &[]);
    assert_eq!(captured.workspace.tree, anew.workspace.tree);
    assert_eq!(captured.outside, anew.outside);
}

#[test]
fn all_of_it_together_has_a_bound_and_a_volume_that_is_none_is_refused() {
    let (home, _) = with_volumes();
    let policy = |volume: &str, max_bytes| FilePolicy::Tree {
        include: Vec::new(),
        exclude: Vec::new(),
        max_bytes,
        volumes: vec![volume.into()],
    };
    let to = home.capture_with(&policy("/data", 10), &[], &Listing::default(), &[]).1;
    assert!(to.content(Path::new("/own")).is_some() && to.content(Path::new("/data/sub/deep")).is_none());
    assert!(!to.not_captured.is_empty());
    let (policy, staging) = (policy("/data/sub", 10), home.path("staging"));
    let error = ahead(&home.request(&policy, &staging, &Listing::default())).unwrap_err();
    assert!(matches!(error, WorkspaceError::Volume { .. }), "{error}");
}
