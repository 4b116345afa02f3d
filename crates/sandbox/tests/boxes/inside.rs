//! What a person inside a box sees and can do, and what they cannot.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{Scene, can_make_boxes, end, skip, wait_until};
use sandbox::{
    Limits, Network, NetworkNamespace, Resource, ResourceLimit, Root, SandboxError, exec_in, leftover_mounts,
    unmount_all,
};

const LOOK_AROUND: &str = r#"
echo "pid=$$ first=$(cat /proc/1/comm)"
echo "uid=$(id -u) groups=$(id -G) effective=$(cut -d' ' -f1 /proc/self/attr/current 2>/dev/null)"
echo "cwd=$(pwd) colour=$COLOUR home=$HOME"
grep -E '^(NoNewPrivs|CapPrm|CapEff|CapBnd|CapAmb)' /proc/self/status
echo "net=$(ls /sys/class/net | tr '\n' ' ') lo=$(cat /sys/class/net/lo/flags)"
echo "shm=$(ls -A /dev/shm) dev=$(ls -A /dev | tr '\n' ' ')"
echo "stdin=$(readlink /proc/1/fd/0) log=$(readlink /proc/1/fd/1)"
echo "umask=$(umask) oom=$(cat /proc/self/oom_score_adj) open=$(ulimit -n) run=$(ls -A /run | tr '\n' ' ')"
touch /dev/shm/mine "/run/user/$(id -u)/mine" /run/infinijup-box/mine && echo "may write"
cat "$SECRET" 2>&1
touch /sys/mine 2>&1
echo to stderr >&2
"#;

#[test]
fn what_a_person_inside_sees() {
    if !can_make_boxes("what a person inside sees") {
        return;
    }
    let scene = Scene::new();
    let secret = scene.path("secret");
    fs::write(&secret, "for root's eyes").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("its mode");
    let outside = Path::new("/dev/shm/ij-outside");
    fs::write(outside, "").expect("a file in the machine's shared memory");
    fs::write(scene.path("box/log"), "from before\n").expect("a log");
    std::os::unix::fs::chown(scene.path("box/log"), Some(scene.user.uid), None).expect("it is the user's");

    let mut spec = scene.spec(&["sh", "-c", LOOK_AROUND]);
    spec.env.push(("SECRET".into(), secret.into()));
    spec.limits.push(ResourceLimit { resource: Resource::OpenFiles, soft: Some(321), hard: Some(321) });
    let (status, log) = scene.run(&spec);
    let _ = fs::remove_file(outside);

    assert_eq!(status, Some(0), "{log}");
    let user = &scene.user;
    let mut groups: Vec<String> = user.groups.iter().map(ToString::to_string).collect();
    groups.sort();
    let seen: Vec<&str> = log
        .lines()
        .find_map(|line| line.split_once(" groups="))
        .map_or("", |(_, rest)| rest.split(" effective").next().unwrap_or(""))
        .split(' ')
        .collect();
    let mut seen: Vec<String> = seen.into_iter().map(str::to_owned).collect();
    seen.sort();
    assert_eq!(seen, groups, "{log}");
    assert!(groups.len() >= 2, "the user is in a second group");
    for expected in [
        "from before",
        "pid=2 first=infinijup-box",
        &format!("uid={}", user.uid),
        "cwd=/tmp colour=green home=",
        "NoNewPrivs:\t1",
        "CapPrm:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "net=lo  lo=0x9",
        "shm= dev=",
        "stdin=/dev/null log=/run/infinijup-box/log",
        "umask=0022 oom=",
        "open=321",
        "may write",
        "Permission denied",
        "Read-only file system",
        "to stderr",
    ] {
        assert!(log.contains(expected), "`{expected}` is missing in:\n{log}");
    }
    assert!(!log.contains("for root's eyes") && !log.contains("ij-outside"), "{log}");
    assert!(leftover_mounts(&scene.path("root")).expect("the table").is_empty());
}

