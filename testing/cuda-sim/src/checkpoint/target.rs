//! A process as a caller finds it: who it is, its control block, and the way to its helper thread.
//!
//! A caller may name any thread of the process. Everything is found through `/proc` and needs the right to trace it, as
//! with the real driver. Ids are translated by `/proc/PID/status`: a target may live in a pid namespace of its own, where
//! it has other numbers than the caller knows.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::process::{PidfdFlags, pidfd_open};

use super::block::{self, Block};
use super::message::{self, Reply, Request};
use crate::code::Code;

/// How often a caller looks again at what cannot be polled.
const LOOK: Duration = Duration::from_millis(5);
/// More than a pipe holds: one read then always ends at the end of a message.
const WHOLE_PIPE: usize = 1 << 16;

/// A process that uses CUDA.
#[derive(Debug)]
pub struct Target {
    pid: i32,
    block: Block,
    ended: OwnedFd,
}

/// The way to its helper thread; while it exists no other caller has one.
#[derive(Debug)]
pub struct Line<'a> {
    target: &'a Target,
    requests: OwnedFd,
    replies: OwnedFd,
}

/// Ids in a `/proc/PID/status`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    /// The process that the thread belongs to.
    pub(crate) process: i32,
    /// Its id in its own pid namespace.
    pub(crate) process_inside: i32,
    /// The thread's id there.
    pub(crate) thread_inside: i32,
}

impl Target {
    /// Finds the process that this id, of a process or of a thread, belongs to.
    ///
    /// # Errors
    /// `INVALID_VALUE` if there is none, `NOT_INITIALIZED` if it does not use CUDA, `NOT_PERMITTED` if it is not ours to
    /// touch.
    pub fn find(pid: i32) -> Result<Self, Code> {
        if pid <= 0 {
            return Err(Code::INVALID_VALUE);
        }
        let ids = ids_of(&format!("/proc/{pid}/status")).ok_or(Code::INVALID_VALUE)?;
        let process = rustix::process::Pid::from_raw(ids.process).ok_or(Code::INVALID_VALUE)?;
        let ended = pidfd_open(process, PidfdFlags::empty()).map_err(|_| Code::INVALID_VALUE)?;
        let block = read_block(ids.process)?;
        // A forked child has its parent's block, but not its helper.
        if block.owner != ids.process_inside {
            return Err(Code::NOT_INITIALIZED);
        }
        Ok(Self { pid: ids.process, block, ended })
    }

    /// The process.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Its helper thread, as the caller numbers it. Needs nothing of the target but its memory, so a frozen one is no
    /// obstacle.
    ///
    /// # Errors
    /// `NOT_INITIALIZED` if there is no such thread.
    pub fn helper(&self) -> Result<i32, Code> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).map_err(|_| Code::NOT_INITIALIZED)?;
        tasks
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
            .find(|task| {
                ids_of(&format!("/proc/{}/task/{task}/status", self.pid))
                    .is_some_and(|ids| ids.thread_inside == self.block.helper)
            })
            .ok_or(Code::NOT_INITIALIZED)
    }

    /// Opens the way to the helper, once no other caller is on it. `Ok(None)` if that takes too long.
    ///
    /// # Errors
    /// As of [`Target::find`]; `OPERATING_SYSTEM` if the target ends meanwhile.
    pub fn line(&self, deadline: Option<Instant>) -> Result<Option<Line<'_>>, Code> {
        let [_, request_write, reply_read, _] = self.block.pipes;
        let requests = self.pipe(request_write, OFlags::WRONLY)?;
        let replies = self.pipe(reply_read, OFlags::RDONLY)?;
        while flock(&requests, FlockOperation::NonBlockingLockExclusive).is_err() {
            if deadline.is_some_and(|end| Instant::now() >= end) {
                return Ok(None);
            }
            if self.poll_end(LOOK) {
                return Err(Code::OPERATING_SYSTEM);
            }
        }
        Ok(Some(Line { target: self, requests, replies }))
    }

    /// Whether the helper has taken this request.
    #[must_use]
    pub fn works_on(&self, id: u64) -> bool {
        read_block(self.pid).is_ok_and(|block| block.busy == id)
    }

    /// Tells the helper that nobody wants this Lock any more.
    pub fn cancel(&self, id: u64) {
        let bytes = id.to_le_bytes();
        let there = RemoteIoVec { base: block::ADDRESS + block::at::CANCELLED, len: bytes.len() };
        // It can only fail if the process has gone.
        let _ = process_vm_writev(Pid::from_raw(self.pid), &[IoSlice::new(&bytes)], &[there]);
    }

    fn pipe(&self, fd: i32, way: OFlags) -> Result<OwnedFd, Code> {
        let path = format!("/proc/{}/fd/{fd}", self.pid);
        let pipe =
            open(path, way | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()).map_err(
                |cause| match cause {
                    rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => Code::NOT_PERMITTED,
                    _ => Code::NOT_INITIALIZED,
                },
            )?;
        let kind = fstat(&pipe).map_err(|_| Code::OPERATING_SYSTEM)?.st_mode;
        if FileType::from_raw_mode(kind) == FileType::Fifo { Ok(pipe) } else { Err(Code::NOT_INITIALIZED) }
    }

    fn poll_end(&self, limit: Duration) -> bool {
        let mut fds = [PollFd::new(&self.ended, PollFlags::IN)];
        poll(&mut fds, Timespec::try_from(limit).ok().as_ref()).is_ok_and(|ready| ready > 0)
    }
}

