//! Processes that the driver is asked to work on: alive, and the one that was meant.
//!
//! The driver takes the id of any thread for its process, and waits for ever for one that is gone. So ids are made those of
//! whole processes, and a pidfd watches each call: it becomes readable when the process ends, also while it is a zombie that
//! nobody has collected, which `kill(pid, 0)` would call alive.

use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use base::proc::{self, Stat};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::{CudaError, Result};

/// One process, whatever becomes of its number.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its id.
    pub(crate) pid: i32,
    /// When it started, in ticks since the machine did.
    pub(crate) start_time: u64,
    pidfd: OwnedFd,
}

impl Process {
    /// The process that `pid` is, or is a thread of.
    pub(crate) fn find(pid: i32) -> Result<Self> {
        let ended = || CudaError::Ended { pid };
        if pid <= 0 {
            return Err(CudaError::Invalid { what: format!("{pid} is not the id of a process") });
        }
        let status = read(pid, "status")?;
        let leader = proc::number_of(&status, "Tgid").ok_or_else(ended)?;
        let number = Pid::from_raw(leader).ok_or_else(ended)?;
        let pidfd = pidfd_open(number, PidfdFlags::empty()).map_err(|error| {
            let gone = error == rustix::io::Errno::SRCH;
            if gone { ended() } else { CudaError::io("watch", proc::path(leader, ""))(error.into()) }
        })?;
        // Read after the pidfd is there, so that both are about the same process.
        let start_time = start_time(leader).ok_or_else(ended)?;
        let process = Self { pid: leader, start_time, pidfd };
        if process.has_ended() { Err(ended()) } else { Ok(process) }
    }

    /// Has it ended, collected or not?
    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.pidfd.as_fd(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(ready) if ready > 0)
    }

    /// Has it ended, or is it about to? For when a call about it has failed.
    ///
    /// While the threads of a killed process go one by one, its leader is a zombie already and the driver finds nothing, but the
    /// pidfd stays silent until the last is gone.
    pub(crate) fn is_ending(&self) -> bool {
        for _ in 0..100 {
            if self.has_ended() {
                return true;
            }
            if Stat::of(self.pid).ok().flatten().is_some_and(|stat| !stat.is_over()) {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // A leader that has ended by itself, with threads that go on.
        false
    }

    /// Its id in its own namespace, which CRIU gives it again at a restore.
    pub(crate) fn own_id(&self) -> Result<i32> {
        let status = read(self.pid, "status")?;
        let own = proc::numbers_of(&status, "NStgid").and_then(|ids| ids.last().copied());
        Ok(own.unwrap_or(self.pid))
    }
}

/// A file of `/proc/PID`; its absence means that the process has ended.
pub(crate) fn read(pid: i32, name: &str) -> Result<String> {
    let text = proc::read_text(pid, name).map_err(CudaError::io("read", proc::path(pid, name)))?;
    text.ok_or(CudaError::Ended { pid })
}

/// When a process started.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    Some(Stat::of(pid).ok()??.start_time)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, id};
    use std::time::Instant;

    use super::*;

    fn own() -> i32 {
        i32::try_from(id()).unwrap()
    }

    #[test]
    fn a_thread_stands_for_its_process() {
        let thread = thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get()).join().unwrap();
        assert_ne!(thread, own());
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (told, tell) = std::sync::mpsc::channel();
        let waiting = thread::spawn(move || {
            told.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = receive.recv();
        });
        let process = Process::find(tell.recv().unwrap()).unwrap();
        assert_eq!(process.pid, own());
        assert_eq!(process.own_id().unwrap(), own());
        drop(send);
        waiting.join().unwrap();
    }

    #[test]
    fn a_zombie_has_ended() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let process = Process::find(pid).unwrap();
        assert!(!process.has_ended());
        child.kill().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !process.has_ended() {
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(5));
        }
        // Nobody has waited for it, so its number is still taken.
        assert_eq!(Process::find(pid).unwrap_err().code(), "IJ-G015");
        child.wait().unwrap();
        assert_eq!(Process::find(pid).unwrap_err().code(), "IJ-G015");
        assert_eq!(Process::find(0).unwrap_err().code(), "IJ-G022");
    }
}