#[test]
fn the_status_of_the_main_command_is_kept_and_ends_the_sidecars() {
    if !can_make_boxes("exit status") {
        return;
    }
    let scene = Scene::new();
    let mut spec = scene.spec(&["sh", "-c", "until [ -e /dev/shm/there ]; do sleep 0.01; done; exit 7"]);
    spec.sidecars =
        vec![["sh", "-c", "echo aside; touch /dev/shm/there; sleep 1000"].map(OsString::from).to_vec()];
    let (status, log) = scene.run(&spec);
    assert_eq!((status, log.as_str()), (Some(7), "aside\n"));
    wait_until("the sidecar ends with the box", || scene.cgroup.processes().is_empty());

    let (status, _) = scene.run(&scene.spec(&["sh", "-c", "kill -9 $$"]));
    assert_eq!(status, Some(137), "a signal counts from 128");
}

#[test]
fn a_signal_to_the_first_process_reaches_the_command() {
    if !can_make_boxes("signals") {
        return;
    }
    let scene = Scene::new();
    let script = "trap 'echo interrupted' INT; trap 'echo told to go; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let launched = scene.launch(&scene.spec(&["sh", "-c", script])).expect("the box starts");
    wait_until("the traps are set", || scene.log().contains("ready"));
    launched.init.signal(sandbox::Signal::INT).expect("it runs");
    wait_until("the interrupt arrives", || scene.log().contains("interrupted"));
    launched.init.signal(sandbox::Signal::TERM).expect("it runs");
    assert!(launched.init.wait_gone(std::time::Duration::from_secs(30)));
    let status = sandbox::recorded_exit(&scene.user, &scene.path("box")).expect("it can be read");
    assert_eq!(status, Some(3), "{}", scene.log());
}

#[test]
fn what_cannot_start_is_an_error_that_names_it_and_leaves_nothing() {
    if !can_make_boxes("failing starts") {
        return;
    }
    let scene = Scene::new();
    let told = |spec: &sandbox::BoxSpec<'_>| match scene.launch(spec) {
        Err(error @ SandboxError::Launch { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(told(&scene.spec(&["no-such-command"])).contains("cannot run `no-such-command`"));
    let mut spec = scene.spec(&["true"]);
    spec.cwd = "/no/such/directory".into();
    assert!(told(&spec).contains("`/no/such/directory`"));
    let mut spec = scene.spec(&["true"]);
    spec.cwd = "/root".into();
    assert!(told(&spec).contains("Permission denied"), "the user's rights decide");
    wait_until("nothing is left", || scene.cgroup.processes().is_empty());
    assert!(leftover_mounts(&scene.path("root")).expect("the table").is_empty());
}

#[test]
fn a_hostile_user_cannot_make_root_follow_a_link() {
    if !can_make_boxes("hostile links") {
        return;
    }
    let scene = Scene::new();
    let victim = scene.path("victim");
    fs::write(&victim, "untouched").expect("a file");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o666)).expect("its mode");
    // A log that is a link, even to something the user may write to.
    symlink(&victim, scene.path("box/log")).expect("a link");
    let error = scene.launch(&scene.spec(&["echo", "overwritten"])).expect_err("a link is no log");
    assert!(error.to_string().contains("log"), "{error}");
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "untouched");

    // An exit status that is a link is not read.
    fs::write(scene.path("number"), "5").expect("a file");
    symlink(scene.path("number"), scene.path("box/exit")).expect("a link");
    assert_eq!(sandbox::recorded_exit(&scene.user, &scene.path("box")).expect("no error"), None);

    // A workspace that leads through a link to where the user may not go.
    fs::remove_file(scene.path("box/log")).expect("the link goes");
    let closed = scene.path("closed");
    fs::create_dir_all(closed.join("open")).expect("directories");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("its mode");
    let link = PathBuf::from(format!("/tmp/ij-link-{}", scene.id));
    symlink(closed.join("open"), &link).expect("a link");
    let mut spec = scene.spec(&["ls", "."]);
    spec.workspace = Some((link.clone(), link.clone()));
    let refused = scene.launch(&spec);
    let _ = fs::remove_file(&link);
    assert!(refused.expect_err("the user may not go there").to_string().contains("as the user"));

    // A box directory that is itself a link.
    symlink(scene.path("box"), scene.path("other")).expect("a link");
    let mut spec = scene.spec(&["true"]);
    spec.box_dir = scene.path("other");
    scene.launch(&spec).expect_err("a link is no directory of ours");
}

