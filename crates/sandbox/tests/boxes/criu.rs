//! The proof of the arrangement: an ordinary user's box is dumped by a real CRIU that has that user's rights only, goes on, and
//! comes up a second time beside itself, in another box.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sandbox::process::{Identity, tree};
use sandbox::{
    BoxSpec, Clocks, Launched, ROOT_PID, Signal, clocks_of, host_nodes, inside, inside_directory, pack_tmpfs,
    recorded_exit, root_of, unpack_tmpfs,
};

use crate::common::{Scene, can_make_boxes, end, skip, wait_until};
use crate::devices::{MACHINE_WITH_GPUS, nodes};

/// Counts, and says what the clock shows. The lock is a semaphore without a name, as far as the program knows.
const COUNT: &str = "
import time, os, socket, multiprocessing, multiprocessing.shared_memory as m
s = socket.create_server(('127.0.0.1', 4711))
shared = m.SharedMemory(create=True, size=4096)
lock = multiprocessing.Lock()
n = 0
while True:
    n += 1
    with lock: shared.buf[0] = n % 256
    assert shared.buf[0] == n % 256
    print(n, time.monotonic(), flush=True); time.sleep(0.02)
";

fn criu() -> Option<PathBuf> {
    let usual = ["/opt/infinijup/criu/bin/criu", "/opt/criu/bin/criu"].map(PathBuf::from);
    std::env::var_os("INFINIJUP_CRIU").map(PathBuf::from).into_iter().chain(usual).find(|path| path.is_file())
}

struct Proof {
    scene: Scene,
    criu: PathBuf,
}

/// A dump, and what the box had beside its tree.
struct Taken {
    images: PathBuf,
    clocks: Clocks,
}

impl Taken {
    fn archive(&self) -> PathBuf {
        self.images.join("tmpfs.tar")
    }
}

/// A box that was restored.
struct Branch {
    launched: Launched,
    box_dir: PathBuf,
}

impl Proof {
    /// Runs CRIU inside the box.
    fn criu(&self, holder: Identity, action: &str, images: &Path, more: &[&str]) {
        let mut words = inside(&self.scene.program, holder, None, &[images]).into_iter();
        let mut command = Command::new(words.next().expect("the program"));
        command.args(words).arg(&self.criu).args([action, "--unprivileged", "-D"]).arg(inside_directory(0));
        command.args(["-v4", "-o", "criu.log", "--tcp-close", "--manage-cgroups=ignore", "--link-remap"]);
        let output = command.args(more).output().expect("it runs");
        if !output.status.success() {
            let log = fs::read_to_string(images.join("criu.log")).unwrap_or_default();
            let telling: Vec<&str> =
                log.lines().filter(|line| line.contains("Error") || line.contains("Warn")).collect();
            panic!("{command:?}: {output:?}\n{}", telling.join("\n"));
        }
    }

    /// Dumps the tree, saves what is beside it while it stands still, and lets it go on.
    fn dump(&self, name: &str, launched: &Launched) -> Taken {
        let images = self.scene.make_dir(name);
        let root = ROOT_PID.to_string();
        self.criu(
            launched.holder,
            "dump",
            &images,
            &["-t", &root, "--leave-stopped", "--network-lock", "skip", "--file-locks"],
        );
        let taken = Taken { images, clocks: clocks_of(launched.holder).expect("clocks") };
        let archive = File::create(taken.archive()).expect("a file");
        pack_tmpfs(&self.scene.program, launched.holder, archive).expect("it is packed");
        for process in tree(launched.root.expect("it has one").pid).expect("a tree") {
            process.identity().signal(Signal::CONT).expect("it is stopped");
        }
        taken
    }

    /// Restores into a new box.
    fn branch(&self, name: &str, taken: &Taken, spec: BoxSpec<'_>) -> Branch {
        let box_dir = self.scene.make_dir(&format!("box-{name}"));
        let spec = BoxSpec { box_dir: box_dir.clone(), ..spec };
        let mut launched = self.scene.launch(&spec).expect("an empty box");
        let archive = File::open(taken.archive()).expect("a file");
        unpack_tmpfs(&self.scene.program, launched.holder, archive).expect("it is unpacked");
        self.criu(launched.holder, "restore", &taken.images, &["-d"]);
        launched.root = root_of(launched.holder).expect("/proc");
        assert!(launched.root.is_some(), "the tree is the holder's");
        Branch { launched, box_dir }
    }
}

/// What the counter has written: a number and what the clock showed.
fn counted(box_dir: &Path) -> Vec<(u64, f64)> {
    let log = fs::read_to_string(box_dir.join("log")).unwrap_or_default();
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole
        .lines()
        .map(|line| {
            let (number, clock) = line.split_once(' ').unwrap_or_else(|| panic!("{log}"));
            (number.parse().expect("a number"), clock.parse().expect("a time"))
        })
        .collect()
}

fn assert_consecutive(counted: &[(u64, f64)]) {
    let goes_on = |pair: &[(u64, f64)]| pair[1].0 == pair[0].0 + 1 && pair[1].1 > pair[0].1;
    assert!(counted.windows(2).all(goes_on), "{counted:?}");
}

