//! What the tests with a real CRIU share: a workload that counts, alone or in namespaces of its own.
//!
//! No mount is ever made in the namespace of the test itself: a root that is a bind of `/` exists only inside the box, and in the
//! namespace of the CRIU that restores it. So nothing that removes a test's directory can reach through one.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests, which fail by panicking")]

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use checkpoint_criu::{Criu, Event, ExternalMount, ExternalNetwork, Hooks, RestoreOptions, Runner};
use rustix::process::{Pid, Signal, kill_process, test_kill_process_group};
use tempfile::TempDir;

/// CRIU, or the reason why this test cannot run, said aloud.
pub(crate) fn criu() -> Option<Criu> {
    let reason = if !rustix::process::geteuid().is_root() {
        "this needs root".to_owned()
    } else {
        match Criu::find(None) {
            Ok(criu) => return Some(criu),
            Err(error) => error.to_string(),
        }
    };
    assert!(std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{reason}");
    println!("skipped: a test with a real CRIU because {reason}");
    None
}

/// Waits until `what` holds.
pub(crate) fn wait_for(name: &str, what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < deadline, "{name}: it did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The numbers that a workload has written. The last line may be half there.
pub(crate) fn numbers(log: &Path) -> Vec<u64> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| line.parse().unwrap()).collect()
}

/// Counts on, from where it is now.
pub(crate) fn assert_goes_on(log: &Path) {
    let now = numbers(log).len();
    wait_for("counting goes on", || numbers(log).len() > now + 2);
}

/// No number is missing and none comes twice.
pub(crate) fn assert_consecutive(numbers: &[u64]) {
    for pair in numbers.windows(2) {
        assert_eq!(pair[0] + 1, pair[1], "in {numbers:?}");
    }
}

/// Directories for one test.
pub(crate) struct Scratch {
    pub(crate) dir: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A new directory.
    pub(crate) fn sub(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    }
}

/// A process tree that the test ends.
pub(crate) struct Tree {
    pub(crate) pid: i32,
    child: Option<Child>,
}

impl Tree {
    /// A tree that CRIU has restored.
    pub(crate) fn restored(pid: i32) -> Self {
        Self { pid, child: None }
    }

    /// Takes note that CRIU has ended it, and waits until its number is free: that is, until everybody who has it as process
    /// group or session is reaped, by us or by init.
    pub(crate) fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
        let group = Pid::from_raw(self.pid).unwrap();
        wait_for("the process group is gone", || test_kill_process_group(group).is_err());
        self.pid = 0;
    }

    pub(crate) fn is_alive(&self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.pid)).is_ok_and(|stat| !stat.contains(") Z "))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // A plain tree has no init that takes its children with it: they are short-lived (`sleep 0.02`).
            let _ = kill_process(pid, Signal::KILL);
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

/// Whoever runs the tests may have left descriptors open that lead outside.
const CLOSE: &str = "for fd in /proc/self/fd/*; do fd=${fd##*/}; [ $fd -le 2 ] || eval \"exec $fd>&-\"; done";
const COUNT: &str = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done";

/// A process in a session of its own that appends numbers to `log`.
pub(crate) fn plain(log: &Path) -> Tree {
    let output = fs::File::options().append(true).create(true).open(log).unwrap();
    let script = format!("{CLOSE}; exec setsid sh -c '{COUNT}'");
    let child = Command::new("bash")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    wait_for("the process counts", || numbers(log).len() > 2);
    Tree { pid, child: Some(child) }
}