#[test]
fn a_branch_sees_its_own_files_at_the_old_path() {
    if !can_make_boxes("a workspace elsewhere") {
        return;
    }
    let scene = Scene::new();
    let place = tempfile::Builder::new().prefix("ij-work-").tempdir().expect("a directory");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    fs::write(place.path().join("notes"), "the original's").expect("a file");
    let own = scene.make_box_dir("files");
    fs::write(own.join("notes"), "the branch's").expect("a file");

    let mut spec = scene.spec(&["cat", "notes"]);
    spec.cwd = place.path().to_owned();
    spec.workspace = Some((own.clone(), place.path().to_owned()));
    let launched = scene.launch(&spec).expect("the box starts");
    assert!(launched.init.wait_gone(std::time::Duration::from_secs(60)));
    assert_eq!(scene.log(), "the branch's");
    let mount = launched.mounts.iter().find(|mount| mount.key == "workspace").expect("it is external");
    assert_eq!((mount.inside.as_path(), mount.outside.as_path()), (place.path(), own.as_path()));
    assert!(launched.mounts.iter().any(|mount| mount.key == "box" && mount.outside == scene.path("box")));
}

#[test]
fn limits_of_the_group_hold() {
    if !can_make_boxes("limits") {
        return;
    }
    let scene = Scene::with_limits(Limits { memory: Some(64 << 20), pids: Some(20) });
    let missing = scene.cgroup.missing().to_vec();
    if missing.iter().any(|name| name == "memory" || name == "pids") {
        return skip("limits", &format!("this machine lacks {missing:?}"));
    }
    let (status, log) = scene.run(&scene.spec(&["python3", "-c", "x = bytearray(200 << 20); print(len(x))"]));
    assert_eq!(status, Some(137), "the kernel ends what takes too much: {log}");
    let fork = "import os, time\ntry:\n  for n in range(40):\n    if os.fork() == 0: time.sleep(1000)\nexcept BlockingIOError: print('no more after', n)";
    let (status, log) = scene.run(&scene.spec(&["python3", "-c", fork]));
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("no more after 1"), "{log}");
}

