//! Signals for the main command of a box.
//!
//! Process 1 of a box starts the main command first, so among its children that is the one with the lowest number inside: who
//! comes later, a sidecar or an orphan, has a higher one, because numbers below 300 are given once and not again after the
//! kernel has counted through. CRIU restores the numbers inside, so this also holds after a restore.
//!
//! The command leads a process group of its own. `kill(2)` on a group goes by number, and numbers are reused; so each member is
//! signalled by its pidfd, and the group is looked through again until nobody is new in it.

use std::collections::BTreeSet;

use crate::error::{Result, SandboxError};
use crate::process::{Identity, ProcessInfo, Signal, tree};

/// How often a group is looked through. A program that forks faster than that cannot be caught up with.
const ROUNDS: usize = 8;

/// Sends a signal to the main command of the box whose first process is `init`, or to its whole process group. What has no
/// box (`boxed` is false) is its own main command.
pub fn signal_main(init: Identity, boxed: bool, signal: Signal, group: bool) -> Result<()> {
    let mut signalled = BTreeSet::new();
    for _ in 0..ROUNDS {
        let processes = tree(init.pid)?;
        // Its number may be another's by now, and then all of this tree is.
        let first = processes.first().filter(|first| first.identity() == init);
        let main = first.and_then(|first| if boxed { main_of(first, &processes) } else { Some(first) });
        // Not there, or not there any more, which a signal may have brought about.
        let Some(main) = main else { break };
        let is_meant = |one: &&ProcessInfo| match group {
            true => one.group == main.group,
            false => one.pid == main.pid,
        };
        let mut anybody_new = false;
        for one in processes.iter().filter(is_meant).filter(|one| !one.is_zombie()) {
            if !signalled.insert(one.identity()) {
                continue;
            }
            match one.identity().signal(signal) {
                Ok(()) => anybody_new = true,
                // It has ended since we looked, which is nothing to complain of.
                Err(SandboxError::Gone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // All that were there have it now; the next round finds whom they started meanwhile.
        if !anybody_new || !group {
            break;
        }
    }
    if signalled.is_empty() { Err(SandboxError::Gone { pid: init.pid }) } else { Ok(()) }
}

fn main_of<'a>(init: &ProcessInfo, processes: &'a [ProcessInfo]) -> Option<&'a ProcessInfo> {
    let children = processes.iter().filter(|one| one.ppid == init.pid);
    children.min_by_key(|one| one.namespace_pids.last().copied().unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    fn shell(script: &str) -> (std::process::Child, Identity) {
        let child = Command::new("sh").args(["-c", script]).process_group(0).spawn().expect("sh runs");
        let pid = i32::try_from(child.id()).expect("pids fit");
        (child, Identity::of(pid).expect("/proc is readable").expect("it runs"))
    }

    /// Waits until a process has so many below it.
    fn wait_for(root: Identity, below: usize) -> Vec<ProcessInfo> {
        for _ in 0..1000 {
            let processes = tree(root.pid).expect("a tree");
            if processes.len() > below {
                return processes;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing was started below {}", root.pid);
    }

    #[test]
    fn a_group_is_signalled_and_nobody_else() {
        let (mut child, root) = shell("sleep 1000 & setsid sleep 1000 & wait");
        let processes = wait_for(root, 2);
        signal_main(root, false, Signal::TERM, true).expect("it runs");
        child.wait().expect("the shell has ended");
        let (same, other): (Vec<_>, Vec<_>) = processes.iter().skip(1).partition(|one| one.group == root.pid);
        for one in same {
            assert!(one.identity().wait_gone(Duration::from_secs(10)), "{one:?}");
        }
        for one in other {
            // Whether `setsid` had made its own group when we looked is its business; it is ended in any case.
            let _gone = one.identity().signal(Signal::KILL);
        }
        assert!(matches!(signal_main(root, false, Signal::TERM, true), Err(SandboxError::Gone { .. })));
    }

    #[test]
    fn the_main_command_of_a_box_is_its_first_child() {
        let (mut child, root) = shell("sleep 1000 & sleep 1001 & wait");
        let processes = wait_for(root, 2);
        signal_main(root, true, Signal::TERM, false).expect("it runs");
        let first = processes.iter().skip(1).min_by_key(|one| one.pid).expect("two were started");
        let last = processes.iter().skip(1).max_by_key(|one| one.pid).expect("two were started");
        assert!(first.identity().wait_gone(Duration::from_secs(10)));
        assert!(last.identity().is_alive() && root.is_alive());
        last.identity().signal(Signal::KILL).expect("it runs");
        child.wait().expect("the shell has ended");
    }

    #[test]
    fn another_process_with_the_number_is_left_alone() {
        let (mut child, root) = shell("exec sleep 1000");
        let stranger = Identity { start_time: root.start_time + 1, ..root };
        assert!(matches!(signal_main(stranger, false, Signal::KILL, true), Err(SandboxError::Gone { .. })));
        assert!(root.is_alive());
        root.signal(Signal::KILL).expect("it runs");
        child.wait().expect("it has ended");
    }
}
