//! Targets that cannot run: their memory can be read, their helper cannot answer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cuda_sim::checkpoint::state::State;
use cuda_sim::code::Code;
use nix::sys::signal::Signal;

use super::world::{Target, World, skip, state, until};

/// A group of processes that can be frozen; it is taken away at the end.
struct Group {
    path: PathBuf,
    second: bool,
}

impl Group {
    fn new(second: bool) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let fits = if second {
                words[2] == "cgroup2"
            } else {
                words[2] == "cgroup" && words[3].contains("freezer")
            };
            fits.then(|| PathBuf::from(words[1]))
        });
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = mount.map(|mount| mount.join(format!("cuda-sim-{}-{number}", std::process::id())));
        match path.filter(|path| fs::create_dir(path).is_ok()) {
            Some(path) => Some(Self { path, second }),
            None => {
                println!(
                    "skipped: a freezer of cgroup {} because this machine has none",
                    if second { 2 } else { 1 }
                );
                None
            }
        }
    }

    fn freeze(&self, pid: i32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).unwrap();
        if self.second {
            fs::write(self.path.join("cgroup.freeze"), "1").unwrap();
            let frozen = || fs::read_to_string(self.path.join("cgroup.events")).unwrap().contains("frozen 1");
            until("the group is frozen", || frozen().then_some(()));
        } else {
            fs::write(self.path.join("freezer.state"), "FROZEN").unwrap();
            let frozen = || fs::read_to_string(self.path.join("freezer.state")).unwrap().trim() == "FROZEN";
            until("the group is frozen", || frozen().then_some(()));
        }
    }

    fn thaw(&self) {
        let (file, word) = if self.second { ("cgroup.freeze", "0") } else { ("freezer.state", "THAWED") };
        fs::write(self.path.join(file), word).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.thaw();
        // The last process may still be on its way out; what holds the group must not outlive the test.
        let parent = self.path.parent().unwrap().join("cgroup.procs");
        for pid in fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(&parent, pid);
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// What holds for every frozen target.
fn frozen(world: &World, target: &Target, thaw: impl FnOnce()) {
    let before_thread = world.caller().restore_thread(target.pid);
    assert!(before_thread.is_ok(), "the thread's number is in memory: {before_thread:?}");
    let begin = Instant::now();
    assert_eq!(world.caller().lock(target.pid, Some(Duration::from_millis(500))), Err(Code::NOT_READY));
    assert!((500..10_000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| world.caller().state(target.pid));
        until("the state is asked for", || (world.status()["calls"]["getstate"] == 1).then_some(()));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!asked.is_finished(), "a frozen target cannot say its state");
        thaw();
        assert_eq!(
            asked.join().unwrap(),
            Ok(State::Running.number()),
            "the lock that ran out did not happen later"
        );
    });
}

#[test]
fn stopped_by_a_signal() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    target.signal(Signal::SIGSTOP);
    frozen(&world, &target, || target.signal(Signal::SIGCONT));
    target.assert_whole(&before);
}

#[test]
fn frozen_by_a_group() {
    for second in [false, true] {
        let Some(world) = World::new() else { return };
        let Some(group) = Group::new(second) else { continue };
        let target = Target::start(&world, &[]);
        let before = target.report();
        group.freeze(target.pid);
        frozen(&world, &target, || group.thaw());
        target.assert_whole(&before);
        drop(target);
    }
}

/// As seen with the real driver: a request whose caller was killed is carried out once the target runs again.
#[test]
fn an_orphaned_request_is_carried_out() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    let caller = world.caller();
    caller.lock(target.pid, None).unwrap();
    target.signal(Signal::SIGSTOP);
    let mut other = Command::new(super::world::PROGRAM)
        .args(["cuda-checkpoint", "--action", "checkpoint", "--pid", &target.pid.to_string()])
        .envs(world.environment())
        .spawn()
        .unwrap();
    until("the other caller has begun", || (world.status()["calls"]["checkpoint"] == 1).then_some(()));
    // It writes its request right after the server's answer, and then waits in poll.
    until("the request is in the pipe", || {
        let call = fs::read_to_string(format!("/proc/{}/syscall", other.id())).unwrap_or_default();
        let waits = call.starts_with("7 ") || call.starts_with("271 ");
        waits.then_some(())
    });
    other.kill().unwrap();
    other.wait().unwrap();
    target.signal(Signal::SIGCONT);
    until("the orphaned request is carried out", || {
        (state(&world, &target) == State::Checkpointed).then_some(())
    });
    caller.restore(target.pid, Vec::new()).unwrap();
    caller.unlock(target.pid).unwrap();
    target.assert_whole(&before);
}

#[test]
fn there_is_a_freezer_here() {
    if Group::new(false).is_none() && Group::new(true).is_none() {
        skip("there is no freezer of any kind");
    }
}

/// CRIU's own plugin stops all threads and lets only the helper run: after Lock that must be enough.
#[test]
fn the_helper_alone_is_enough() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    let caller = world.caller();
    let helper = caller.restore_thread(target.pid).unwrap();
    caller.lock(target.pid, None).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checkpoint/stop_others.py");
    let mut stopper = Command::new("/usr/bin/python3")
        .arg(script)
        .args([target.pid.to_string(), helper.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(stopper.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "stopped\n");
    caller.checkpoint(target.pid).unwrap();
    assert_eq!(world.status()["bytes"], 0);
    caller.restore(target.pid, Vec::new()).unwrap();
    caller.unlock(target.pid).unwrap();
    assert_eq!(state(&world, &target), State::Running);
    drop(stopper.stdin.take());
    assert!(stopper.wait().unwrap().success());
    target.assert_whole(&before);
}