#[test]
fn a_command_can_be_run_in_a_box_that_is_up() {
    if !can_make_boxes("exec") {
        return;
    }
    let scene = Scene::new();
    let launched = scene
        .launch(&scene.spec(&["sh", "-c", "touch /dev/shm/mark; echo up; sleep 1000"]))
        .expect("it starts");
    wait_until("it is up", || scene.log().contains("up"));
    // It does not hang on us: neither our session nor our child.
    let first = sandbox::process::info(launched.init.pid).expect("/proc").expect("it runs");
    assert_eq!((first.session, first.namespace_pids.last()), (launched.init.pid, Some(&1)));
    assert_ne!(first.ppid, i32::try_from(std::process::id()).expect("pids fit"));
    let run = |words: &[&str]| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let env = [("PATH".into(), "/usr/bin:/bin".into())];
        exec_in(&scene.program, launched.init.pid, &scene.user, &words, Path::new("/tmp"), &env)
    };
    let script = "ls /dev/shm; id -u; cat /proc/1/comm; grep -c . /proc/self/cgroup >/dev/null; grep CapPrm /proc/self/status; echo oops >&2; exit 4";
    let output = run(&["sh", "-c", script]).expect("it runs");
    assert_eq!(output.status.code(), Some(4));
    let expected = format!("mark\n{}\ninfinijup-box\nCapPrm:\t0000000000000000\n", scene.user.uid);
    assert_eq!(
        (String::from_utf8_lossy(&output.stdout).as_ref(), output.stderr.as_slice()),
        (expected.as_str(), &b"oops\n"[..])
    );
    let output = run(&["sh", "-c", "kill -15 $$"]).expect("it runs");
    assert_eq!(output.status.code(), Some(143));
    let error = run(&["no-such-command"]).expect_err("there is no such command");
    assert!(
        matches!(error, SandboxError::Enter { .. }) && error.to_string().contains("no-such-command"),
        "{error}"
    );

    let output = run(&["head", "-c", "20000000", "/dev/zero"]).expect("it runs");
    assert_eq!(output.stdout.len(), sandbox::OUTPUT_LIMIT, "the rest is dropped");

    // What it leaves running is not waited for, belongs to the box, and ends with it.
    let output = run(&["sh", "-c", "sleep 1001 & echo started"]).expect("it runs");
    assert_eq!(output.stdout, b"started\n");
    assert!(scene.cgroup.processes().len() >= 4, "{:?}", scene.cgroup.processes());
    end(&launched);
    wait_until("nothing is left", || scene.cgroup.processes().is_empty());
}

#[test]
fn with_the_hosts_network_it_is_the_hosts_network() {
    if !can_make_boxes("the host's network") {
        return;
    }
    let scene = Scene::new();
    let mut spec = scene.spec(&["readlink", "/proc/self/ns/net"]);
    spec.network = Network::Host;
    let (_, log) = scene.run(&spec);
    let ours = fs::read_link("/proc/self/ns/net").expect("a namespace");
    assert_eq!(Path::new(log.trim()), ours);
    let (_, log) = scene.run(&scene.spec(&["true"]));
    assert_eq!(Path::new(log.trim()), ours, "and the log was only appended to");
}

#[test]
fn a_root_that_a_crash_has_left_is_replaced_and_none_stays() {
    if !can_make_boxes("roots") {
        return;
    }
    let scene = Scene::new();
    let path = scene.path("root");
    std::mem::forget(Root::at(&path).expect("a root"));
    assert_eq!(leftover_mounts(&path).expect("the table").len(), 1);
    let root = Root::at(&path).expect("another");
    assert_eq!(leftover_mounts(&path).expect("the table").len(), 1, "not two");
    assert!(path.join("etc").is_dir());
    drop(root);
    assert!(leftover_mounts(&path).expect("the table").is_empty());
    assert!(!path.exists() && Path::new("/etc").is_dir());

    std::mem::forget(Root::at(&path).expect("a root"));
    assert_eq!(unmount_all(&scene.path("")).expect("they go"), 2, "the root and the network's pin");
    // And a pin that is only a file by now does not stand in the way.
    NetworkNamespace::create(&scene.path("net")).expect("a network");
    NetworkNamespace::create(&scene.path("net")).expect_err("there is one");
}

#[test]
fn a_session_of_roots_own_has_no_capabilities_either() {
    if !can_make_boxes("root's own session") {
        return;
    }
    let scene = Scene::new();
    let mut spec =
        scene.spec(&["sh", "-c", "id -u; grep -E '^Cap(Prm|Bnd)' /proc/self/status; cat /proc/1/comm"]);
    spec.user = sandbox::User::by_uid(0).expect("every machine has root");
    std::os::unix::fs::chown(&spec.box_dir, Some(0), Some(0)).expect("it is root's");
    let launched = scene.launch(&spec).expect("the box starts");
    assert!(launched.init.wait_gone(std::time::Duration::from_secs(60)));
    let nothing = "0000000000000000";
    assert_eq!(scene.log(), format!("0\nCapPrm:\t{nothing}\nCapBnd:\t{nothing}\ninfinijup-box\n"));
}
