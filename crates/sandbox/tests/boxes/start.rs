//! How boxes begin and end.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use crate::common::{Scene, can_make_boxes, end, wait_until};
use sandbox::process::tree;
use sandbox::{BoxSpec, SandboxError, Signal, forget_exit, recorded_exit, root_of};

#[test]
fn the_status_of_the_main_command_is_kept_and_ends_the_sidecars() {
    if !can_make_boxes("exit status") {
        return;
    }
    let scene = Scene::new();
    let mut spec = scene.spec(&["sh", "-c", "until [ -e /dev/shm/there ]; do sleep 0.01; done; exit 7"]);
    let sidecar = ["sh", "-c", "echo aside; touch /dev/shm/there; sleep 1000"].map(OsString::from).to_vec();
    spec.commands.as_mut().expect("it has some").sidecars = vec![sidecar];
    let (status, log) = scene.run(&spec);
    assert_eq!((status, log.as_str()), (Some(7), "aside\n"));
    let of_user = || {
        let all = sandbox::process::all().expect("/proc");
        all.into_iter().filter(|process| process.uid == scene.user.uid).count()
    };
    wait_until("the sidecar ends with the box", || of_user() == 0);

    forget_exit(&scene.path("box")).expect("it is forgotten");
    assert_eq!(recorded_exit(&scene.path("box")), None);
    forget_exit(&scene.path("box")).expect("twice is as good");
    // So short that the box may be gone before anybody looks.
    let (status, _) = scene.run(&scene.spec(&["sh", "-c", "kill -9 $$"]));
    assert_eq!(status, Some(137), "a signal counts from 128");
}

#[test]
fn a_signal_to_the_first_process_reaches_the_command() {
    if !can_make_boxes("signals") {
        return;
    }
    let scene = Scene::new();
    // It starts nothing once it is ready: a signal that comes while dash starts a command can get lost in it.
    let script = "sleep 1000 & trap 'echo interrupted' INT; trap 'echo told to go; exit 3' TERM; echo ready; while :; do wait; done";
    let launched = scene.launch(&scene.spec(&["sh", "-c", script])).expect("the box starts");
    wait_until("the traps are set", || scene.log().contains("ready"));
    let root = launched.root.expect("it has one");
    root.signal(Signal::INT).expect("it runs");
    wait_until("the interrupt arrives", || scene.log().contains("interrupted"));
    root.signal(Signal::TERM).expect("it runs");
    assert!(launched.holder.wait_gone(Duration::from_secs(30)));
    assert_eq!(recorded_exit(&scene.path("box")), Some(3), "{}", scene.log());
}

#[test]
fn a_box_is_found_by_its_directory_and_ends_with_its_holder() {
    if !can_make_boxes("holders") {
        return;
    }
    let scene = Scene::new();
    assert_eq!(scene.holders(), []);
    let launched =
        scene.launch(&scene.spec(&["sh", "-c", "sleep 1000 & sleep 1000; true"])).expect("it starts");
    assert_eq!(scene.holders(), [launched.holder]);
    assert_eq!(root_of(launched.holder).expect("/proc"), launched.root);
    assert!(launched.root.is_some());
    wait_until("all of it runs", || tree(launched.holder.pid).is_ok_and(|processes| processes.len() == 5));
    end(&launched);
    assert_eq!(scene.holders(), []);
    assert_eq!(root_of(launched.holder).expect("/proc"), None);
    assert_eq!(recorded_exit(&scene.path("box")), None, "nobody was left to write it down");

    // One that waits for a restore lasts, and is found as well.
    let empty = scene.launch(&scene.empty()).expect("the box starts");
    assert_eq!((empty.root, scene.holders()), (None, vec![empty.holder]));
    end(&empty);
}

#[test]
fn what_cannot_start_is_an_error_that_names_it_and_leaves_nothing() {
    if !can_make_boxes("failing starts") {
        return;
    }
    let scene = Scene::new();
    let told = |spec: &BoxSpec<'_>| match scene.launch(spec) {
        Err(error @ SandboxError::Launch { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let in_directory = |cwd: &str| {
        let mut spec = scene.spec(&["true"]);
        spec.commands.as_mut().expect("it has some").cwd = cwd.into();
        told(&spec)
    };
    let message = told(&scene.spec(&["no-such-command"]));
    assert!(message.contains("cannot run `no-such-command`"), "{message}");
    let message = in_directory("/no/such/directory");
    assert!(message.contains("`/no/such/directory`"), "{message}");
    let message = in_directory("/root");
    assert!(message.contains("Permission denied"), "the user's rights decide: {message}");

    // What the user may not enter cannot be a box's directory or workspace either.
    let closed = scene.path("closed");
    fs::create_dir_all(closed.join("open")).expect("directories");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("its mode");
    let mut spec = scene.spec(&["true"]);
    spec.workspace = Some((closed.join("open"), scene.path("box")));
    assert!(told(&spec).contains("Permission denied"), "{}", told(&spec));
    let mut spec = scene.spec(&["true"]);
    spec.box_dir = closed.join("open");
    assert!(told(&spec).contains("Permission denied"), "{}", told(&spec));
    wait_until("nothing is left", || scene.holders().is_empty());
}

#[test]
fn a_log_that_is_a_link_or_a_fifo_is_refused() {
    if !can_make_boxes("logs") {
        return;
    }
    let scene = Scene::new();
    let (log, victim) = (scene.path("box/log"), scene.path("victim"));
    fs::write(&victim, "untouched").expect("a file");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o666)).expect("its mode");
    let refused = || {
        let error = scene.launch(&scene.spec(&["echo", "overwritten"])).expect_err("that is no log");
        assert!(error.to_string().contains("log"), "{error}");
    };
    symlink(&victim, &log).expect("a link");
    refused();
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "untouched");
    fs::remove_file(&log).expect("the link goes");

    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o666));
    rustix::fs::mknodat(rustix::fs::CWD, &log, kind, mode, 0).expect("a fifo");
    scene.give(&log);
    refused();
    // With somebody at the other end it opens, and is still no file.
    let reader = fs::File::options().read(true).write(true).open(&log).expect("a fifo opens for both");
    refused();
    drop(reader);

    // An exit status that is a link, a fifo or nonsense is not read.
    let exit = scene.path("box/exit");
    fs::write(scene.path("number"), "5").expect("a file");
    symlink(scene.path("number"), &exit).expect("a link");
    assert_eq!(recorded_exit(&scene.path("box")), None);
    fs::remove_file(&exit).expect("the link goes");
    rustix::fs::mknodat(rustix::fs::CWD, &exit, kind, mode, 0).expect("a fifo");
    assert_eq!(recorded_exit(&scene.path("box")), None);
    fs::remove_file(&exit).expect("the fifo goes");
    fs::write(&exit, "256\n").expect("a file");
    assert_eq!(recorded_exit(&scene.path("box")), None);
}
