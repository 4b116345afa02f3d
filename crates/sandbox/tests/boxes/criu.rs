//! The proof of the arrangement: an ordinary user's box is dumped by a real CRIU while it goes on, and comes up a second time
//! beside itself, in another root, network and directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sandbox::process::{Identity, namespace_inode, tree};
use sandbox::{
    Cgroup, Launched, Limits, NetworkNamespace, Root, exec_in, host_nodes, leftover_mounts, real_ids_runner,
    settle_devices,
};

use crate::common::{Scene, can_make_boxes, end, skip, wait_until};
use crate::devices::nodes;

const COUNT: &str = "
import time, os, socket, multiprocessing.shared_memory as m
s = socket.create_server(('127.0.0.1', 4711))
shared = m.SharedMemory(create=True, size=4096)
n = 0
while True:
    n += 1; shared.buf[0] = n % 256; print(n, flush=True); time.sleep(0.02)
";

fn criu() -> Option<PathBuf> {
    let usual = ["/opt/infinijup/criu/bin/criu", "/opt/criu/bin/criu"].map(PathBuf::from);
    std::env::var_os("INFINIJUP_CRIU").map(PathBuf::from).into_iter().chain(usual).find(|path| path.is_file())
}

/// CRIU's notes about the kernel, made by plain root on a tmpfs over /run.
fn learn_kernel(criu: &Path, directory: &Path) -> PathBuf {
    fs::create_dir(directory).expect("a directory");
    let notes = directory.join("criu.kdat");
    let script = "mount -t tmpfs none /run && { \"$0\" check >/dev/null 2>&1; cat /run/criu.kdat; }";
    let made = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(criu)
        .output();
    let made = made.expect("unshare runs");
    assert!(!made.stdout.is_empty(), "no notes: {}", String::from_utf8_lossy(&made.stderr));
    fs::write(&notes, made.stdout).expect("the notes are written");
    notes
}

struct Proof {
    scene: Scene,
    criu: PathBuf,
    kdat: PathBuf,
}

impl Proof {
    fn command(&self, cgroup: Option<&Cgroup>, action: &str, images: &Path) -> Command {
        let mut words =
            real_ids_runner(&self.scene.program, &self.scene.user, &self.kdat, cgroup).into_iter();
        let mut command = Command::new(words.next().expect("the program"));
        command.args(words).arg(&self.criu).arg(action).arg("-D").arg(images);
        command.args(["-v4", "-o", "criu.log", "--tcp-close", "--manage-cgroups=ignore", "--link-remap"]);
        command
    }

    fn dump(&self, init: &Identity, launched: &Launched, images: &Path) {
        fs::create_dir(images).expect("a directory");
        let mut command = self.command(None, "dump", images);
        command.arg("-t").arg(init.pid.to_string());
        command.args(["--leave-running", "--network-lock", "skip", "--file-locks", "--ghost-limit", "1G"]);
        for mount in &launched.mounts {
            command.arg("--external").arg(format!("mnt[{}]:{}", mount.inside.display(), mount.key));
        }
        let network = namespace_inode(init.pid, "net").expect("a network");
        command.arg("--external").arg(format!("net[{network}]:net"));
        run(command, images);
    }

    /// Restores into new surroundings; gives its first process.
    fn branch(&self, name: &str, launched: &Launched, images: &Path) -> Branch {
        let network = NetworkNamespace::create(&self.scene.path(&format!("net-{name}"))).expect("a network");
        let cgroup =
            Cgroup::create(&format!("{}-{name}", self.scene.id), Limits::default()).expect("a cgroup");
        let root = Root::at(&self.scene.path(&format!("root-{name}"))).expect("a root");
        let box_dir = self.scene.make_box_dir(&format!("box-{name}"));
        // CRIU looks at the mode of a file that it opens again, so the log is one of the same kind.
        let (from, log) = (self.scene.path("box/log"), box_dir.join("log"));
        File::create(&log)
            .expect("a log")
            .set_permissions(fs::metadata(from).expect("a log").permissions())
            .expect("its mode");
        std::os::unix::fs::chown(&log, Some(self.scene.user.uid), Some(self.scene.user.gid))
            .expect("it is given away");
        let pidfile = self.scene.path(&format!("pid-{name}"));

        let mut command = self.command(Some(&cgroup), "restore", images);
        command.arg("-d").arg("--root").arg(root.path()).arg("--pidfile").arg(&pidfile);
        for mount in &launched.mounts {
            let source = if mount.key == "box" { &box_dir } else { &mount.outside };
            command.arg("--external").arg(format!("mnt[{}]:{}", mount.key, source.display()));
        }
        command.args(["--inherit-fd", "fd[0]:net"]).stdin(Stdio::from(network.fd().expect("a descriptor")));
        run(command, images);
        root.unmount().expect("the root goes");
        let pid =
            fs::read_to_string(&pidfile).expect("CRIU leaves the pid").trim().parse().expect("a number");
        Branch { init: Identity::of(pid).expect("/proc").expect("it runs"), box_dir, cgroup, network }
    }
}

struct Branch {
    init: Identity,
    box_dir: PathBuf,
    cgroup: Cgroup,
    network: NetworkNamespace,
}

impl Branch {
    fn numbers(&self) -> Vec<u64> {
        numbers(&self.box_dir)
    }

    fn remove(self) {
        assert!(self.cgroup.kill(Duration::from_secs(10)).expect("it can be ended"));
        self.cgroup.remove().expect("the cgroup goes");
        self.network.remove().expect("the network goes");
    }
}