fn proof(what: &str, scene: impl FnOnce() -> Scene) -> Option<Proof> {
    if !can_make_boxes(what) {
        return None;
    }
    let Some(criu) = criu() else {
        skip(what, "there is no CRIU");
        return None;
    };
    Some(Proof { scene: scene(), criu })
}

#[test]
fn a_users_box_is_dumped_while_it_runs_and_restored_beside_itself() {
    let Some(proof) = proof("dump and restore", Scene::new) else { return };
    let scene = &proof.scene;
    let mut spec = scene.spec(&["python3", "-c", COUNT]);
    spec.commands.as_mut().expect("it has some").sidecars = vec![vec!["sleep".into(), "100000".into()]];
    let launched = scene.launch(&spec).expect("the box starts");
    let original = || counted(&scene.path("box"));
    wait_until("it counts", || original().len() > 3);

    let mut taken = proof.dump("images", &launched);
    let at_dump = original().len();
    wait_until("the original goes on", || original().len() > at_dump + 3);

    // Its clocks are to show another time than ours, or nobody could tell.
    let ahead = Duration::from_secs(100_000);
    taken.clocks.monotonic += ahead;
    taken.clocks.boottime += ahead;
    let branch = proof.branch("one", &taken, BoxSpec { clocks: Some(taken.clocks), ..scene.empty() });
    wait_until("the branch goes on", || counted(&branch.box_dir).len() > 3);
    let all = counted(&branch.box_dir);
    assert!(all[0].0 <= at_dump as u64 + 1 && all[0].0 > 1, "it went on from the snapshot: {all:?}");
    assert_consecutive(&all);
    assert_consecutive(&original());
    let expected = taken.clocks.monotonic.as_secs_f64();
    assert!((expected..expected + 60.0).contains(&all[0].1), "the clock goes on, too: {all:?} {expected}");

    // Everything came along, belongs to the user, and is where it should be.
    let root = branch.launched.root.expect("it has one");
    let processes = tree(root.pid).expect("a tree");
    let names: Vec<&str> = processes.iter().map(|process| process.comm.as_str()).collect();
    assert!(names.contains(&"infinijup-box") && names.contains(&"sleep"), "{names:?}");
    assert!(processes.iter().all(|process| process.uid == scene.user.uid));
    let numbers = |pid| {
        let mut numbers: Vec<_> =
            tree(pid).expect("a tree").iter().filter_map(|one| one.namespace_pids.last().copied()).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers(root.pid), numbers(launched.root.expect("it has one").pid), "with the same numbers");
    let look = "ls /dev/shm | wc -l; grep NoNewPrivs /proc/300/status; grep CapPrm /proc/301/status";
    let output = scene.exec(branch.launched.holder, &["sh", "-c", look]).expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "1\nNoNewPrivs:\t1\nCapPrm:\t0000000000000000\n",
        "{output:?}"
    );

    // And again from the branch.
    let again = proof.dump("images-2", &branch.launched);
    let difference = again.clocks.monotonic.abs_diff(taken.clocks.monotonic);
    assert!(difference < Duration::from_secs(60), "{difference:?}");
    let grandchild = proof.branch("two", &again, BoxSpec { clocks: Some(again.clocks), ..scene.empty() });
    wait_until("the grandchild goes on", || counted(&grandchild.box_dir).len() > 3);
    assert!(root.is_alive() && launched.root.is_some_and(|root| root.is_alive()));

    // A signal still reaches the main command through the restored first process.
    grandchild.launched.root.expect("it has one").signal(Signal::TERM).expect("it runs");
    assert!(grandchild.launched.holder.wait_gone(Duration::from_secs(30)), "the box ends with its tree");
    assert_eq!(recorded_exit(&grandchild.box_dir), Some(143));
    end(&branch.launched);
    end(&launched);
}

#[test]
fn a_restored_box_has_the_gpu_nodes_that_it_is_given_now() {
    let make = || Scene::on_machine(MACHINE_WITH_GPUS);
    let Some(proof) = proof("dump and restore of GPU nodes", make) else { return };
    let scene = &proof.scene;
    let mut spec = scene.spec(&["python3", "-c", COUNT]);
    spec.devices = nodes(&["nvidia-uvm", "nvidia0", "nvidiactl"]);
    let launched = scene.launch(&spec).expect("the box starts");
    wait_until("it counts", || counted(&scene.path("box")).len() > 3);

    let taken = proof.dump("images", &launched);
    let others = nodes(&["nvidia-uvm", "nvidia1", "nvidiactl"]);
    let given = BoxSpec { devices: others.clone(), clocks: Some(taken.clocks), ..scene.empty() };
    let branch = proof.branch("one", &taken, given);
    wait_until("the branch goes on", || counted(&branch.box_dir).len() > 3);
    let dev = |holder: Identity| PathBuf::from(format!("/proc/{}/root/dev", holder.pid));
    assert_eq!(host_nodes(&dev(branch.launched.holder)), others);
    assert_eq!(host_nodes(&dev(launched.holder)), spec.devices);
    end(&branch.launched);
    end(&launched);
}
