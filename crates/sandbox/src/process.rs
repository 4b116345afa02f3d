//! Processes by identity, not by number.
//!
//! A pid is reused; the pair of pid and start time is not (within one boot). Everything that is recorded about a process
//! and used later – to signal it, to ask whether it lives – goes through [`Identity`]. Signals are sent through a pidfd that was
//! opened first and checked afterwards, so that they cannot hit a successor.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

pub use rustix::process::Signal;

use crate::error::{Result, SandboxError};

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
        Ok(Stat::read(pid)?.map(|stat| Self { pid, start_time: stat.start_time }))
    }

    /// Whether it still runs (a zombie does not).
    pub fn is_alive(&self) -> bool {
        matches!(Stat::read(self.pid), Ok(Some(stat)) if stat.start_time == self.start_time && !matches!(stat.state, 'Z' | 'X'))
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

/// The fields of `/proc/PID/stat` that we use.
struct Stat {
    comm: String,
    state: char,
    ppid: i32,
    group: i32,
    session: i32,
    threads: u64,
    start_time: u64,
}

impl Stat {
    fn read(pid: i32) -> Result<Option<Self>> {
        let path = format!("/proc/{pid}/stat");
        match fs::read(&path) {
            Ok(bytes) => Ok(Self::parse(&String::from_utf8_lossy(&bytes))),
            Err(error) if has_ended(&error) => Ok(None),
            Err(error) => Err(SandboxError::io("read", Path::new(&path))(error)),
        }
    }

    /// The name may hold blanks and brackets, so everything counts from the last bracket.
    fn parse(line: &str) -> Option<Self> {
        let (front, fields) = line.rsplit_once(')')?;
        let (_, comm) = front.split_once('(')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        Some(Self {
            comm: comm.to_owned(),
            state: fields.first()?.chars().next()?,
            ppid: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }
}

/// What `/proc` says about one process; `None` if there is none.
pub fn info(pid: i32) -> Result<Option<ProcessInfo>> {
    let Some(stat) = Stat::read(pid)? else { return Ok(None) };
    let path = format!("/proc/{pid}/status");
    let status = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if has_ended(&error) => return Ok(None),
        Err(error) => return Err(SandboxError::io("read", Path::new(&path))(error)),
    };
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    Ok(Some(ProcessInfo {
        pid,
        ppid: stat.ppid,
        comm: stat.comm,
        uid: line("Uid:")
            .split_ascii_whitespace()
            .next()
            .and_then(|uid| uid.parse().ok())
            .unwrap_or(u32::MAX),
        state: stat.state,
        group: stat.group,
        session: stat.session,
        threads: stat.threads,
        start_time: stat.start_time,
        namespace_pids: line("NSpid:").split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
    }))
}

/// Every process of the machine.
pub fn all() -> Result<Vec<ProcessInfo>> {
    let directory = Path::new("/proc");
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(SandboxError::io("list", directory))? {
        let entry = entry.map_err(SandboxError::io("list", directory))?;
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Some(process) = info(pid)?
        {
            found.push(process);
        }
    }
    Ok(found)
}

/// Our own children.
pub(crate) fn own_children() -> Result<Vec<ProcessInfo>> {
    children(rustix::process::getpid().as_raw_nonzero().get())
}

/// The children of a process.
pub(crate) fn children(own: i32) -> Result<Vec<ProcessInfo>> {
    // Each thread has a list of the children it started; a kernel may be built without these lists.
    let lists: Option<String> = fs::read_dir(format!("/proc/{own}/task")).ok().and_then(|threads| {
        threads.map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok()).collect()
    });
    let Some(lists) = lists else {
        return Ok(all()?.into_iter().filter(|process| process.ppid == own).collect());
    };
    let mut found = Vec::new();
    for pid in lists.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
        found.extend(info(pid)?.filter(|process| process.ppid == own));
    }
    Ok(found)
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

/// The inode of a namespace of a process: `net`, `mnt`, `pid`, `ipc` … This is what CRIU calls its id.
pub fn namespace_inode(pid: i32, kind: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/ns/{kind}");
    match rustix::fs::stat(&path) {
        Ok(stat) => Ok(stat.st_ino),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::SRCH) => Err(SandboxError::Gone { pid }),
        Err(error) => Err(SandboxError::io("look at", Path::new(&path))(error)),
    }
}

/// Reading from a process that ends meanwhile gives one of these.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let fields = "S 7 42 43 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 5 0 987654 0 0";
        let stat = Stat::parse(&format!("42 (a) b (c) {fields}")).expect("this line is complete");
        assert_eq!(
            (
                stat.comm.as_str(),
                stat.state,
                stat.ppid,
                stat.group,
                stat.session,
                stat.threads,
                stat.start_time
            ),
            ("a) b (c", 'S', 7, 42, 43, 5, 987_654)
        );
        assert!(Stat::parse("42 (cut off) S 7").is_none());
        assert!(Stat::parse("").is_none());
    }

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