fn run(mut command: Command, images: &Path) {
    let log = File::create(images.join("output")).expect("a file");
    let status = command.stdout(log.try_clone().expect("a file")).stderr(log).status().expect("it runs");
    if !status.success() {
        let log = fs::read_to_string(images.join("criu.log")).unwrap_or_default();
        let telling: Vec<&str> =
            log.lines().filter(|line| line.contains("Error") || line.contains("Warn")).collect();
        let output = fs::read_to_string(images.join("output")).unwrap_or_default();
        panic!("{command:?}: {status}\n{output}\n{}", telling.join("\n"));
    }
}

fn numbers(box_dir: &Path) -> Vec<u64> {
    let log = fs::read_to_string(box_dir.join("log")).unwrap_or_default();
    log.lines().filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn a_users_box_is_dumped_while_it_runs_and_restored_beside_itself() {
    if !can_make_boxes("dump and restore") {
        return;
    }
    let Some(criu) = criu() else { return skip("dump and restore", "there is no CRIU") };
    let scene = Scene::new();
    let kdat = learn_kernel(&criu, &scene.path("kdat"));
    let proof = Proof { scene, criu, kdat };
    let scene = &proof.scene;
    let mut spec = scene.spec(&["python3", "-c", COUNT]);
    spec.sidecars = vec![vec!["sleep".into(), "100000".into()]];
    let launched = scene.launch(&spec).expect("the box starts");
    wait_until("it counts", || numbers(&scene.path("box")).len() > 3);

    let images = scene.path("images");
    proof.dump(&launched.init, &launched, &images);
    let at_dump = numbers(&scene.path("box")).len();
    wait_until("the original goes on", || numbers(&scene.path("box")).len() > at_dump + 3);

    let branch = proof.branch("one", &launched, &images);
    wait_until("the branch goes on", || branch.numbers().len() > 3);
    let (first, original) = (branch.numbers()[0], numbers(&scene.path("box")));
    assert!(first <= original.len() as u64 && first > 1, "it went on from the snapshot: {first}");
    assert!(original.windows(2).all(|pair| pair[1] == pair[0] + 1), "the original never noticed");

    // Everything came along, belongs to the user, and is where it should be.
    let processes = tree(branch.init.pid).expect("a tree");
    let names: Vec<&str> = processes.iter().map(|process| process.comm.as_str()).collect();
    assert!(names.contains(&"infinijup-box") && names.contains(&"sleep"), "{names:?}");
    assert!(processes.iter().all(|process| process.uid == scene.user.uid));
    let mut in_group = branch.cgroup.processes();
    in_group.retain(|pid| processes.iter().any(|process| process.pid == *pid));
    assert_eq!(in_group.len(), processes.len(), "born in the group of the branch");
    assert_eq!(
        namespace_inode(branch.init.pid, "net").expect("it runs"),
        branch.network.inode().expect("an inode")
    );
    let words = ["sh", "-c", "ls /dev/shm | wc -l; grep NoNewPrivs /proc/1/status"].map(Into::into);
    let env = [("PATH".into(), "/usr/bin:/bin".into())];
    let output =
        exec_in(&scene.program, branch.init.pid, &scene.user, &words, Path::new("/"), &env).expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\nNoNewPrivs:\t1\n");

    // And again from the branch: it has a time namespace now, and mounts that CRIU made.
    let again = scene.path("images-2");
    let moved = Launched { init: branch.init, mounts: launched.mounts.clone() };
    proof.dump(&branch.init, &moved, &again);
    let grandchild = proof.branch("two", &moved, &again);
    wait_until("the grandchild goes on", || grandchild.numbers().len() > 3);
    assert!(branch.init.is_alive() && launched.init.is_alive());

    // A signal still reaches the main command through the restored first process.
    grandchild.init.signal(sandbox::Signal::TERM).expect("it runs");
    assert!(grandchild.init.wait_gone(Duration::from_secs(30)));
    let status = sandbox::recorded_exit(&scene.user, &grandchild.box_dir).expect("it can be read");
    assert_eq!(status, Some(143));
    grandchild.remove();
    branch.remove();
    end(&launched);
    for name in ["root", "root-one", "root-two", "kdat"] {
        assert!(leftover_mounts(&scene.path(name)).expect("the table").is_empty(), "{name}");
    }
}

#[test]
fn gpu_nodes_that_nobody_holds_open_go_through_a_dump_and_a_restore() {
    if !can_make_boxes("dump and restore of GPU nodes") {
        return;
    }
    let Some(criu) = criu() else { return skip("dump and restore of GPU nodes", "there is no CRIU") };
    let scene = Scene::new();
    let kdat = learn_kernel(&criu, &scene.path("kdat"));
    let proof = Proof { scene, criu, kdat };
    let scene = &proof.scene;
    let mut spec = scene.spec(&["python3", "-c", COUNT]);
    spec.devices = nodes(&["nvidia-uvm", "nvidia0", "nvidiactl"]);
    let launched = scene.launch(&spec).expect("the box starts");
    wait_until("it counts", || numbers(&scene.path("box")).len() > 3);

    let images = scene.path("images");
    proof.dump(&launched.init, &launched, &images);
    let branch = proof.branch("one", &launched, &images);
    wait_until("the branch goes on", || branch.numbers().len() > 3);
    let dev = |pid: i32| PathBuf::from(format!("/proc/{pid}/root/dev"));
    assert_eq!(host_nodes(&dev(branch.init.pid)), spec.devices, "they came along");

    // The branch gets another GPU; the original keeps its own.
    let others = nodes(&["nvidia-uvm", "nvidia1", "nvidiactl"]);
    settle_devices(branch.init.pid, &others).expect("they are settled");
    assert_eq!(host_nodes(&dev(branch.init.pid)), others);
    assert_eq!(host_nodes(&dev(launched.init.pid)), spec.devices);
    branch.remove();
    end(&launched);
}
