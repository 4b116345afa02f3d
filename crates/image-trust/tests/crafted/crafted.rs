//! Each test changes one thing in honest images and sees that they are refused, by name, before CRIU is asked at all.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use image_trust::{TrustError, check_images};

use crate::scene::Scene;
use crate::wire::{Fields, Raw, at, edit};

/// Refused, and one of the reasons has `words` in it.
#[track_caller]
fn refused(scene: &Scene, words: &str) {
    match check_images(&scene.images, &scene.user) {
        Err(TrustError::Refused { uid, findings }) => {
            assert_eq!(uid, scene.user.uid);
            assert!(findings.iter().any(|finding| finding.contains(words)), "no `{words}` in {findings:?}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

fn image(scene: &Scene, stem: &str, change: impl FnOnce(&mut Vec<Fields>)) {
    edit(&scene.images.join(format!("{stem}.img")), change);
}

/// The image of this kind that is of the first process.
fn of_first(scene: &Scene, kind: &str) -> String {
    format!("{kind}-{}", scene.root)
}

/// The credentials of the first process.
fn creds(scene: &Scene, change: impl FnOnce(&mut Fields)) {
    image(scene, &of_first(scene, "core"), |entries| change(at(&mut entries[0], &[5, 10])));
}

/// Every entry of a plain file with this path.
fn file(scene: &Scene, path: impl AsRef<Path>, change: impl Fn(&mut Fields)) {
    let path = path.as_ref().to_str().unwrap();
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
    check_images(&scene.images, &scene.user).unwrap();
}

#[test]
fn an_added_group() {
    let Some(scene) = Scene::dumped("an added group") else { return };
    creds(&scene, |creds| creds.add(14, 0));
    refused(&scene, "is in group 0");
}

#[test]
fn a_second_thread_that_is_root() {
    let Some(scene) = Scene::dumped("a second thread that is root") else { return };
    let threads: Vec<String> = fs::read_dir(&scene.images)
        .unwrap()
        .filter_map(|entry| {
            entry.unwrap().file_name().into_string().ok()?.strip_suffix(".img").map(str::to_owned)
        })
        .filter(|stem| stem.starts_with("core-") && *stem != of_first(&scene, "core"))
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
    image(&scene, &of_first(&scene, "core"), |entries| {
        at(&mut entries[0], &[5]).0.retain(|(field, _)| *field != 10)
    });
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
    file(&scene, scene.path("own/out"), |file| {
        file.put_text(6, home.join("diary").to_str().unwrap());
    });
    refused(&scene, "is in a directory that the user may not enter");
    // and through a link of the user's own
    let Some(scene) = Scene::dumped("a path through a link") else { return };
    symlink(&home, scene.path("own/way")).unwrap();
    file(&scene, scene.path("own/out"), |file| {
        file.put_text(6, scene.path("own/way/diary").to_str().unwrap())
    });
    refused(&scene, "symbolic link");
}

#[test]
fn a_file_that_is_written_to_and_is_somebody_elses() {
    let Some(scene) = Scene::dumped("a file that is written to") else { return };
    file(&scene, scene.path("own/out"), |file| {
        file.put_text(6, "/etc/passwd");
    });
    refused(&scene, "may write to");
    file(&scene, "/etc/passwd", |file| file.put(2, 0o101));
    refused(&scene, "created or emptied");
    file(&scene, "/etc/passwd", |file| file.put_text(6, "/run/../etc/passwd"));
    refused(&scene, "not a plain path");
}

#[test]
fn kernel_files_that_only_root_opens() {
    let Some(scene) = Scene::dumped("kernel files") else { return };
    file(&scene, "/proc/meminfo", |file| {
        file.put_text(6, "/proc/sys/kernel/core_pattern");
        file.put(2, 1);
    });
    refused(&scene, "may write to");
    file(&scene, "/proc/sys/kernel/core_pattern", |file| {
        file.put_text(6, "/proc/1/root/etc/shadow");
        file.put(2, 0);
    });
    refused(&scene, "`/proc/1/root/etc/shadow`");
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
    let mut exe = String::new();
    image(&scene, &of_first(&scene, "mm"), |entries| {
        let id = entries[0].number(12).unwrap();
        image(&scene, "files", |files| {
            let entry = files.iter_mut().find(|entry| entry.number(2) == Some(id)).unwrap();
            exe = at(entry, &[3]).text(6);
        });
    });
    file(&scene, &exe, |file| {
        file.put_text(6, program.to_str().unwrap());
    });
    refused(&scene, "set-user-id");
}

#[test]
fn namespaces_and_mounts() {
    let Some(scene) = Scene::dumped("namespaces and mounts") else { return };
    let ids = of_first(&scene, "ids");
    let mut honest = Vec::new();
    image(&scene, &ids, |entries| honest.clone_from(entries));
    for (field, kind) in [(5, "pid"), (6, "network"), (7, "ipc"), (9, "mount"), (10, "user")] {
        image(&scene, &ids, |entries| {
            entries.clone_from(&honest);
            entries[0].put(field, 99);
        });
        refused(&scene, &format!("foreign {kind} namespace"));
    }
    image(&scene, &ids, |entries| entries.clone_from(&honest));
    check_images(&scene.images, &scene.user).unwrap();
    // It lives with the machine's mounts, so it brings none.
    let empty: Vec<u8> =
        [0x5456_4319_u32, 0x5556_3928].iter().flat_map(|magic| magic.to_le_bytes()).collect();
    fs::write(scene.images.join("mountpoints-12.img"), empty).unwrap();
    refused(&scene, "there is a mountpoints image");
}

#[test]
fn a_device_node() {
    let Some(scene) = Scene::dumped("a device node") else { return };
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    // open, in a place of the user's own
    let node = scene.path("own/mem");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &node,
        rustix::fs::FileType::CharacterDevice,
        mode,
        rustix::fs::makedev(1, 1),
    )
    .unwrap();
    file(&scene, scene.path("own/out"), |file| file.put_text(6, node.to_str().unwrap()));
    refused(&scene, "device that no session has");
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
    image(&scene, &of_first(&scene, "core"), |entries| {
        at(&mut entries[0], &[5]).put(4, 1);
        at(&mut entries[0], &[3]).put(13, 0);
        at(&mut entries[0], &[3]).put(3, 0x10_0000);
    });
    for words in ["real-time", "login uid 0", "personality"] {
        refused(&scene, words);
    }
    image(&scene, &of_first(&scene, "mm"), |entries| at(&mut entries[0], &[14]).put(1, 0));
    refused(&scene, "maps memory at 0x0");
    image(&scene, "memfd", |entries| entries[0].put(2, 0));
    refused(&scene, "shared memory");
    symlink("/", scene.images.join("parent")).unwrap();
    refused(&scene, "parent is not a plain file");
    fs::write(scene.images.join("userns-7.img"), b"").unwrap();
    refused(&scene, "userns-7.img is a kind of image");
}
