//! Processes by identity, not by number.
//!
//! A pid is reused; the pair of pid and start time is not (within one boot). Everything that is recorded about a process
//! and used later – to signal it, to ask whether it lives – goes through [`Identity`]. Signals are sent through a pidfd that was
//! opened first and checked afterwards, so that they cannot hit a successor.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use base::proc::{self, Stat};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

pub use rustix::process::Signal;

use crate::error::{Result, SandboxError};

/// How a program ended, as a shell says it.
pub fn as_shell(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(255)
}

/// One process, for as long as the machine is up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// Its pid in our namespace.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
}

/// What `/proc` says about a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessInfo {
    /// Its pid in our namespace.
    pub pid: i32,
    /// Its parent.
    pub ppid: i32,
    /// The name of its program, cut to 15 bytes by the kernel.
    pub comm: String,
    /// The real user id.
    pub uid: u32,
    /// State letter: `R`, `S`, `D`, `T`, `t`, `Z` …
    pub state: char,
    /// Its process group, in our namespace.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// How many threads it has.
    pub threads: u64,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
    /// Its pids from our namespace inwards; the last one is what it sees itself.
    pub namespace_pids: Vec<i32>,
}

impl ProcessInfo {
    /// The lasting name of this process.
    pub fn identity(&self) -> Identity {
        Identity { pid: self.pid, start_time: self.start_time }
    }

    /// Whether it has ended and only waits to be reaped.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

impl Identity {
    /// The process that has this pid now, a zombie included; `None` if there is none.
    pub fn of(pid: i32) -> Result<Option<Self>> {
        Ok(stat(pid)?.map(|stat| Self { pid, start_time: stat.start_time }))
    }

    /// Whether it still runs (a zombie does not).
    pub fn is_alive(&self) -> bool {
        matches!(stat(self.pid), Ok(Some(stat)) if stat.start_time == self.start_time && !stat.is_over())
    }

    /// A pidfd of it; [`SandboxError::Gone`] when it is no more.
    pub fn open(&self) -> Result<OwnedFd> {
        let gone = || SandboxError::Gone { pid: self.pid };
        let pid = Pid::from_raw(self.pid).ok_or_else(gone)?;
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::SRCH) => return Err(gone()),
            Err(error) => return Err(SandboxError::system(format!("open process {}", self.pid))(error)),
        };
        // Now that the descriptor holds on to *a* process, see whether it is the one we mean.
        match Self::of(self.pid)? {
            Some(found) if found == *self => Ok(fd),
            _ => Err(gone()),
        }
    }

    /// Sends a signal to exactly this process; [`SandboxError::Gone`] when it is no more.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        match pidfd_send_signal(self.open()?, signal) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::SRCH) => Err(SandboxError::Gone { pid: self.pid }),
            Err(error) => Err(SandboxError::system(format!("signal process {}", self.pid))(error)),
        }
    }

    /// Waits until it has ended, at most so long; says whether it has. Does not reap it.
    pub fn wait_gone(&self, limit: Duration) -> bool {
        let Ok(fd) = self.open() else { return !self.is_alive() };
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&fd, PollFlags::IN)], timeout.as_ref()) {
                Ok(0) => return !self.is_alive(),
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return !self.is_alive(),
            }
        }
    }

    /// Ends it: TERM, and KILL when it has not gone after `grace`. Says whether it is gone.
    pub fn end(&self, grace: Duration) -> bool {
        if self.signal(Signal::TERM).is_ok() && !self.wait_gone(grace) {
            // Whether it went meanwhile or the signal hit it: the next line finds out.
            let _ = self.signal(Signal::KILL);
        }
        self.wait_gone(Duration::from_secs(10))
    }
}

fn stat(pid: i32) -> Result<Option<Stat>> {
    Stat::of(pid).map_err(SandboxError::io("read", &proc::path(pid, "stat")))
}