/// A Python program in `scratch`, once it has said `ready`; `None` (and said so) where there is no Python.
pub(crate) fn python(scratch: &Scratch, program: &str) -> Option<Tree> {
    let output = scratch.dir.path().join("output");
    let script = format!("{CLOSE}; exec python3 -c \"$1\" \"$2\"");
    let child = Command::new("bash")
        .args(["-c", &script, "bash", program])
        .arg(scratch.dir.path())
        .stdin(Stdio::null())
        .stdout(fs::File::options().append(true).create(true).open(&output).unwrap())
        .stderr(fs::File::create(scratch.dir.path().join("stderr")).unwrap())
        .current_dir("/")
        .spawn()
        .unwrap();
    let mut tree = Tree { pid: i32::try_from(child.id()).unwrap(), child: Some(child) };
    let ready = || fs::read_to_string(&output).unwrap() == "ready\n";
    wait_for("the program is ready or over", || ready() || !tree.is_alive());
    if ready() {
        return Some(tree);
    }
    let complaint = fs::read_to_string(scratch.dir.path().join("stderr")).unwrap();
    assert!(complaint.contains("python3"), "{complaint}");
    assert!(std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{complaint}");
    println!("skipped: a test with a real CRIU because there is no python3");
    tree.reap();
    None
}

/// A process in PID, mount, network and IPC namespaces of its own, whose root is a bind of `/`. It counts to `box_dir/log`.
pub(crate) struct Boxed {
    pub(crate) tree: Tree,
    pub(crate) box_dir: PathBuf,
    pub(crate) inside: PathBuf,
}

const INNER: &str = r#"
set -e
root=$1 box=$2 inside=$3
mount --make-rprivate /
mount --bind / "$root"
mount --make-private "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3
mount --bind "$box" "$root$inside"
cd "$root"
mkdir "$root$inside.old"
pivot_root . ".$inside.old"
cd /
umount -l "$inside.old"
rmdir "$inside.old"
exec </dev/null >>"$inside/log" 2>&1
"#;

pub(crate) fn boxed(scratch: &Scratch) -> Boxed {
    let root = scratch.sub("root");
    let box_dir = scratch.sub("box");
    let inside = scratch.sub("inside");
    let script = format!("{INNER}\n{CLOSE}\nexec setsid sh -c '{COUNT}'");
    let child = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--ipc", "--net", "bash", "-c", &script, "bash"])
        .args([&root, &box_dir, &inside])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let launcher = i32::try_from(child.id()).unwrap();
    let log = box_dir.join("log");
    wait_for("the box counts", || numbers(&log).len() > 2);
    let children = fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children")).unwrap();
    let pid = children.trim().parse().unwrap();
    Boxed { tree: Tree { pid, child: Some(child) }, box_dir, inside }
}

impl Boxed {
    pub(crate) fn mounts(&self) -> Vec<ExternalMount> {
        vec![ExternalMount { key: "box".to_owned(), path: self.inside.clone() }]
    }

    pub(crate) fn network(&self) -> ExternalNetwork {
        let inode = fs::metadata(format!("/proc/{}/ns/net", self.tree.pid)).unwrap().ino();
        ExternalNetwork { key: "net".to_owned(), inode }
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.box_dir.join("log")
    }
}

/// A network namespace that nobody lives in.
pub(crate) fn new_network() -> OwnedFd {
    std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        fs::File::open("/proc/thread-self/ns/net").unwrap().into()
    })
    .join()
    .unwrap()
}

/// Options to restore a box into another directory, with the root made in CRIU's own namespace.
pub(crate) fn branch(images: &Path, log_dir: &Path, root: &Path, box_dir: &Path) -> RestoreOptions {
    let script = "mount --bind / \"$0\" && mount --make-private \"$0\" && exec \"$@\"";
    let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script];
    let mut runner: Vec<_> = words.iter().map(Into::into).collect();
    runner.push(root.into());
    let mut options = RestoreOptions::new(images, log_dir);
    options.runner = Runner(runner);
    options.root = Some(root.to_path_buf());
    options.mounts = vec![ExternalMount { key: "box".to_owned(), path: box_dir.to_path_buf() }];
    options.network = Some(("net".to_owned(), new_network()));
    options
}

/// Hooks that note what they see and do one thing at one event.
pub(crate) struct At<F: FnMut(i32) -> Result<(), String>> {
    pub(crate) event: Event,
    pub(crate) act: F,
    pub(crate) seen: Vec<Event>,
    pub(crate) worker: i32,
}

impl<F: FnMut(i32) -> Result<(), String>> At<F> {
    pub(crate) fn new(event: Event, act: F) -> Self {
        Self { event, act, seen: Vec::new(), worker: 0 }
    }
}

impl<F: FnMut(i32) -> Result<(), String>> Hooks for At<F> {
    fn worker(&mut self, pid: i32, start_time: u64) {
        assert!(pid > 0 && start_time > 0);
        self.worker = pid;
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        self.seen.push(event.clone());
        if std::mem::discriminant(event) == std::mem::discriminant(&self.event) {
            return (self.act)(self.worker);
        }
        Ok(())
    }
}