impl Line<'_> {
    /// Puts a request into the pipe. False if it stayed full until the deadline.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the request is too long, `OPERATING_SYSTEM` if the target has ended.
    pub fn send(&self, request: &Request, deadline: Option<Instant>) -> Result<bool, Code> {
        let bytes = message::frame(request).ok_or(Code::INVALID_VALUE)?;
        loop {
            match rustix::io::write(&self.requests, &bytes) {
                Ok(_) => return Ok(true),
                Err(rustix::io::Errno::AGAIN) => {}
                Err(_) => return Err(Code::OPERATING_SYSTEM),
            }
            if deadline.is_some_and(|end| Instant::now() >= end) {
                return Ok(false);
            }
            if self.target.poll_end(LOOK) {
                return Err(Code::OPERATING_SYSTEM);
            }
        }
    }

    /// Waits for the answer to a request. `Ok(None)` if there is none until the deadline.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM` if the target ends first.
    pub fn receive(&self, id: u64, deadline: Option<Instant>) -> Result<Option<Reply>, Code> {
        loop {
            if let Some(reply) = self.take(id)? {
                return Ok(Some(reply));
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let mut fds =
                [PollFd::new(&self.replies, PollFlags::IN), PollFd::new(&self.target.ended, PollFlags::IN)];
            let limit = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut fds, limit.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Err(Code::OPERATING_SYSTEM),
            }
            let [_, ended] = fds.map(|fd| !fd.revents().is_empty());
            if ended {
                // It may have answered with its last breath.
                return self.take(id)?.map(Some).ok_or(Code::OPERATING_SYSTEM);
            }
        }
    }

    /// Reads what is there; answers to requests of callers that have given up are dropped.
    fn take(&self, id: u64) -> Result<Option<Reply>, Code> {
        let mut bytes = vec![0; WHOLE_PIPE];
        let count = match rustix::io::read(&self.replies, &mut *bytes) {
            Ok(count) => count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(_) => return Err(Code::OPERATING_SYSTEM),
        };
        bytes.truncate(count);
        Ok(message::split::<Reply>(&bytes).into_iter().find(|reply| reply.id == id))
    }
}

fn read_block(pid: i32) -> Result<Block, Code> {
    let mut bytes = [0; block::LEN];
    let there = RemoteIoVec { base: block::ADDRESS, len: block::LEN };
    match process_vm_readv(Pid::from_raw(pid), &mut [IoSliceMut::new(&mut bytes)], &[there]) {
        Ok(block::LEN) => Block::parse(&bytes).ok_or(Code::NOT_INITIALIZED),
        Err(Errno::EPERM) => Err(Code::NOT_PERMITTED),
        Ok(_) | Err(_) => Err(Code::NOT_INITIALIZED),
    }
}

fn ids_of(path: &str) -> Option<Ids> {
    parse_ids(&String::from_utf8_lossy(&fs::read(path).ok()?))
}

fn parse_ids(status: &str) -> Option<Ids> {
    let last = |key: &str| -> Option<i32> {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next_back()?.parse().ok()
    };
    Some(Ids { process: last("Tgid")?, process_inside: last("NStgid")?, thread_inside: last("NSpid")? })
}

/// The process that this id, of a process or of a thread, belongs to.
pub(crate) fn process_of(pid: i32) -> Option<i32> {
    ids_of(&format!("/proc/{pid}/status")).map(|ids| ids.process)
}

/// This process's id in its own pid namespace; 0 if `/proc` does not say.
pub(crate) fn own_process() -> i32 {
    ids_of("/proc/self/status").map_or(0, |ids| ids.process_inside)
}

/// This thread's.
pub(crate) fn own_thread() -> i32 {
    ids_of("/proc/thread-self/status").map_or(0, |ids| ids.thread_inside)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The pipe of one that has ended can be read for ever: there is nothing in it.
    #[test]
    fn nobody_waits_for_the_answer_of_a_process_that_has_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let ended = pidfd_open(rustix::process::Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        let target =
            Target { pid, block: Block { owner: 1, helper: 1, state: 0, pipes: [0; 4], busy: 0 }, ended };
        let (replies, theirs) = rustix::pipe::pipe().unwrap();
        drop(theirs);
        let line = Line { target: &target, requests: replies.try_clone().unwrap(), replies };
        let (asked, answer) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                asked.send(line.receive(1, Some(Instant::now() + Duration::from_secs(60))).is_err())
            });
            assert_eq!(answer.recv_timeout(Duration::from_secs(20)), Ok(true));
        });
    }

    #[test]
    fn ids_inside_a_namespace() {
        let status = "Name:\tNSpid: 9\nTgid:\t4100\nPid:\t4102\nNStgid:\t4100\t7\nNSpid:\t4102\t9\n";
        let expected = Ids { process: 4100, process_inside: 7, thread_inside: 9 };
        assert_eq!(parse_ids(status), Some(expected));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,80}|(NSpid|Tgid|NStgid):[\\t 0-9]{0,30}\n") {
            let _ = parse_ids(&text);
        }
    }

    #[test]
    fn who_uses_no_cuda_is_said_so() {
        let own = i32::try_from(std::process::id()).unwrap();
        // Not ourselves: other tests of this process use it.
        let mut other = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let found = Target::find(i32::try_from(other.id()).unwrap()).err();
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(found, Some(Code::NOT_INITIALIZED));
        assert_eq!(Target::find(0).err(), Some(Code::INVALID_VALUE));
        assert_eq!(Target::find(i32::MAX).err(), Some(Code::INVALID_VALUE));
        assert_eq!(own_process(), own);
    }
}