/// What `/proc` says about one process; `None` if there is none.
pub fn info(pid: i32) -> Result<Option<ProcessInfo>> {
    let Some(stat) = stat(pid)? else { return Ok(None) };
    let status =
        proc::read_text(pid, "status").map_err(SandboxError::io("read", &proc::path(pid, "status")))?;
    Ok(status.map(|status| ProcessInfo {
        pid,
        ppid: stat.parent,
        comm: stat.comm,
        uid: proc::number_of(&status, "Uid").unwrap_or(u32::MAX),
        state: stat.state,
        group: stat.group,
        session: stat.session,
        threads: stat.threads,
        start_time: stat.start_time,
        namespace_pids: proc::numbers_of(&status, "NSpid").unwrap_or_default(),
    }))
}

/// Every process of the machine.
pub fn all() -> Result<Vec<ProcessInfo>> {
    let mut found = Vec::new();
    for pid in proc::pids().map_err(SandboxError::io("list", Path::new("/proc")))? {
        found.extend(info(pid)?);
    }
    Ok(found)
}

/// Our own children.
pub(crate) fn own_children() -> Result<Vec<ProcessInfo>> {
    children(rustix::process::getpid().as_raw_nonzero().get())
}

/// The children of a process.
pub(crate) fn children(own: i32) -> Result<Vec<ProcessInfo>> {
    let Some(pids) = proc::children(own) else {
        return Ok(all()?.into_iter().filter(|process| process.ppid == own).collect());
    };
    let mut found = Vec::new();
    for pid in pids {
        found.extend(info(pid)?.filter(|process| process.ppid == own));
    }
    Ok(found)
}

/// The words of its command line, as far as they can be read.
pub fn command_line(pid: i32) -> Vec<String> {
    let bytes = std::fs::read(proc::path(pid, "cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// A process and all that descend from it, the root first and parents before children. Empty if there is none.
pub fn tree(pid: i32) -> Result<Vec<ProcessInfo>> {
    let mut children: BTreeMap<i32, Vec<ProcessInfo>> = BTreeMap::new();
    let mut found = Vec::new();
    for process in all()? {
        if process.pid == pid {
            found.push(process);
        } else {
            children.entry(process.ppid).or_default().push(process);
        }
    }
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let below = children.remove(&process.pid).unwrap_or_default();
        found.extend(below);
        next += 1;
    }
    Ok(found)
}

/// How much memory the processes below this one use, each page counted once as far as the kernel tells cheaply.
pub fn memory_of(init: i32) -> Option<u64> {
    let tree = tree(init).ok()?;
    let bytes = tree.iter().filter_map(|process| proc::resident_bytes(process.pid)).sum();
    Some(bytes)
}

/// The inode of a namespace of a process: `net`, `mnt`, `pid`, `ipc` … This is what CRIU calls its id.
pub fn namespace_inode(pid: i32, kind: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/ns/{kind}");
    match rustix::fs::stat(&path) {
        Ok(stat) => Ok(stat.st_ino),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::SRCH) => Err(SandboxError::Gone { pid }),
        Err(error) => Err(SandboxError::io("look at", Path::new(&path))(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_child_is_gone_and_cannot_be_signalled_any_more() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep starts");
        let pid = i32::try_from(child.id()).expect("pids fit");
        let identity = Identity::of(pid).expect("/proc is readable").expect("it runs");
        assert!(identity.is_alive());
        assert!(!identity.wait_gone(Duration::from_millis(1)));
        assert!(
            tree(i32::try_from(std::process::id()).expect("pids fit"))
                .expect("a tree")
                .iter()
                .any(|p| p.pid == pid)
        );

        identity.signal(Signal::KILL).expect("it is ours");
        assert!(identity.wait_gone(Duration::from_secs(10)), "a zombie counts as gone");
        assert!(!identity.is_alive());
        child.wait().expect("the status is still there");
        assert!(matches!(identity.signal(Signal::KILL), Err(SandboxError::Gone { .. })));
    }

    #[test]
    fn another_process_with_the_same_pid_is_not_it() {
        let own = i32::try_from(std::process::id()).expect("pids fit");
        let own = Identity::of(own).expect("/proc is readable").expect("we run");
        let stranger = Identity { start_time: own.start_time + 1, ..own };
        assert!(own.is_alive() && !stranger.is_alive());
        assert!(matches!(stranger.open(), Err(SandboxError::Gone { .. })));
    }
}
