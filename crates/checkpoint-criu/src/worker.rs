//! A CRIU worker and the conversation with it.
//!
//! `criu swrk 0` is one process for one request. Its standard input is one end of a `SOCK_SEQPACKET` pair, so no descriptor has to be
//! moved between `fork` and `exec`. Directories are named by our descriptors: CRIU opens `/proc/<our pid>/fd/N`. Where CRIU runs in a
//! box it does not see us, and is given paths.
//!
//! The worker has a process group of its own and is not bound to our life: when we die in the middle of a dump, it finds its
//! socket closed at the next notification, gives up and lets the tree run. A worker that was killed while it held a tree is worse,
//! so we only ever kill one that does not react to anything else.
//!
//! When a time limit runs out (or the caller panics in a hook):
//! 1. The socket is shut. From now on CRIU cannot end the tree: that needs our word at `post-dump`. When it comes there, it lets the
//!    tree run and ends.
//! 2. A dump that does not end within [`PATIENCE`] is killed. The kernel detaches what it traced, and code that CRIU has put into a
//!    process ends by itself when its socket is closed. There are moments in which that ruins the process, when code is just being
//!    put in or taken out; they are short, and a dump that hangs does not hang there. CRIU's own signal for "interrupt what you are
//!    doing", `SIGALRM`, is no way out: it interrupts exactly at such moments.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::error::{CriuError, Result};
use crate::messages::rpc::{Request, Response};
use crate::options::Runner;
use crate::process::{self, Stat};

/// How long a dump that was told to stop may take to let go.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// No answer of CRIU's is larger than this.
const MAX_ANSWER: usize = 64 << 10;

/// How a worker is started.
pub(crate) struct Launch<'a> {
    pub(crate) criu: &'a Path,
    pub(crate) runner: &'a Runner,
    /// An empty directory: CRIU loads plugins from nowhere else.
    pub(crate) plugins: Option<&'a Path>,
    /// The log directory as CRIU sees it, if it runs in a box.
    pub(crate) box_log_dir: Option<&'a Path>,
    /// Where it complains before it has a log.
    pub(crate) complaints: Option<File>,
}

/// What was heard from a worker.
#[derive(Debug)]
pub(crate) enum Heard {
    Answer(Box<Response>),
    /// It closed the conversation.
    Ended,
    /// The time is up.
    Silence,
    /// Not a message of CRIU's.
    Nonsense(String),
}

/// A running worker.
pub(crate) struct Worker {
    child: Child,
    pid: Pid,
    start_time: u64,
    socket: OwnedFd,
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
    /// Whether it holds a tree that it has to let go.
    pub(crate) holds_a_tree: bool,
}

impl Worker {
    pub(crate) fn start(launch: Launch<'_>) -> Result<Self> {
        let mut words = launch.runner.0.iter().map(|word| word.as_os_str()).chain([launch.criu.as_os_str()]);
        let program = words.next().unwrap_or(OsStr::new("criu"));
        let failed = |source: io::Error| CriuError::Start { program: PathBuf::from(program), source };

        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|error| failed(error.into()))?;
        let mut command = Command::new(program);
        command.args(words).arg("--no-default-config");
        if let Some(dir) = launch.plugins {
            command.arg("--libdir").arg(dir);
        }
        if let Some(dir) = launch.box_log_dir {
            // Its requests can name this directory only by a descriptor of ours, which it would look for in the box's /proc.
            command.arg("--unprivileged").arg("--work-dir").arg(dir);
        }
        command
            .args(["swrk", "0"])
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(launch.complaints.map_or_else(Stdio::null, Stdio::from))
            // Nothing of the caller's environment decides what a dump does.
            .env_remove("CRIU_CONFIG_FILE")
            .env_remove("CRIU_LIBS_DIR")
            .env_remove("CRIU_FAULT")
            .env("LC_ALL", "C")
            .process_group(0);
        let child = command.spawn().map_err(failed)?;
        // `command` holds the other end of the socket: as long as it lives, a worker's death would not be seen.
        drop(command);

        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty());
        let start_time = process::look(pid.as_raw_nonzero().get()).map_or(0, |stat| stat.start_time);
        match pidfd {
            Ok(pidfd) => {
                Ok(Self { child, pid, start_time, socket: ours, pidfd, status: None, holds_a_tree: false })
            }
            Err(error) => {
                let mut child = child;
                // It has not been asked for anything yet.
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(error.into()))
            }
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(crate) fn start_time(&self) -> u64 {
        self.start_time
    }

    pub(crate) fn send(&self, request: &Request) -> io::Result<()> {
        let bytes = request.encode_to_vec();
        // A worker that is gone must not bring us a SIGPIPE.
        rustix::net::send(&self.socket, &bytes, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for the next message.
    pub(crate) fn hear(&self, deadline: Instant) -> io::Result<Heard> {
        if !wait_readable(&self.socket, Some(&self.pidfd), deadline)? {
            return Ok(Heard::Silence);
        }
        let mut buffer = vec![0; MAX_ANSWER];
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        let (got, whole) = match rustix::net::recv(&self.socket, &mut buffer[..], flags) {
            Ok(sizes) => sizes,
            // Only the pidfd was ready: it has ended, and everything it said was heard.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNRESET) => return Ok(Heard::Ended),
            Err(error) => return Err(error.into()),
        };
        if got == 0 {
            return Ok(Heard::Ended);
        }
        if whole > got {
            return Ok(Heard::Nonsense(format!("sent a message of {whole} bytes")));
        }
        Ok(match Response::decode(&buffer[..got]) {
            Ok(response) => Heard::Answer(Box::new(response)),
            Err(error) => Heard::Nonsense(format!("sent a message that cannot be decoded ({error})")),
        })
    }

    /// Waits for the worker to end by itself, now that it has answered.
    pub(crate) fn finish(mut self, patience: Duration) -> io::Result<ExitStatus> {
        if self.ended_within(patience)?
            && let Some(status) = self.status
        {
            return Ok(status);
        }
        self.stop()
    }

    /// Makes the worker let go and end, as the head of this file says.
    pub(crate) fn stop(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // Shut already, by a worker that has ended.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        if self.holds_a_tree && self.ended_within(PATIENCE)? {
            return self.reap();
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        self.reap()
    }

    /// Ends a worker together with everything that it has started, and with `made`, which it is known to have started.
    pub(crate) fn clear(&mut self, made: &[Stat]) -> bool {
        let roots: Vec<Stat> = process::look(self.pid()).into_iter().chain(made.iter().cloned()).collect();
        let cleared = process::clear(&roots, PATIENCE);
        let _ = self.reap();
        cleared
    }

    fn ended_within(&mut self, patience: Duration) -> io::Result<bool> {
        if self.status.is_none() && wait_readable(&self.pidfd, None, Instant::now() + patience)? {
            self.reap()?;
        }
        Ok(self.status.is_some())
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let status = self.child.wait()?;
        self.status = Some(status);
        Ok(status)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Only after a panic in a hook, or an error in between: every ordinary way ends in `finish` or `stop`.
        let _ = self.stop();
    }
}

/// How a worker ended, in words.
pub(crate) fn describe(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with code {code} without an answer"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended without an answer".to_owned(),
        },
        Err(error) => format!("was lost ({error})"),
    }
}

/// Whether `first` (or `second`) becomes readable before the deadline.
fn wait_readable(first: impl AsFd, second: Option<&OwnedFd>, deadline: Instant) -> io::Result<bool> {
    loop {
        let mut fds = vec![PollFd::from_borrowed_fd(first.as_fd(), PollFlags::IN)];
        fds.extend(second.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) if deadline <= Instant::now() => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}
