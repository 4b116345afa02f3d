//! Who the restored processes would be: credentials, namespaces, limits, priorities.
//!
//! CRIU runs as root and becomes, thread by thread, what the images say. So everything that makes a process mighty is
//! compared with what a process of this user may have: the eight ids and the groups are the user's, and every capability set but
//! the bounding one, which only limits what an `exec` may add, is empty.

use std::collections::BTreeSet;
use std::fs;

use sandbox::User;

use crate::Findings;
use crate::images::Images;
use crate::wire::Message;

/// Fields of `ids` that name namespaces.
const PID: u32 = 5;
const NET: u32 = 6;
const IPC: u32 = 7;
const UTS: u32 = 8;
const MNT: u32 = 9;
const USER: u32 = 10;
const CGROUP: u32 = 11;

/// `PER_LINUX32` and `ADDR_NO_RANDOMIZE`, which anybody may have; `MMAP_PAGE_ZERO` and the like are not among them.
const PERSONALITIES: u64 = 0x8 | 0x4_0000;
/// `SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE`.
const POLICIES: [u64; 3] = [0, 3, 5];
/// A dead process, waiting to be reaped: it has no credentials any more.
const DEAD: [u64; 2] = [2, 6];

pub(crate) fn check(images: &Images, user: &User, findings: &mut Findings) {
    let Some(inventory) = images.first("inventory") else {
        findings.add("there is no inventory");
        return;
    };
    if inventory.number(1) != Some(2) {
        findings.add("the images are of a version that is not known here");
    }
    let tree = images.of("pstree");
    if tree.is_empty() {
        findings.add("there are no processes");
    }
    let mut threads = BTreeSet::new();
    for process in tree {
        let pid = process.number(1).unwrap_or(0);
        check_process(images, pid, user, findings);
        namespaces(images, inventory, pid, findings);
        threads.insert(pid);
        if is_dead(images, pid) {
            // what CRIU writes as its threads is whatever was in memory there; it reads none of them
            continue;
        }
        for thread in process.numbers(5) {
            threads.insert(thread);
            check_thread(images, pid, thread, user, findings);
        }
    }
    // CRIU takes threads from pstree only, but then nothing else may be there
    for (number, _) in images.numbered("core") {
        if !number.parse().is_ok_and(|thread| threads.contains(&thread)) {
            findings.add(format!("core-{number} belongs to no process"));
        }
    }
    for kind in ["mountpoints", "netns"] {
        if images.numbered(kind).next().is_some() {
            findings.add(format!("there is a {kind} image, which no process outside of boxes has"));
        }
    }
    ipc(images, user, findings);
}

fn is_dead(images: &Images, pid: u64) -> bool {
    images
        .first(&format!("core-{pid}"))
        .and_then(|core| core.inner(3))
        .and_then(|task| task.number(1))
        .is_some_and(|state| DEAD.contains(&state))
}

fn check_process(images: &Images, pid: u64, user: &User, findings: &mut Findings) {
    let Some(core) = images.first(&format!("core-{pid}")) else {
        findings.add(format!("process {pid} has no core"));
        return;
    };
    let Some(task) = core.inner(3) else {
        findings.add(format!("process {pid} has no state"));
        return;
    };
    if is_dead(images, pid) {
        return;
    }
    if task.number(3).unwrap_or(0) & !PERSONALITIES != 0 {
        findings.add(format!("process {pid} has personality {:#x}", task.number(3).unwrap_or(0)));
    }
    let login = task.number(13).unwrap_or(u64::from(u32::MAX));
    if ![u64::from(u32::MAX), u64::from(user.uid), own_number("loginuid")].contains(&login) {
        findings.add(format!("process {pid} has the login uid {login}"));
    }
    let oom = task.number(14).map_or(0, u64::cast_signed);
    if oom < own_number("oom_score_adj").cast_signed().min(0) {
        findings.add(format!("process {pid} hides from the out-of-memory killer ({oom})"));
    }
    for (index, limit) in task.inner(8).into_iter().flat_map(|limits| limits.inners(1)).enumerate() {
        let hard = limit.number(2).unwrap_or(u64::MAX);
        if let Some(own) = own_hard_limit(index).filter(|own| hard > *own) {
            findings.add(format!("process {pid} has limit {index} at {hard}, above {own}"));
        }
    }
    for timer in task.inner(7).into_iter().flat_map(|timers| timers.inners(4)) {
        if is_alarm(timer.number(2)) {
            findings.add(format!("process {pid} has a timer that wakes the machine"));
        }
    }
}

/// `CLOCK_REALTIME_ALARM` and `CLOCK_BOOTTIME_ALARM` need a capability.
pub(crate) fn is_alarm(clock: Option<u64>) -> bool {
    matches!(clock, Some(8 | 9))
}

