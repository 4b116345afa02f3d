//! What a person inside a box sees and can do, and what they cannot.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use crate::common::{SECOND_GROUP, Scene, can_make_boxes, end, open_to_all, skip, wait_until};
use sandbox::process::{info, namespace_inode, tree};
use sandbox::{Cgroup, Gate, Limits, Network, Resource, ResourceLimit};

const LOOK_AROUND: &str = r#"
echo "pid=$$ first=$(cat /proc/1/comm) root=$(cat /proc/300/comm)"
echo "uid=$(id -u) gid=$(id -g)"
echo "cwd=$(pwd) colour=$COLOUR home=$HOME"
grep -E '^(NoNewPrivs|CapPrm|CapEff|CapBnd|CapAmb)' /proc/self/status
echo "net=$(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \n')"
echo "shm=$(ls -A /dev/shm) dev=$(ls -A /dev | tr '\n' ' ')"
echo "stdin=$(readlink /proc/300/fd/0) log=$(readlink /proc/300/fd/1) held=$(ls /proc/300/fd | tr '\n' ' ')"
echo "umask=$(umask) oom=$(cat /proc/self/oom_score_adj) open=$(ulimit -n)"
echo "run=$(ls -A /run | tr '\n' ' ')"
touch /dev/shm/mine "/run/user/$(id -u)/mine" /run/infinijup-box/mine && echo "may write"
touch "$SHARED/mine" && echo "may write as one of the group"
cat "$SECRET" 2>&1
touch /sys/mine 2>&1
mount -t tmpfs none /mnt 2>&1
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
    let shared = scene.path("shared");
    fs::create_dir(&shared).expect("a directory");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2770)).expect("its mode");
    chown(&shared, Some(0), Some(SECOND_GROUP)).expect("it is the group's");
    let outside = ["/dev/shm", "/run"].map(|place| Path::new(place).join(format!("ij-outside-{}", scene.id)));
    for file in &outside {
        fs::write(file, "").expect("a file of the machine's");
    }
    fs::write(scene.path("box/log"), "from before\n").expect("a log");
    scene.give(&scene.path("box/log"));

    let mut spec = scene.spec(&["sh", "-c", LOOK_AROUND]);
    let commands = spec.commands.as_mut().expect("it has some");
    commands.env.extend([("SECRET".into(), secret.into()), ("SHARED".into(), shared.clone().into())]);
    spec.limits.push(ResourceLimit { resource: Resource::OpenFiles, soft: Some(321), hard: Some(321) });
    let (status, log) = scene.run(&spec);
    for file in &outside {
        let _ = fs::remove_file(file);
    }

    assert_eq!(status, Some(0), "{log}");
    let user = &scene.user;
    for expected in [
        "from before",
        "pid=301 first=infinijup-box root=infinijup-box",
        &format!("uid={} gid={}", user.uid, user.gid),
        "cwd=/tmp colour=green home=",
        "NoNewPrivs:\t1",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "CapAmb:\t0000000000000000",
        "net=lo\n",
        "shm= dev=fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ",
        "stdin=/dev/null log=/run/infinijup-box/log held=0 1 2 \n",
        "umask=0022 oom=",
        "open=321",
        "may write\n",
        "may write as one of the group",
        "secret: Permission denied",
        "'/sys/mine': Permission denied",
        "mount:",
        "to stderr",
    ] {
        assert!(log.contains(expected), "`{expected}` is missing in:\n{log}");
    }
    assert!(!log.contains("for root's eyes") && !log.contains("ij-outside"), "{log}");
    assert!(scene.path("box/mine").exists(), "the box's directory outlives it");
    let made = fs::metadata(shared.join("mine")).expect("it was made");
    assert_eq!((made.uid(), made.gid()), (user.uid, SECOND_GROUP));
}

