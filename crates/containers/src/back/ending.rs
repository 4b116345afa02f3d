//! The end of processes that are known by their numbers alone, because nobody who made them is left to ask.
//!
//! A number may be somebody else's by the time the signal is sent. So a process is held by a descriptor first, which stays its own for good, and
//! looked at after that: what is true of the number then is true of the process that is held.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use base::proc::{self, Stat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How often they are looked for.
const AGAIN: Duration = Duration::from_millis(10);

/// Whether it is there, and not dead with nobody having asked about it.
pub(super) fn runs(pid: i32) -> bool {
    Stat::of(pid).ok().flatten().is_some_and(|stat| !stat.is_over())
}

/// Sends SIGKILL to the process with this number, if it still is one that is meant.
pub(super) fn end(pid: i32, is_meant: impl Fn(i32) -> bool) {
    let Some(Ok(process)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return;
    };
    if is_meant(pid) {
        // One that is gone needs no signal.
        let _gone = pidfd_send_signal(process, Signal::KILL);
    }
}

/// Ends all processes that are meant, and waits until there are none; `false` if some are still there after this time. Only what runs may be
/// meant: the dead whom nobody has asked about stay.
pub(super) fn end_all(limit: Duration, is_meant: impl Fn(i32) -> bool) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let there: Vec<i32> = proc::pids()?.into_iter().filter(|pid| is_meant(*pid)).collect();
        if there.is_empty() {
            return Ok(true);
        }
        there.into_iter().for_each(|pid| end(pid, &is_meant));
        if Instant::now() >= deadline {
            return Ok(false);
        }
        thread::sleep(AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> (Child, i32) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        (child, pid)
    }

    #[test]
    fn what_is_meant_is_ended_and_nobody_else() {
        let ((mut meant, pid), (mut other, bystander)) = (sleeper(), sleeper());
        assert!(end_all(Duration::from_secs(10), |one| one == pid && runs(one)).unwrap());
        assert_eq!(meant.wait().unwrap().signal(), Some(9));
        assert!(runs(bystander));
        other.kill().unwrap();
        other.wait().unwrap();
    }

    /// Between the look at the list and the signal the number may have become somebody else's: what the second look says counts.
    #[test]
    fn one_that_is_somebody_else_by_then_is_left_alone() {
        let (mut child, pid) = sleeper();
        let looks = Cell::new(0);
        let only_at_first = |one| one == pid && looks.replace(looks.get() + 1) == 0;
        assert!(end_all(Duration::from_secs(10), only_at_first).unwrap());
        assert_eq!(looks.get(), 3, "in the list, by its descriptor, in the list again");
        assert!(runs(pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_does_not_end_is_not_waited_for_without_end() {
        let own = i32::try_from(std::process::id()).unwrap();
        let looks = Cell::new(0_u32);
        // Meant whenever the list is looked through, and never when it is to be ended.
        let only_listed = |one| one == own && looks.replace(looks.get() + 1).is_multiple_of(2);
        assert!(!end_all(Duration::ZERO, only_listed).unwrap());
    }
}