fn check_thread(images: &Images, pid: u64, thread: u64, user: &User, findings: &mut Findings) {
    let whose = format!("thread {thread} of process {pid}");
    let Some(core) = images.first(&format!("core-{thread}")) else {
        findings.add(format!("{whose} has no core"));
        return;
    };
    let Some(state) = core.inner(5) else {
        if !is_dead(images, pid) {
            findings.add(format!("{whose} has no state"));
        }
        return;
    };
    if !POLICIES.contains(&state.number(4).unwrap_or(0)) || state.number(5).unwrap_or(0) != 0 {
        findings.add(format!("{whose} asks for real-time scheduling"));
    }
    if state.number(3).map_or(0, u64::cast_signed) < 0 {
        findings.add(format!("{whose} asks for a priority above the usual"));
    }
    // CRIU moves a thread into a control group other than its process's even when it is told to leave them alone
    let group = images
        .first(&format!("core-{pid}"))
        .and_then(|core| core.inner(5))
        .and_then(|state| state.number(16));
    if state.number(16) != group {
        findings.add(format!("{whose} would be in another control group"));
    }
    match state.inner(10) {
        Some(creds) => credentials(creds, &whose, user, findings),
        None if is_dead(images, pid) => {}
        None => findings.add(format!("{whose} has no credentials and would stay root")),
    }
}

fn credentials(creds: &Message, whose: &str, user: &User, findings: &mut Findings) {
    for (field, what) in [(1, "uid"), (3, "effective uid"), (5, "saved uid"), (7, "file system uid")] {
        match creds.number(field) {
            Some(uid) if uid == u64::from(user.uid) => {}
            uid => findings.add(format!("{whose} has {what} {}", tell(uid))),
        }
    }
    for (field, what) in [(2, "gid"), (4, "effective gid"), (6, "saved gid"), (8, "file system gid")] {
        match creds.number(field) {
            Some(gid) if is_group(user, gid) => {}
            gid => findings.add(format!("{whose} has {what} {}", tell(gid))),
        }
    }
    for group in creds.numbers(14).filter(|group| !is_group(user, *group)) {
        findings.add(format!("{whose} is in group {group}"));
    }
    for (field, what) in [(9, "inheritable"), (10, "permitted"), (11, "effective"), (19, "ambient")] {
        if creds.numbers(field).any(|word| word != 0) {
            findings.add(format!("{whose} has {what} capabilities"));
        }
    }
    if creds.number(13) != Some(0) {
        findings.add(format!("{whose} has securebits {}", tell(creds.number(13))));
    }
    if !matches!(creds.bytes(15), b"" | b"unconfined") {
        findings.add(format!("{whose} has a security profile of its own"));
    }
}

fn tell(number: Option<u64>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}

/// Whether the user is in this group.
pub(crate) fn is_group(user: &User, gid: u64) -> bool {
    u64::from(user.gid) == gid || user.groups.iter().any(|own| u64::from(*own) == gid)
}

/// A process that was attached has no namespace of its own.
fn namespaces(images: &Images, inventory: &Message, pid: u64, findings: &mut Findings) {
    let (Some(ours), Some(own)) = (inventory.inner(3), images.first(&format!("ids-{pid}"))) else {
        if !is_dead(images, pid) {
            findings.add(format!("process {pid} does not say in which namespaces it is"));
        }
        return;
    };
    for (field, what) in [
        (PID, "pid"),
        (NET, "network"),
        (IPC, "ipc"),
        (UTS, "uts"),
        (MNT, "mount"),
        (USER, "user"),
        (CGROUP, "cgroup"),
    ] {
        if own.number(field) != ours.number(field) {
            findings.add(format!("process {pid} is in a foreign {what} namespace"));
        }
    }
}

/// SysV objects belong to the user.
fn ipc(images: &Images, user: &User, findings: &mut Findings) {
    for kind in ["ipcns-shm", "ipcns-sem", "ipcns-msg"] {
        for object in images.numbered(kind).flat_map(|(_, messages)| messages) {
            let Some(desc) = object.inner(1) else { continue };
            let id = desc.number(7).unwrap_or(0);
            if [2, 4].into_iter().any(|field| desc.number(field) != Some(user.uid.into()))
                || [3, 5].into_iter().any(|field| !is_group(user, desc.number(field).unwrap_or(u64::MAX)))
            {
                findings.add(format!("ipc object {id} belongs to somebody else"));
            }
        }
    }
}

/// A number from one of our own `/proc` files, as CRIU's worker will inherit it.
fn own_number(name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    text.trim().parse::<i64>().map_or(0, i64::cast_unsigned)
}

/// Our own hard limit, in the order of `RLIMIT_*`; `None` means there is none.
fn own_hard_limit(index: usize) -> Option<u64> {
    use rustix::process::Resource;
    let order = [
        Resource::Cpu,
        Resource::Fsize,
        Resource::Data,
        Resource::Stack,
        Resource::Core,
        Resource::Rss,
        Resource::Nproc,
        Resource::Nofile,
        Resource::Memlock,
        Resource::As,
        Resource::Locks,
        Resource::Sigpending,
        Resource::Msgqueue,
        Resource::Nice,
        Resource::Rtprio,
        Resource::Rttime,
    ];
    rustix::process::getrlimit(*order.get(index)?).maximum
}