#[test]
fn nothing_in_a_box_has_capabilities_and_all_of_it_is_the_users() {
    if !can_make_boxes("capabilities") {
        return;
    }
    let scene = Scene::new();
    let mut spec = scene.spec(&["sleep", "1000"]);
    spec.gate = Some(Gate { directory: scene.make_dir("gate"), ports: vec![4711] });
    let launched = scene.launch(&spec).expect("the box starts");
    let processes = tree(launched.holder.pid).expect("a tree");
    let mut inside: Vec<_> = processes.iter().filter_map(|one| one.namespace_pids.last().copied()).collect();
    inside.sort_unstable();
    assert_eq!(inside[0], 1, "the holder");
    assert!(inside.contains(&300) && inside.contains(&301) && inside.len() == 4, "and a gate: {inside:?}");
    for process in &processes {
        // The gate gives its capabilities up a moment after the box is up.
        let status = || fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("it runs");
        wait_until("capabilities are given up", || status().contains("NoNewPrivs:\t1"));
        let status = status();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(status.contains(&format!("{set}:\t0000000000000000")), "{process:?}: {status}");
        }
        let uid = scene.user.uid;
        assert!(status.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")), "{status}");
        for kind in ["user", "mnt", "pid", "ipc", "uts", "net", "time"] {
            let theirs = namespace_inode(process.pid, kind).expect("it runs");
            let ours = namespace_inode(std::process::id().cast_signed(), kind).expect("we run");
            assert_ne!(theirs, ours, "{kind}");
            assert_eq!(theirs, namespace_inode(launched.holder.pid, kind).expect("it runs"), "{kind}");
        }
    }
    // It does not hang on us: neither our session nor our child.
    let holder = info(launched.holder.pid).expect("/proc").expect("it runs");
    assert_ne!(holder.ppid, i32::try_from(std::process::id()).expect("pids fit"));
    let own = info(i32::try_from(std::process::id()).expect("pids fit")).expect("/proc").expect("we run");
    assert_ne!(holder.session, own.session);
    end(&launched);
}

#[test]
fn a_branch_sees_its_own_files_at_the_old_path() {
    if !can_make_boxes("a workspace elsewhere") {
        return;
    }
    let scene = Scene::new();
    let place = scene.make_dir("place");
    fs::write(place.join("notes"), "the original's").expect("a file");
    let own = scene.make_dir("files");
    fs::write(own.join("notes"), "the branch's").expect("a file");
    for file in [place.join("notes"), own.join("notes")] {
        open_to_all(&file);
    }

    let mut spec = scene.spec(&["sh", "-c", "cat notes; pwd; echo new >made"]);
    spec.commands.as_mut().expect("it has some").cwd.clone_from(&place);
    spec.workspace = Some((own.clone(), place.clone()));
    let (status, log) = scene.run(&spec);
    assert_eq!((status, log), (Some(0), format!("the branch's{}\n", place.display())));
    assert!(own.join("made").exists() && !place.join("made").exists());
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

/// Ordinary users may make control groups where systemd delegates some to them. Here root makes them, for its own box.
#[test]
fn limits_of_the_group_hold() {
    if !can_make_boxes("limits") {
        return;
    }
    let scene = Scene::of_root();
    let limits = Limits { memory: Some(64 << 20), pids: Some(20) };
    let cgroup = Cgroup::create(&scene.id, limits).expect("a cgroup");
    if let Some(missing) = cgroup.not_in_force(limits) {
        cgroup.remove().expect("it goes");
        return skip("limits", &format!("this machine lacks one of {missing}"));
    }
    let run = |script| {
        let mut spec = scene.spec(&["python3", "-c", script]);
        spec.cgroup = Some(&cgroup);
        scene.run(&spec)
    };
    let (status, log) = run("x = bytearray(200 << 20); print(len(x))");
    assert_eq!(status, Some(137), "the kernel ends what takes too much: {log}");
    let fork = "import os, time\ntry:\n  for n in range(40):\n    if os.fork() == 0: time.sleep(1000)\nexcept BlockingIOError: print('no more after', n)";
    let (status, log) = run(fork);
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("no more after 1"), "{log}");
    wait_until("nothing is left", || cgroup.processes().is_empty());
    cgroup.remove().expect("it goes");
}

#[test]
fn a_session_of_roots_own_has_no_capabilities_either() {
    if !can_make_boxes("root's own session") {
        return;
    }
    let scene = Scene::of_root();
    let look = "id -u; grep -E '^Cap(Prm|Bnd)' /proc/self/status; cat /proc/1/comm";
    let (status, log) = scene.run(&scene.spec(&["sh", "-c", look]));
    let nothing = "0000000000000000";
    assert_eq!(
        (status, log),
        (Some(0), format!("0\nCapPrm:\t{nothing}\nCapBnd:\t{nothing}\ninfinijup-box\n"))
    );
}
