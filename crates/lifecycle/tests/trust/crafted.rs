//! Each test changes one thing in honest images and sees that they are refused, by name, before CRIU is asked at all.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use lifecycle::LifecycleError;
use lifecycle::trust::check_images;
use sandbox::DeviceNode;

use crate::scene::Scene;
use crate::wire::{Fields, Raw, at, edit};

/// Refused, and one of the reasons has `words` in it.
#[track_caller]
fn refused(scene: &Scene, words: &str) {
    match check_images(&scene.images, &scene.user, &scene.expected) {
        Err(LifecycleError::Untrusted { uid, findings }) => {
            assert_eq!(uid, scene.user.uid);
            assert!(findings.iter().any(|finding| finding.contains(words)), "no `{words}` in {findings:?}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

fn image(scene: &Scene, stem: &str, change: impl FnOnce(&mut Vec<Fields>)) {
    edit(&scene.images.join(format!("{stem}.img")), change);
}

/// The credentials of the first process.
fn creds(scene: &Scene, change: impl FnOnce(&mut Fields)) {
    image(scene, "core-1", |entries| change(at(&mut entries[0], &[5, 10])));
}

/// Every entry of a plain file with this path.
fn file(scene: &Scene, path: &str, change: impl Fn(&mut Fields)) {
    let mut found = false;
    image(scene, "files", |entries| {
        for entry in entries.iter_mut().filter(|entry| entry.number(1) == Some(1)) {
            let regular = at(entry, &[3]);
            if regular.text(6) == path {
                change(regular);
                found = true;
            }
        }
    });
    assert!(found, "`{path}` is not open");
}

/// The only image whose name begins like this.
fn stem_of(scene: &Scene, start: &str) -> String {
    let names =
        fs::read_dir(&scene.images).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found = names.filter(|name| name.starts_with(start)).min().unwrap_or_else(|| panic!("no {start}"));
    found.strip_suffix(".img").unwrap().to_owned()
}

#[test]
fn user_zero() {
    let Some(scene) = Scene::dumped("user zero") else { return };
    creds(&scene, |creds| creds.put(1, 0));
    refused(&scene, "has uid 0");
    // CRIU would take 2^32 for 0, and the last of two values
    creds(&scene, |creds| creds.put(1, 1 << 32));
    refused(&scene, "wrong form");
    creds(&scene, |creds| {
        creds.put(1, scene.user.uid.into());
        creds.add(1, 0);
    });
    refused(&scene, "twice");
    creds(&scene, |creds| {
        creds.put(1, scene.user.uid.into());
        creds.put(7, 0);
    });
    refused(&scene, "file system uid 0");
}

#[test]
fn added_capabilities() {
    let Some(scene) = Scene::dumped("added capabilities") else { return };
    for (field, name) in [(9, "inheritable"), (10, "permitted"), (11, "effective"), (19, "ambient")] {
        creds(&scene, |creds| creds.put(field, 1 << 21));
        refused(&scene, name);
        creds(&scene, |creds| creds.put(field, 0));
    }
    check_images(&scene.images, &scene.user, &scene.expected).unwrap();
}

#[test]
fn an_added_group() {
    let Some(scene) = Scene::dumped("an added group") else { return };
    creds(&scene, |creds| creds.add(14, 0));
    refused(&scene, "is in group 0");
}

#[test]
fn no_new_privs_cleared() {
    let Some(scene) = Scene::dumped("no_new_privs cleared") else { return };
    creds(&scene, |creds| creds.put(18, 0));
    refused(&scene, "may gain privileges");
}

#[test]
fn a_second_thread_that_is_root() {
    let Some(scene) = Scene::dumped("a second thread that is root") else { return };
    let threads: Vec<String> = fs::read_dir(&scene.images)
        .unwrap()
        .filter_map(|entry| {
            entry.unwrap().file_name().into_string().ok()?.strip_suffix(".img").map(str::to_owned)
        })
        .filter(|stem| stem.starts_with("core-") && stem != "core-1")
        .collect();
    let mut changed = 0;
    for stem in threads {
        image(&scene, &stem, |entries| {
            // one that has ended has no credentials
            if entries[0].0.iter().any(|(field, _)| *field == 5)
                && at(&mut entries[0], &[5]).0.iter().any(|(field, _)| *field == 10)
            {
                at(&mut entries[0], &[5, 10]).put(3, 0);
                changed += 1;
            }
        });
    }
    assert!(changed >= 2, "a thread and a child");
    refused(&scene, "effective uid 0");
    image(&scene, "core-1", |entries| at(&mut entries[0], &[5]).0.retain(|(field, _)| *field != 10));
    refused(&scene, "would stay root");
}

#[test]
fn a_path_in_anothers_home() {
    let Some(scene) = Scene::dumped("a path in another's home") else { return };
    // somebody's home: closed to our user, with a file that is readable in itself
    let home = scene.path("home");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(home.join("diary"), b"x").unwrap();
    let root = at_root(&scene);
    file(&scene, "/run/infinijup-box/out", |file| {
        file.put_text(6, home.join("diary").to_str().unwrap());
        file.put(7, root);
    });
    refused(&scene, "is in a directory that the user may not enter");
    // and through a link of the user's own
    let Some(scene) = Scene::dumped("a path through a link") else { return };
    symlink(&home, scene.path("box/way")).unwrap();
    file(&scene, "/run/infinijup-box/out", |file| file.put_text(6, "/run/infinijup-box/way/diary"));
    refused(&scene, "symbolic link");
}

/// The number of the root mount, as file entries have it (zigzag).
fn at_root(scene: &Scene) -> u64 {
    let mut id = 0;
    image(scene, &stem_of(scene, "mountpoints-"), |mounts| {
        id = mounts.iter().find(|mount| mount.text(7) == "/").and_then(|mount| mount.number(2)).unwrap();
    });
    id * 2
}

#[test]
fn a_file_that_is_written_to_and_is_somebody_elses() {
    let Some(scene) = Scene::dumped("a file that is written to") else { return };
    let root = at_root(&scene);
    file(&scene, "/run/infinijup-box/out", |file| {
        file.put_text(6, "/etc/passwd");
        file.put(7, root);
    });
    refused(&scene, "may write to");
    file(&scene, "/etc/passwd", |file| file.put(2, 0o101));
    refused(&scene, "created or emptied");
    file(&scene, "/etc/passwd", |file| file.put_text(6, "/run/infinijup-box/../../etc/passwd"));
    refused(&scene, "not a plain path");
}

#[test]
fn kernel_files_that_only_root_writes() {
    let Some(scene) = Scene::dumped("kernel files") else { return };
    file(&scene, "/proc/meminfo", |file| {
        file.put_text(6, "/proc/sys/kernel/core_pattern");
        file.put(2, 1);
    });
    refused(&scene, "would be written to as root");
    file(&scene, "/proc/sys/kernel/core_pattern", |file| {
        file.put_text(6, "/proc/1/root/etc/shadow");
        file.put(2, 0);
    });
    refused(&scene, "nothing that a session holds open");
    file(&scene, "/proc/1/root/etc/shadow", |file| file.put_text(6, "/proc/kmsg"));
    refused(&scene, "may read");
}

#[test]
fn a_setuid_mapping() {
    let Some(scene) = Scene::dumped("a setuid mapping") else { return };
    let program = scene.path("su");
    fs::copy("/bin/true", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(scene.path(""), fs::Permissions::from_mode(0o711)).unwrap();
    let root = at_root(&scene);
    let mut exe = String::new();
    image(&scene, "mm-1", |entries| {
        let id = entries[0].number(12).unwrap();
        image(&scene, "files", |files| {
            let entry = files.iter_mut().find(|entry| entry.number(2) == Some(id)).unwrap();
            exe = at(entry, &[3]).text(6);
        });
    });
    file(&scene, &exe, |file| {
        file.put_text(6, program.to_str().unwrap());
        file.put(7, root);
    });
    refused(&scene, "set-user-id");
}

#[test]
fn a_foreign_namespace() {
    let Some(scene) = Scene::dumped("a foreign namespace") else { return };
    // the mount namespace of the machine, whose number the inventory has
    let mut ours = 0;
    image(&scene, "inventory", |entries| ours = at(&mut entries[0], &[3]).number(9).unwrap());
    image(&scene, "ids-1", |entries| entries[0].put(9, ours));
    refused(&scene, "in the mount namespace of the machine");
    let Some(scene) = Scene::dumped("a foreign user namespace") else { return };
    image(&scene, "ids-1", |entries| entries[0].put(10, 99));
    refused(&scene, "foreign user namespace");
    let Some(scene) = Scene::dumped("a foreign network") else { return };
    image(&scene, &stem_of(&scene, "netns-"), |entries| entries[0].put_text(8, "other"));
    refused(&scene, "not the session's network");
}

#[test]
fn extra_mounts() {
    let Some(scene) = Scene::dumped("extra mounts") else { return };
    let stem = stem_of(&scene, "mountpoints-");
    let mut honest = Vec::new();
    image(&scene, &stem, |mounts| honest.clone_from(mounts));
    let shm = honest.iter().position(|mount| mount.text(7) == "/dev/shm").unwrap();
    let with = |change: &dyn Fn(&mut Fields), words: &str| {
        image(&scene, &stem, |mounts| {
            mounts.clone_from(&honest);
            change(&mut mounts[shm]);
        });
        refused(&scene, words);
    };
    with(&|mount| mount.put_text(18, "etc"), "external key `etc` that nobody gave");
    with(&|mount| mount.put_text(18, "box"), "not where this external mount belongs");
    with(&|mount| mount.put(1, 17), "kind (17) that no session has");
    with(&|mount| mount.put_text(7, "/etc"), "not where a session has one");
    with(&|mount| mount.put_text(6, "/secret"), "of another mount");
    with(&|mount| mount.put(12, 1), "plugin");
    with(&|mount| mount.put(10, 7), "shared with others");
    with(&|mount| mount.put(99, 1), "not known here");
}

#[test]
fn a_device_node() {
    let Some(scene) = Scene::dumped("a device node") else { return };
    // in the archive of the session's /dev
    let directory = scene.path("dev");
    fs::create_dir(&directory).unwrap();
    let disk = rustix::fs::makedev(8, 0);
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        directory.join("sda"),
        rustix::fs::FileType::BlockDevice,
        mode,
        disk,
    )
    .unwrap();
    let archive = scene.images.join(format!("{}.img", stem_of(&scene, "tmpfs-dev-")));
    let honest = fs::read(&archive).unwrap();
    let packed = std::process::Command::new("tar")
        .args(["--create", "--gzip", "--numeric-owner", "--directory"])
        .args([&directory, std::path::Path::new("--file"), &archive, std::path::Path::new(".")])
        .status();
    assert!(packed.unwrap().success());
    refused(&scene, "device 8:0");
    fs::write(&archive, honest).unwrap();
    check_images(&scene.images, &scene.user, &scene.expected).unwrap();
    // and as a file that is open, in a place of the user's own
    let node = scene.path("box/mem");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &node,
        rustix::fs::FileType::CharacterDevice,
        mode,
        rustix::fs::makedev(1, 1),
    )
    .unwrap();
    file(&scene, "/run/infinijup-box/out", |file| file.put_text(6, "/run/infinijup-box/mem"));
    refused(&scene, "device that no session has");
}

#[test]
fn a_node_of_a_gpu_that_is_something_else() {
    let Some(mut scene) = Scene::dumped("a node of a GPU that is something else") else { return };
    let gpu = DeviceNode { name: "nvidia0".to_owned(), major: 195, minor: 0 };
    let archive = scene.images.join(format!("{}.img", stem_of(&scene, "tmpfs-dev-")));
    let directory = scene.path("dev");
    fs::create_dir(&directory).unwrap();
    let with = |kind: rustix::fs::FileType, major: u32, minor: u32| {
        let node = directory.join("nvidia0");
        let _ = fs::remove_file(&node);
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        let number = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(rustix::fs::CWD, &node, kind, mode, number).unwrap();
        let packed = std::process::Command::new("tar")
            .args(["--create", "--gzip", "--numeric-owner", "--directory"])
            .args([&directory, std::path::Path::new("--file"), &archive, std::path::Path::new(".")])
            .status();
        assert!(packed.unwrap().success());
    };
    with(rustix::fs::FileType::CharacterDevice, 195, 0);
    refused(&scene, "device 195:0");
    scene.expected.devices = vec![gpu];
    check_images(&scene.images, &scene.user, &scene.expected).unwrap();
    with(rustix::fs::FileType::CharacterDevice, 195, 1);
    refused(&scene, "device 195:1");
    with(rustix::fs::FileType::BlockDevice, 8, 0);
    refused(&scene, "device 8:0");
    with(rustix::fs::FileType::BlockDevice, 195, 0);
    refused(&scene, "device 195:0");
}

#[test]
fn a_ghost_file_with_setuid_root() {
    let Some(scene) = Scene::dumped("a ghost file with setuid root") else { return };
    let stem = stem_of(&scene, "ghost-file-");
    image(&scene, &stem, |entries| entries[0].put(3, 0o104_755));
    refused(&scene, "set-user-id");
    image(&scene, &stem, |entries| {
        entries[0].put(3, 0o100_600);
        entries[0].put(1, 0);
    });
    refused(&scene, "belongs to somebody else");
    // a ghost is made, for a moment, where its path says: not among the jobs of cron
    let root = at_root(&scene);
    let mut path = String::new();
    image(&scene, "remap-fpath", |remaps| {
        let id = remaps.iter().find(|remap| remap.number(3) == Some(1)).and_then(|remap| remap.number(1));
        image(&scene, "files", |files| {
            let entry = files.iter_mut().find(|entry| entry.number(2) == id).unwrap();
            path = at(entry, &[3]).text(6);
        });
    });
    file(&scene, &path, |file| {
        file.put_text(6, "/etc/job");
        file.put(7, root);
    });
    refused(&scene, "directory that the user may not write to");
}

#[test]
fn sockets_that_only_root_has() {
    let Some(scene) = Scene::dumped("sockets that only root has") else { return };
    let mut honest = Vec::new();
    image(&scene, "files", |files| honest.clone_from(files));
    let with = |kind: u64, field: u32, change: &dyn Fn(&mut Fields), words: &str| {
        image(&scene, "files", |files| {
            files.clone_from(&honest);
            change(at(files.iter_mut().find(|file| file.number(1) == Some(kind)).unwrap(), &[field]));
        });
        refused(&scene, words);
    };
    with(4, 4, &|socket| socket.put(4, 3), "socket of type 3");
    with(4, 4, &|socket| at(socket, &[14]).put(10, 7), "a mark");
    with(5, 16, &|socket| socket.put(6, 1), "outside of the session");
    with(5, 16, &|socket| socket.put_text(11, "/etc/passwd"), "directory that the user may not write to");
    with(1, 3, &|file| at(file, &[5]).put(5, 1), "signals with the rights of somebody else");
    // kinds that are refused by not being known: a packet socket, a BPF map, fanotify
    for field in [6, 21, 14] {
        image(&scene, "files", |files| {
            files.clone_from(&honest);
            files.push(Fields(vec![
                (1, Raw::Number(10)),
                (2, Raw::Number(900)),
                (field, Raw::Bytes(Vec::new())),
            ]));
        });
        refused(&scene, "not known here");
    }
}

#[test]
fn what_the_rest_of_the_process_would_gain() {
    let Some(scene) = Scene::dumped("what the rest of the process would gain") else { return };
    image(&scene, "core-1", |entries| {
        at(&mut entries[0], &[5]).put(4, 1);
        at(&mut entries[0], &[3]).put(13, 0);
        at(&mut entries[0], &[3]).put(3, 0x10_0000);
    });
    for words in ["real-time", "login uid 0", "personality"] {
        refused(&scene, words);
    }
    image(&scene, "mm-1", |entries| at(&mut entries[0], &[14]).put(1, 0));
    refused(&scene, "maps memory at 0x0");
    image(&scene, "memfd", |entries| entries[0].put(2, 0));
    refused(&scene, "shared memory");
    symlink("/", scene.images.join("parent")).unwrap();
    refused(&scene, "parent is not a plain file");
    fs::write(scene.images.join("userns-7.img"), b"").unwrap();
    refused(&scene, "userns-7.img is a kind of image");
}
