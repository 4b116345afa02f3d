//! What the tests with a real CRIU share: a workload that counts, alone or in namespaces of its own.
//!
//! No mount is ever made in the namespace of the test itself, so nothing that removes a test's directory can reach through one.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests, which fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use checkpoint_criu::{Criu, DumpOptions, Event, Habitat, Hooks, RestoreOptions, Runner};
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

/// Namespaces of a box, a user namespace among them, with a process 1 that no dump contains; CRIU runs inside, with their rights
/// only. Everything ends with process 1.
pub(crate) struct Boxed {
    launcher: Child,
    holder: i32,
    box_dir: PathBuf,
    pub(crate) inside: PathBuf,
}

/// The number of the tree's root, inside.
pub(crate) const ROOT: i32 = 300;

/// `$1` is seen at `$2`. CRIU keeps notes in /run, which must not be the machine's, and tries the loopback.
const INNER: &str = r#"
set -e
mount --bind "$1" "$2"
mount -t tmpfs none /run
mount -t proc proc /proc
ip link set lo up
touch "$2/log"
"#;

/// A box that is empty.
pub(crate) fn empty_box(scratch: &Scratch, name: &str) -> Boxed {
    make_box(scratch, name, "")
}

/// A box whose tree counts.
pub(crate) fn boxed(scratch: &Scratch) -> Boxed {
    let count = format!(
        "echo {} >/proc/sys/kernel/ns_last_pid\n(cd /; exec setsid sh -c '{COUNT}' </dev/null >>\"$2/log\" 2>&1) &",
        ROOT - 1
    );
    let made = make_box(scratch, "box", &count);
    wait_for("the box counts", || numbers(&made.log()).len() > 2);
    made
}

fn make_box(scratch: &Scratch, name: &str, more: &str) -> Boxed {
    let (box_dir, inside) = (scratch.sub(name), scratch.dir.path().join("inside"));
    if !inside.exists() {
        fs::create_dir(&inside).unwrap();
    }
    let script = format!("{INNER}\n{CLOSE}\n{more}\nexec sleep infinity </dev/null >/dev/null 2>&1");
    let mut launcher = Command::new("unshare");
    launcher.args(["--user", "--map-root-user", "--mount", "--propagation", "private", "--pid", "--fork"]);
    launcher.args(["--kill-child", "--ipc", "--uts", "--net", "bash", "-c", &script, "bash"]);
    let launcher = launcher.args([&box_dir, &inside]).stdin(Stdio::null()).spawn().unwrap();
    let mut made = Boxed { holder: 0, launcher, inside, box_dir: box_dir.clone() };
    wait_for("the box is up", || box_dir.join("log").exists());
    made.holder = only_child(i32::try_from(made.launcher.id()).unwrap()).unwrap();
    made
}

fn only_child(pid: i32) -> Option<i32> {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap().trim().parse().ok()
}

impl Boxed {
    pub(crate) fn log(&self) -> PathBuf {
        self.box_dir.join("log")
    }

    /// The tree's root as the machine numbers it.
    pub(crate) fn root(&self) -> i32 {
        only_child(self.holder).unwrap()
    }

    fn runner(&self) -> Runner {
        let holder = self.holder.to_string();
        let words = ["nsenter", "--target", &holder, "--user", "--preserve-credentials", "--mount", "--pid"];
        let more = ["--ipc", "--uts", "--net", "--", "env", "XDG_RUNTIME_DIR=/run"];
        Runner(words.into_iter().chain(more).map(Into::into).collect())
    }

    /// The machine's directories have the same paths inside.
    fn habitat(images: &Path, log_dir: &Path) -> Habitat {
        Habitat::Box { images: images.to_owned(), log_dir: log_dir.to_owned(), root: ROOT }
    }

    pub(crate) fn dump_options(&self, images: &Path, log_dir: &Path) -> DumpOptions {
        DumpOptions {
            runner: self.runner(),
            habitat: Self::habitat(images, log_dir),
            ..DumpOptions::new(self.root(), images, log_dir)
        }
    }

    pub(crate) fn restore_options(&self, images: &Path, log_dir: &Path) -> RestoreOptions {
        RestoreOptions {
            runner: self.runner(),
            habitat: Self::habitat(images, log_dir),
            ..RestoreOptions::new(images, log_dir)
        }
    }
}

impl Drop for Boxed {
    fn drop(&mut self) {
        if let Some(holder) = Pid::from_raw(self.holder) {
            let _ = kill_process(holder, Signal::KILL);
        }
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
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
