//! Processes that stand still: refused before anything is locked, or let go for as long as it takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use checkpoint_cuda::{GpuMap, LockOptions, NoNotes, Target};

use crate::machine::{LIMIT, Machine, Process, wait_until};

/// A cgroup that is removed again.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(parent: &Path) -> Option<Self> {
        let path = parent.join(format!("infinijup-test-{}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                let required = std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_some_and(|value| value == "1");
                assert!(!required || !parent.exists(), "{}: {error}", path.display());
                println!("skipped: a frozen cgroup because {}: {error}", path.display());
                None
            }
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Once its processes are gone, which takes a moment.
        for _ in 0..200 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Refused in no time and without a call; then, as asked, let go, locked, brought back and frozen again.
fn refused_then_thawed(machine: &Machine, processes: [&Process; 2], is_frozen: &dyn Fn() -> bool) {
    let driver = machine.driver();
    let targets = processes.map(Process::target);
    wait_until("the freeze", is_frozen);
    let start = Instant::now();
    let error = driver.lock(&targets, &mut NoNotes).unwrap_err();
    assert_eq!((error.code(), error.pid()), ("IJ-G014", Some(processes[1].pid())), "{error}");
    assert!(start.elapsed() < LIMIT);
    assert_eq!(driver.find(&[processes[1].pid()]).unwrap_err().code(), "IJ-G014");
    assert_eq!(machine.calls("lock"), 0);

    let options = LockOptions { thaw: true, ..LockOptions::default() };
    let locked = driver.lock_with(&targets, &options, &mut NoNotes).unwrap();
    assert!(!is_frozen());
    let tree = locked.checkpoint(&mut NoNotes).unwrap();
    tree.restore(&GpuMap::identity(), &mut NoNotes).unwrap().unlock().unwrap();
    wait_until("the freeze again", is_frozen);
}

#[test]
fn a_stopped_process() {
    let Some(machine) = Machine::new(580) else { return };
    let (one, two) = (Process::new(&machine, 8, &[0]), Process::new(&machine, 8, &[1]));
    two.signal("-STOP");
    refused_then_thawed(&machine, [&one, &two], &|| two.is_stopped());
    two.signal("-CONT");
    one.is_whole();
    two.is_whole();
}

#[test]
fn a_frozen_cgroup_of_version_1() {
    let Some(machine) = Machine::new(580) else { return };
    let (one, two) = (Process::new(&machine, 8, &[0]), Process::new(&machine, 8, &[1]));
    let Some(cgroup) = Cgroup::new(Path::new("/sys/fs/cgroup/freezer")) else { return };
    let inner = Cgroup::new(&cgroup.0).unwrap();
    two.join(&inner.0);
    // The one above it is frozen.
    let state = cgroup.0.join("freezer.state");
    fs::write(&state, "FROZEN").unwrap();
    let is_frozen = || fs::read_to_string(&state).unwrap().trim() == "FROZEN";
    refused_then_thawed(&machine, [&one, &two], &is_frozen);
    fs::write(&state, "THAWED").unwrap();
    one.is_whole();
    two.is_whole();
    drop((one, two));
    drop(inner);
}

#[test]
fn a_frozen_cgroup_of_version_2() {
    let Some(machine) = Machine::new(580) else { return };
    let (one, two) = (Process::new(&machine, 8, &[0]), Process::new(&machine, 8, &[1]));
    let unified = Path::new("/sys/fs/cgroup/unified");
    let root = if unified.exists() { unified } else { Path::new("/sys/fs/cgroup") };
    let Some(cgroup) = Cgroup::new(root) else { return };
    let inner = Cgroup::new(&cgroup.0).unwrap();
    two.join(&inner.0);
    fs::write(cgroup.0.join("cgroup.freeze"), "1").unwrap();
    let is_frozen = || fs::read_to_string(inner.0.join("cgroup.events")).unwrap().contains("frozen 1");
    refused_then_thawed(&machine, [&one, &two], &is_frozen);
    fs::write(cgroup.0.join("cgroup.freeze"), "0").unwrap();
    one.is_whole();
    two.is_whole();
    drop((one, two));
    drop(inner);
}

#[test]
fn a_cgroup_that_cannot_take_the_memory() {
    let Some(machine) = Machine::new(580) else { return };
    let driver = machine.driver();
    let process = Process::new(&machine, 8, &[0]);
    let Some(cgroup) = Cgroup::new(Path::new("/sys/fs/cgroup/memory")) else { return };
    fs::write(cgroup.0.join("memory.limit_in_bytes"), (64 << 20).to_string()).unwrap();
    process.join(&cgroup.0);
    let target = Target { pid: process.pid(), vram_bytes: 128 << 20 };
    let error = driver.lock(&[target], &mut NoNotes).unwrap_err();
    assert_eq!(error.code(), "IJ-G020");
    assert!(error.to_string().contains("/sys/fs/cgroup/memory/infinijup-test-"), "{error}");
    assert_eq!(machine.calls("lock"), 0);
    process.is_whole();
    drop(process);
}
