//! The little of `/proc` that is needed to leave a tree in a defined state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use base::proc;
pub(crate) use base::proc::Stat;
use rustix::process::{Pid, Signal, kill_process};

/// The process `pid`; `None` if there is none, or nothing can be said about it.
pub(crate) fn look(pid: i32) -> Option<Stat> {
    Stat::of(pid).ok().flatten()
}

/// Whether it is still the process that it was, running or not.
fn is_still_there(stat: &Stat) -> bool {
    look(stat.pid).is_some_and(|now| now.start_time == stat.start_time)
}

/// `root` and everything below it, parents before children; empty if `root` is gone.
pub(crate) fn tree(root: i32) -> Vec<Stat> {
    let mut children: BTreeMap<i32, Vec<Stat>> = BTreeMap::new();
    for stat in proc::pids().unwrap_or_default().into_iter().filter_map(look) {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut found: Vec<Stat> = look(root).into_iter().collect();
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
    if let (true, Some(pid)) = (is_still_there(stat), Pid::from_raw(stat.pid)) {
        // It may have ended since; there is nothing to do then.
        let _ = kill_process(pid, signal);
    }
}

/// Waits until every process of the tree stands still: a signal that stops them is on its way. Says whether they do.
pub(crate) fn wait_until_still(root: i32, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let tree = tree(root);
        if !tree.is_empty() && tree.iter().all(|stat| stat.is_stopped() || stat.is_over()) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lets every process below `root` run, also those that do not look stopped: one that its tracer has let go of a moment ago is about to stand
/// again, and so is one to which the signal that stops it is on its way. `SIGCONT` takes all of that back, whatever a process looks
/// like. Says whether all of them run at the end.
pub(crate) fn set_going(root: i32, patience: Duration) -> bool {
    for stat in tree(root) {
        signal(&stat, Signal::CONT);
    }
    continue_tree(root, patience)
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
    let Ok(Some(text)) = proc::read_text(pid, "cgroup") else { return };
    for place in proc::memberships(&text) {
        let path = place.path.trim_start_matches('/');
        let (file, frozen, word) = if place.is_unified {
            ("cgroup.freeze", "1", "0")
        } else if place.has("freezer") {
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
            .filter(|root| is_still_there(root))
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
    let dying: Vec<Stat> = pids.filter_map(look).filter(|stat| stat.is_dying).collect();
    wait_over(&dying, patience)
}

/// Waits until all of these are over.
fn wait_over(all: &[Stat], patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = all.iter().any(|stat| {
            look(stat.pid).is_some_and(|now| now.start_time == stat.start_time && !now.is_over())
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

    use nix::sys::ptrace;
    use nix::sys::wait::{WaitPidFlag, waitpid};
    use nix::unistd::Pid;

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
    fn a_stopped_process_is_continued() {
        let mut child = sleeper();
        let pid = pid_of(&child);
        signal(&look(pid).unwrap(), Signal::STOP);
        wait_for(|| look(pid).is_some_and(|stat| stat.is_stopped()));
        assert!(continue_tree(pid, Duration::from_secs(5)));
        wait_for(|| look(pid).is_some_and(|stat| !stat.is_stopped()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A process that was stopped and is traced stands; when it is let go of, it moves for a moment, on its way to where it was.
    #[test]
    fn one_that_is_about_to_stand_again_goes_on() {
        let mut child = sleeper();
        let pid = pid_of(&child);
        // One in some hundred rounds showed it. On a busy machine they are fewer, and the sleeper does not sleep for ever.
        let begun = Instant::now();
        for round in 0..1000 {
            if begun.elapsed() > Duration::from_secs(15) {
                break;
            }
            signal(&look(pid).unwrap(), Signal::STOP);
            wait_for(|| look(pid).is_some_and(|stat| stat.is_stopped()));
            // The tracer ends with its thread, and the kernel lets go for it.
            let tracer = std::thread::spawn(move || {
                ptrace::seize(Pid::from_raw(pid), ptrace::Options::empty()).unwrap();
                waitpid(
                    Pid::from_raw(pid),
                    Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WUNTRACED),
                )
                .unwrap();
                ptrace::detach(Pid::from_raw(pid), None).unwrap();
            });
            tracer.join().unwrap();
            assert!(set_going(pid, Duration::from_secs(5)));
            std::thread::sleep(Duration::from_micros(300));
            assert!(look(pid).is_some_and(|stat| !stat.is_stopped()), "it was left stopped in round {round}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn clearing_reaches_grandchildren() {
        let mut child = Command::new("sh").args(["-c", "sh -c 'sleep 60; :' & wait"]).spawn().unwrap();
        let pid = pid_of(&child);
        wait_for(|| tree(pid).len() == 3);
        let below: Vec<Stat> = tree(pid);
        assert!(clear(&[look(pid).unwrap()], Duration::from_secs(5)));
        child.wait().unwrap();
        for stat in below {
            assert!(
                look(stat.pid).is_none_or(|now| now.is_over() || now.start_time != stat.start_time),
                "{} is alive",
                stat.pid
            );
        }
    }
}
