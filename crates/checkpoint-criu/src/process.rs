//! The little of `/proc` that is needed to leave a tree in a defined state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// What `/proc/<pid>/stat` says of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    pub(crate) state: u8,
    pub(crate) ppid: i32,
    pub(crate) start_time: u64,
    /// Whether it was killed, or is about to end, and has not got there yet.
    pub(crate) is_dying: bool,
}

const PF_EXITING: u64 = 4;

impl Stat {
    /// The process `pid`; `None` if there is none.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Stopped by a signal or by a tracer.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Stopped by a tracer.
    pub(crate) fn is_traced(&self) -> bool {
        self.state == b't'
    }

    /// Over, whether reaped or not.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// The name of a process may hold anything, brackets included: the last bracket ends it.
fn parse(pid: i32, text: &[u8]) -> Option<Stat> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        ppid: fields.get(1)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
        is_dying: {
            let flags: u64 = fields.get(6)?.parse().ok()?;
            flags & PF_EXITING != 0 || fields.get(49).is_some_and(|exit_code| *exit_code != "0")
        },
    })
}

/// `root` and everything below it, parents before children; empty if `root` is gone.
pub(crate) fn tree(root: i32) -> Vec<Stat> {
    let mut children: BTreeMap<i32, Vec<Stat>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(stat) = pid.and_then(Stat::of) {
            children.entry(stat.ppid).or_default().push(stat);
        }
    }
    let mut found: Vec<Stat> = Stat::of(root).into_iter().collect();
    let mut next = 0;
    while let Some(stat) = found.get(next) {
        let below = children.remove(&stat.pid).unwrap_or_default();
        found.extend(below);
        next += 1;
    }
    found
}

/// Sends `signal` to `pid` if it is still the process that `stat` was of.
fn signal(stat: &Stat, signal: Signal) {
    let same = Stat::of(stat.pid).is_some_and(|now| now.start_time == stat.start_time);
    if let (true, Some(pid)) = (same, Pid::from_raw(stat.pid)) {
        // It may have ended since; there is nothing to do then.
        let _ = kill_process(pid, signal);
    }
}

/// Lets stopped processes below `root` run. Says whether all of them do at the end.
pub(crate) fn continue_tree(root: i32, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let stopped: Vec<Stat> = tree(root).into_iter().filter(Stat::is_stopped).collect();
        if stopped.is_empty() {
            return true;
        }
        for stat in &stopped {
            thaw(stat.pid);
            signal(stat, Signal::CONT);
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Thaws the freezer of the process's cgroup, if it is frozen: CRIU does not use it unless told to, but a pause of ours may.
pub(crate) fn thaw(pid: i32) {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else { return };
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let path = path.trim_start_matches('/');
        let (file, frozen, word) = if controllers.is_empty() {
            ("cgroup.freeze", "1", "0")
        } else if controllers.split(',').any(|controller| controller == "freezer") {
            ("freezer.state", "FROZEN", "THAWED")
        } else {
            continue;
        };
        for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/freezer"] {
            let state = Path::new(mount).join(path).join(file);
            if fs::read_to_string(&state).is_ok_and(|now| now.trim() == frozen) {
                // Without the right to do it there is nothing else to try; the caller sees what is still stopped.
                let _ = fs::write(&state, word);
            }
        }
    }
}

/// Ends the processes `roots` and everything below them, and waits until they are over. Processes are stopped first, parents
/// before children, so that none can start another while we look.
pub(crate) fn clear(roots: &[Stat], patience: Duration) -> bool {
    let mut seen: BTreeSet<(i32, u64)> = BTreeSet::new();
    let mut all: Vec<Stat> = Vec::new();
    loop {
        let mut fresh: Vec<Stat> = roots
            .iter()
            // A number that is somebody else's by now is not ours to touch.
            .filter(|root| Stat::of(root.pid).is_some_and(|now| now.start_time == root.start_time))
            .flat_map(|root| tree(root.pid))
            .collect();
        fresh.retain(|stat| seen.insert((stat.pid, stat.start_time)));
        if fresh.is_empty() {
            break;
        }
        for stat in &fresh {
            signal(stat, Signal::STOP);
        }
        all.extend(fresh);
    }
    for stat in &all {
        signal(stat, Signal::KILL);
    }
    wait_over(&all, patience)
}

/// Waits for those of `pids` that are dying, and for no others.
pub(crate) fn wait_for_the_dying(pids: impl Iterator<Item = i32>, patience: Duration) -> bool {
    let dying: Vec<Stat> = pids.filter_map(Stat::of).filter(|stat| stat.is_dying).collect();
    wait_over(&dying, patience)
}

/// Waits until all of these are over.
fn wait_over(all: &[Stat], patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = all.iter().any(|stat| {
            Stat::of(stat.pid).is_some_and(|now| now.start_time == stat.start_time && !now.is_over())
        });
        if !left {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    fn pid_of(child: &Child) -> i32 {
        i32::try_from(child.id()).unwrap()
    }

    fn wait_for(what: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !what() {
            assert!(Instant::now() < deadline, "it did not happen");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_name_full_of_brackets_is_no_trap() {
        let mut text = b"17 (a) b) R 3 17 17 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 9 9".to_vec();
        let stat = parse(17, &text).unwrap();
        assert_eq!((stat.state, stat.ppid, stat.start_time), (b'R', 3, 4711));
        text.truncate(20);
        assert_eq!(parse(17, &text), None);
    }

    #[test]
    fn a_stopped_process_is_continued() {
        let mut child = sleeper();
        let pid = pid_of(&child);
        signal(&Stat::of(pid).unwrap(), Signal::STOP);
        wait_for(|| Stat::of(pid).is_some_and(|stat| stat.is_stopped()));
        assert!(continue_tree(pid, Duration::from_secs(5)));
        wait_for(|| Stat::of(pid).is_some_and(|stat| !stat.is_stopped()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn clearing_reaches_grandchildren() {
        let mut child = Command::new("sh").args(["-c", "sh -c 'sleep 60; :' & wait"]).spawn().unwrap();
        let pid = pid_of(&child);
        wait_for(|| tree(pid).len() == 3);
        let below: Vec<Stat> = tree(pid);
        assert!(clear(&[Stat::of(pid).unwrap()], Duration::from_secs(5)));
        child.wait().unwrap();
        for stat in below {
            assert!(
                Stat::of(stat.pid).is_none_or(|now| now.is_over() || now.start_time != stat.start_time),
                "{} is alive",
                stat.pid
            );
        }
    }
}
