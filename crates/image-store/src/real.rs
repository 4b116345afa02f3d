//! The way through the store with images that a real CRIU wrote, and that it restores.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cas_core::progress::Silent;
use checkpoint_criu::{Criu, DumpOptions, Leave, NoHooks, RestoreOptions};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::compare::{Change, compare};
use crate::materialise::lay_out;
use crate::tests::{assert_same, fresh, ingest, store};

/// Has memory of its own, memory that it shares with a child, and counts aloud.
const WORKLOAD: &str = "
import mmap, os, sys, time
os.closerange(3, 4096)
os.setsid()
heap = bytearray(os.urandom(1 << 20) * 24)
shared = mmap.mmap(-1, 4 << 20)
shared[:] = b'x' * len(shared)
if os.fork() == 0:
    time.sleep(100000)
n = 0
while True:
    n += 1
    heap[n * 4096 % len(heap)] ^= 255
    shared[n] = n % 256
    print(n, flush=True)
    time.sleep(0.01)
";

fn criu() -> Option<Criu> {
    let reason = match Criu::find(None) {
        _ if !rustix::process::geteuid().is_root() => "this needs root".to_owned(),
        Ok(criu) => return Some(criu),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{reason}");
    println!("skipped: images of a real CRIU because {reason}");
    None
}

fn wait_for(name: &str, what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < deadline, "{name}: it did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The whole lines that the workload has written.
fn lines(log: &Path) -> Vec<u64> {
    let text = fs::read_to_string(log).unwrap();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| line.parse().unwrap()).collect()
}

/// A process group that ends with the test.
struct Group {
    id: Pid,
    child: Option<Child>,
}

impl Group {
    fn start(log: &Path) -> Self {
        let child = Command::new("python3")
            .args(["-c", WORKLOAD])
            .stdin(Stdio::null())
            .stdout(fs::File::create(log).unwrap())
            .stderr(Stdio::null())
            .current_dir("/")
            .spawn()
            .unwrap();
        let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let group = Self { id, child: Some(child) };
        wait_for("it counts", || lines(log).len() > 2);
        group
    }

    /// Waits until all of it has gone, and its numbers are free.
    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
        wait_for("it has gone", || test_kill_process_group(self.id).is_err());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.id, Signal::KILL);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

#[test]
fn a_real_dump_comes_out_as_it_went_in_and_is_restored() {
    let Some(criu) = criu() else { return };
    let base = tempfile::tempdir().unwrap();
    let (store, logs) = (store(base.path()), fresh(base.path(), "logs"));
    let log = base.path().join("log");
    let mut group = Group::start(&log);
    let pid = group.id.as_raw_nonzero().get();

    let (first, second) = (fresh(base.path(), "first"), fresh(base.path(), "second"));
    let mut options = DumpOptions::new(pid, &first, &logs);
    criu.dump(&options, &mut NoHooks).unwrap();
    let (before, stats) = ingest(&store, &first, None);
    assert!(stats.memory_bytes > 28 << 20, "{stats:?}");
    let counted = lines(&log).len();
    wait_for("it goes on", || lines(&log).len() > counted + 5);

    options.images = second.clone();
    options.leave = Leave::Ended;
    criu.dump(&options, &mut NoHooks).unwrap();
    group.reap();
    let (after, stats) = ingest(&store, &second, Some(&before));
    assert!(stats.memory_bytes > 28 << 20 && stats.new_bytes < stats.memory_bytes / 8, "{stats:?}");

    let found = compare(&store, ("a", &before), ("b", &after)).unwrap();
    assert!(found.processes.is_empty() && found.files.is_empty(), "{found:?}");
    assert!(found.memory.iter().all(|change| change.change == Change::Changed), "{found:?}");
    assert!(
        found.memory.iter().any(|change| change.name == "[anon]" || change.name == "[heap]"),
        "{found:?}"
    );
    assert!(
        found.memory.iter().any(|change| change.name.to_string_lossy().starts_with("[shm:")),
        "{found:?}"
    );

    for (name, images, snapshot) in [("a", &first, &before), ("b", &second, &after)] {
        let out = fresh(base.path(), name);
        lay_out(&store, name, snapshot, &out, &Silent).unwrap();
        assert_same(images, &out);
        fs::remove_dir_all(images).unwrap();
    }
    let counted = lines(&log).len();
    let restored = criu.restore(&RestoreOptions::new(base.path().join("b"), &logs), &mut NoHooks).unwrap();
    assert_eq!(restored.pid, pid);
    wait_for("it counts on", || lines(&log).len() > counted + 3);
    let counted = lines(&log);
    assert!(counted.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{counted:?}");
}
