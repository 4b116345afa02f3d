//! What processes are doing, who they are, and how much memory they have.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Needs, Preflight, Process};

/// Where a thread waits when a freezer holds it; the first is that of cgroup v2, the other that of v1.
const FROZEN: [&str; 2] = ["do_freezer_trap", "__refrigerator"];

/// Whoever of us traces a process has let it go by then, on a busy machine, too.
const LONG_FOR_US: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// The value of a line of `status`.
pub(super) fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
}

/// Looks at one process and its threads.
pub(super) fn examine(
    proc: &Path,
    init: i32,
    process: &Process,
    status: &str,
    needs: &Needs,
    found: &mut Preflight,
) {
    if let Some(tracer) = debugger(process, status) {
        let name = super::comm(proc, tracer.parse().unwrap_or(0));
        found.refusals.push(process.problem(
            "a debugger",
            format!("it is traced by {name} ({tracer})"),
            "detach the debugger (or strace): a process has room for one tracer, and the snapshot needs it",
        ));
    }
    if let Some(uid) = needs.uid.map(|uid| uid.to_string()) {
        let ids = field(status, "Uid");
        if ids.split_whitespace().any(|id| id != uid) {
            found.refusals.push(process.problem(
                "a process of another user",
                format!("its user ids are {}", ids.split_whitespace().collect::<Vec<_>>().join(" ")),
                "end it: a session is restored as its owner only",
            ));
        }
    }
    namespaces(proc, init, process, found);
    threads(process, found);
}

/// Who traces a process and goes on doing so.
///
/// We look into what we follow for some milliseconds now and then, and never while it is dumped: in a thread of ours, or in a process of its own
/// that leads it through a call. The latter cannot be told from a debugger but by how long it stays.
fn debugger(process: &Process, status: &str) -> Option<String> {
    let begun = Instant::now();
    let mut status = status.to_owned();
    loop {
        let tracer = field(&status, "TracerPid");
        if matches!(tracer, "" | "0") || Path::new("/proc/self/task").join(tracer).exists() {
            return None;
        }
        if begun.elapsed() >= LONG_FOR_US {
            return Some(tracer.to_owned());
        }
        std::thread::sleep(BETWEEN_LOOKS);
        // One that is gone is traced by nobody.
        status = fs::read_to_string(process.directory.join("status")).unwrap_or_default();
    }
}

/// Namespaces within the session are not restored.
fn namespaces(proc: &Path, init: i32, process: &Process, found: &mut Preflight) {
    let first = proc.join(init.to_string()).join("ns");
    let different: Vec<&str> = ["user", "mnt", "net", "pid", "ipc", "uts", "cgroup"]
        .into_iter()
        .filter(|name| {
            let own = fs::read_link(process.directory.join("ns").join(name)).ok();
            let of_init = fs::read_link(first.join(name)).ok();
            own.is_some() && of_init.is_some() && own != of_init
        })
        .collect();
    if !different.is_empty() {
        found.refusals.push(process.problem(
            "namespaces within the session",
            format!("it is in other namespaces than the session ({})", different.join(", ")),
            "end what made them (a container, a sandboxed browser, unshare)",
        ));
    }
}

fn threads(process: &Process, found: &mut Preflight) {
    let (mut stopped, mut frozen, mut waiting, mut count) = (0_usize, 0_usize, 0_usize, 0_usize);
    for task in fs::read_dir(process.directory.join("task")).into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let status = read("status");
        let (state, wchan) = (field(&status, "State"), read("wchan"));
        let wchan = wchan.trim();
        count += 1;
        if wchan.contains("vfork") {
            found.refusals.push(process.problem(
                "a half-started child",
                format!("thread {} waits for a vfork to end", task.file_name().to_string_lossy()),
                "try again in a moment",
            ));
        }
        let held = FROZEN.contains(&wchan);
        frozen += usize::from(held);
        stopped += usize::from(state.starts_with('T'));
        waiting += usize::from(state.starts_with('D') && !held && !wchan.contains("vfork"));
    }
    if frozen > 0 {
        found.refusals.push(process.problem(
            "a frozen process",
            format!("{frozen} of {count} threads are held by a freezer"),
            "thaw its cgroup (write 0 to cgroup.freeze, or THAWED to freezer.state)",
        ));
    }
    if stopped > 0 {
        found.warnings.push(process.problem(
            "a stopped process",
            format!("{stopped} of {count} threads are stopped"),
            "it will be stopped in the snapshot too; `kill -CONT` lets it go on",
        ));
    }
    if waiting > 0 {
        found.warnings.push(process.problem(
            "a process that waits for the disk",
            format!("{waiting} of {count} threads cannot be interrupted now"),
            "the snapshot waits for them; if it takes long, look at the disk or the network file system",
        ));
    }
}

/// Bytes of memory that only this process has, in memory and in swap.
pub(super) fn private_memory(status: &str) -> u64 {
    kibibytes(status, "RssAnon").saturating_add(kibibytes(status, "VmSwap"))
}

/// Bytes of shared memory. Several processes may show the same: the largest share is a fair guess, the sum is not.
pub(super) fn shared_memory(proc: &Path, tree: &[i32]) -> u64 {
    let of = |pid: &i32| {
        let status = fs::read_to_string(proc.join(pid.to_string()).join("status")).unwrap_or_default();
        kibibytes(&status, "RssShmem")
    };
    tree.iter().map(of).max().unwrap_or(0)
}

fn kibibytes(status: &str, name: &str) -> u64 {
    let number = field(status, name).split(' ').next().unwrap_or_default();
    number.parse::<u64>().unwrap_or(0).saturating_mul(1024)
}
