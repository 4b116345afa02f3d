//! Reaping what falls to us.
//!
//! The daemon is a *subreaper*: the first process of a box becomes its child when the helper that made it ends. Somebody has to
//! reap it, or it stays a zombie; but `waitpid(-1)` would also take the status of a child that some
//! [`Command`](std::process::Command) is waiting for, on whichever thread. How to tell them apart:
//!
//! * A child in a deeper PID namespace than ours was never started by a `Command` of ours, since we never leave our
//!   namespace. Every box's first process is such a child.
//! * A process that was handed to [`OrphanReaper::watch`] is ours to reap.
//! * Anything else belongs to somebody, and is left alone – unless it has been a zombie for so long (`patience`) that nobody can be
//!   waiting for it: what CRIU leaves behind when it is killed.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, WaitStatus, set_child_subreaper, waitpid};

use crate::error::{Result, SandboxError};
use crate::process::{self, Identity};

/// How often children are looked through that nobody watches.
const ROUND: Duration = Duration::from_millis(500);

/// A watched process has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Which one.
    pub identity: Identity,
    /// How, as a shell would give it (128 and more for a signal); `None` if it was not our child.
    pub status: Option<i32>,
}

/// Watches processes and reaps orphans, on a thread of its own that ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct OrphanReaper {
    watched: Sender<(Identity, OwnedFd)>,
    wake: std::sync::Arc<OwnedFd>,
}

impl OrphanReaper {
    /// Makes this process a subreaper and starts reaping. The end of a watched process is sent to `ends`.
    ///
    /// A child that a `Command` started keeps its status for at least `patience` after its end; a minute or more is right,
    /// since whoever starts a child here also waits for it.
    pub fn start(patience: Duration, ends: Sender<Ended>) -> Result<Self> {
        // The pid only has to be some pid: the call takes it as a yes.
        set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(SandboxError::system("become a subreaper"))?;
        let (read, write) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)
                .map_err(SandboxError::system("make a pipe"))?;
        let (sender, receiver) = channel();
        std::thread::Builder::new()
            .name("orphan-reaper".to_owned())
            .spawn(move || {
                Rounds {
                    patience,
                    ends,
                    arriving: receiver,
                    wake: read,
                    watched: Vec::new(),
                    waiting: BTreeMap::new(),
                }
                .run()
            })
            .map_err(SandboxError::system("start a thread"))?;
        Ok(Self { watched: sender, wake: std::sync::Arc::new(write) })
    }

    /// Watches a process until its end, whether or not it is our child. For one that is gone already,
    /// [`SandboxError::Gone`].
    pub fn watch(&self, identity: Identity) -> Result<()> {
        let fd = identity.open()?;
        let stopped = || {
            SandboxError::system("hand a process to the reaper")(io::Error::from(io::ErrorKind::BrokenPipe))
        };
        self.watched.send((identity, fd)).map_err(|_| stopped())?;
        // A full pipe wakes just as well.
        let _ = rustix::io::write(&*self.wake, &[0]);
        Ok(())
    }
}

struct Rounds {
    patience: Duration,
    ends: Sender<Ended>,
    arriving: Receiver<(Identity, OwnedFd)>,
    wake: OwnedFd,
    watched: Vec<(Identity, OwnedFd)>,
    /// Zombies that are somebody's, and since when they wait.
    waiting: BTreeMap<Identity, Instant>,
}

impl Rounds {
    fn run(mut self) {
        let mut next_look = Instant::now();
        loop {
            self.wait(next_look);
            loop {
                match self.arriving.try_recv() {
                    Ok(arrived) => self.watched.push(arrived),
                    Err(TryRecvError::Empty) => break,
                    // Whoever would be told is gone, and closed the other end of the pipe: the wait was over at once.
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.report_watched();
            if Instant::now() >= next_look {
                self.look_for_orphans();
                next_look = Instant::now() + ROUND;
            }
        }
    }

    /// Sleeps until something may have happened.
    fn wait(&self, until: Instant) {
        let mut descriptors: Vec<PollFd<'_>> =
            self.watched.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)).collect();
        descriptors.push(PollFd::new(&self.wake, PollFlags::IN));
        let timeout = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        // An interrupted wait only means an early round.
        let _ = poll(&mut descriptors, timeout.as_ref());
        let mut dropped = [0; 64];
        while matches!(rustix::io::read(&self.wake, &mut dropped), Ok(1..)) {}
    }

    fn report_watched(&mut self) {
        let ends = &self.ends;
        self.watched.retain(|(identity, fd)| {
            let ended = matches!(
                poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })),
                Ok(1..)
            );
            if ended {
                // Nobody listens any more: then there is nobody to tell.
                let _ = ends.send(Ended { identity: *identity, status: reap(*identity) });
            }
            !ended
        });
    }

    fn look_for_orphans(&mut self) {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let (Ok(Some(us)), Ok(children)) = (process::info(own), process::own_children()) else { return };
        let mut still_waiting = BTreeMap::new();
        for child in children.into_iter().filter(process::ProcessInfo::is_zombie) {
            let identity = child.identity();
            let since = self.waiting.get(&identity).copied().unwrap_or_else(Instant::now);
            let is_watched = self.watched.iter().any(|(watched, _)| *watched == identity);
            let is_foreign = child.namespace_pids.len() > us.namespace_pids.len();
            if is_watched {
                // The next turn reports and reaps it.
            } else if is_foreign || since.elapsed() >= self.patience {
                reap(identity);
            } else {
                still_waiting.insert(identity, since);
            }
        }
        self.waiting = still_waiting;
    }
}

/// Takes the status of an ended child; `None` if it is not our child or has not ended.
fn reap(identity: Identity) -> Option<i32> {
    let pid = Pid::from_raw(identity.pid)?;
    // Until it is reaped its pid cannot be given to another, so this is the child we mean, or no child of ours at all.
    if Identity::of(identity.pid).ok().flatten() != Some(identity) {
        return None;
    }
    let (_, status) = waitpid(Some(pid), WaitOptions::NOHANG).ok()??;
    Some(as_shell(status))
}

/// Ends a process and, if it has become our child, reaps it.
pub(crate) fn end_and_reap(identity: &Identity, grace: Duration) -> bool {
    let gone = identity.end(grace);
    reap(*identity);
    gone
}

/// An exit status as a shell gives it.
pub(crate) fn as_shell(status: WaitStatus) -> i32 {
    process::as_shell(ExitStatus::from_raw(status.as_raw()))
}
