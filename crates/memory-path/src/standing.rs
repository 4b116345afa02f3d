//! A process that stands still.
//!
//! Registering and arming are only right while no thread of the process runs: a mapping that grows between our look at
//! `/proc/PID/maps` and the registration would be registered in part, which splits it in two, and the program's next `mremap` over both
//! halves fails. So whatever changes tracking asks for a proof that nothing moves, [`StandsStill`]. There are two:
//!
//! * [`Standing`]: we stop every thread ourselves, by `ptrace`, and let them go when the work is done.
//! * [`Frozen`]: somebody else has (CRIU, in the last moments of a dump), and we have looked.
//!
//! **How threads are stopped.** `PTRACE_SEIZE` and `PTRACE_INTERRUPT` send no signal and leave no trace: a call that a thread is in is
//! interrupted and begun again by the kernel, as after any stop. New threads can only be born of running ones, so the list of threads
//! is read until a reading shows nobody new, twice. A thread that was just about to get a signal stops with it, and gets it when it is let
//! go. A process that was stopped before (SIGSTOP) is so afterwards.
//!
//! **Why there is a thread of ours for it.** In Linux a tracer is a thread, and one that is traced can be let go only while it is
//! stopped. If a thread does not stop (it waits for a disk, or for the child of a `vfork`) there is one way to give up: the tracer ends,
//! and the kernel lets go of all that it held. So [`Standing::with`] does its work on a thread of its own, which also makes a panic, an
//! early return or the death of this whole program harmless: nothing that we have stopped stays stopped.
//!
//! While a process stands, nobody else in this program may wait for it (`waitpid`): the wait would be given our stops.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use base::proc::{self, Stat};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;
use rustix::process::{WaitOptions, waitpid};

use crate::error::{MemoryError, NotHere, Result};
use crate::sys;

/// How long a thread may take to stop. They take 30 µs, and some milliseconds on a busy machine. The others wait meanwhile.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks whether a thread has stopped.
const BETWEEN_LOOKS: Duration = Duration::from_micros(20);

const WALL: u32 = 0x4000_0000;
const NO_THREAD: u32 = 0x2000_0000;
/// The event of a stop that no signal has caused.
const EVENT_STOP: i32 = 128;

mod sealed {
    pub trait Sealed {}
}

/// A proof that no thread of a process runs.
pub trait StandsStill: sealed::Sealed {
    /// The process.
    fn pid(&self) -> i32;
}

/// A process whose threads we have all stopped; they go on when this is dropped. It cannot leave the thread that it was made on.
#[derive(Debug)]
pub struct Standing {
    pid: i32,
    threads: Vec<Thread>,
    options: ptrace::Options,
    here: PhantomData<*const ()>,
}

/// A thread that we trace.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) id: i32,
    stopped: bool,
    /// What it is to be given when it goes on; 0 is nothing.
    signal: Cell<i32>,
}

/// Why a thread stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// Because we asked, or because the whole process is stopped.
    Asked,
    /// It was to be given this signal.
    Signal(i32),
    /// It did not: it has ended.
    Ended,
}

impl sealed::Sealed for Standing {}

impl StandsStill for Standing {
    fn pid(&self) -> i32 {
        self.pid
    }
}

impl Standing {
    /// Stops every thread of a process, does the work, and lets them all go, whatever the work comes to. It may not be this process.
    pub fn with<T: Send>(pid: i32, work: impl FnOnce(&Self) -> Result<T> + Send) -> Result<T> {
        Self::within(STOP_LIMIT, pid, work)
    }

    /// The same for whoever is in no hurry: if a thread does not stop within this time, all of them go on at once.
    pub fn within<T: Send>(
        limit: Duration,
        pid: i32,
        work: impl FnOnce(&Self) -> Result<T> + Send,
    ) -> Result<T> {
        on_a_thread(pid, || work(&Self::stop(pid, limit, ptrace::Options::empty())?))
    }

    /// Does the work while every thread of these processes is held in such a way that nobody else can let it go, and that it does not
    /// outlive us: if this program ends before the work does, however it ends, the kernel kills them. For processes that stand still
    /// already, because they must not run as they are; so they do again when the work is done. The work is given a proof for each of them,
    /// in the same order.
    pub fn hold_or_kill<T: Send>(pids: &[i32], work: impl FnOnce(&[Self]) -> Result<T> + Send) -> Result<T> {
        on_a_thread(pids.first().copied().unwrap_or_default(), || {
            let held: Result<Vec<Self>> = pids
                .iter()
                .map(|pid| Self::stop(*pid, STOP_LIMIT, ptrace::Options::PTRACE_O_EXITKILL))
                .collect();
            work(&held?)
        })
    }

    fn stop(pid: i32, limit: Duration, options: ptrace::Options) -> Result<Self> {
        let mut standing = Self { pid, threads: Vec::new(), options, here: PhantomData };
        let deadline = Instant::now() + limit;
        let mut quiet_looks = 0;
        while quiet_looks < 2 {
            let all = proc::threads(pid)
                .map_err(MemoryError::system("list the threads", pid))?
                .ok_or(MemoryError::Gone { pid })?;
            let before = standing.threads.len();
            for id in all {
                if !standing.threads.iter().any(|thread| thread.id == id) {
                    standing.seize(id)?;
                }
            }
            quiet_looks = if standing.threads.len() == before { quiet_looks + 1 } else { 0 };
            standing.wait_for_all(deadline).map_err(|error| match error {
                MemoryError::TooSlow { pid, thread, .. } => MemoryError::TooSlow { pid, thread, limit },
                other => other,
            })?;
        }
        // All that was listed may have been on its way out.
        if standing.threads.is_empty() { Err(MemoryError::Gone { pid }) } else { Ok(standing) }
    }

    fn seize(&mut self, id: i32) -> Result<()> {
        let thread = Pid::from_raw(id);
        match ptrace::seize(thread, self.options) {
            Ok(()) => {}
            Err(Errno::ESRCH) => return Ok(()),
            // One that has ended and was not collected yet cannot be traced; its memory is none of its business any more.
            Err(Errno::EPERM) if self.is_over(id)? => return Ok(()),
            Err(Errno::EPERM | Errno::EACCES) => {
                return Err(MemoryError::not_here(self.pid, NotHere::Traced));
            }
            Err(error) => return Err(MemoryError::number("trace a thread", self.pid)(error)),
        }
        self.threads.push(Thread { id, stopped: false, signal: Cell::new(0) });
        match ptrace::interrupt(thread) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(MemoryError::number("interrupt a thread", self.pid)(error)),
        }
    }

    fn is_over(&self, thread: i32) -> Result<bool> {
        let stat = proc::read(self.pid, &format!("task/{thread}/stat"))
            .map_err(MemoryError::system("look at a thread", self.pid))?;
        Ok(stat.and_then(|line| Stat::parse(&line)).is_none_or(|stat| stat.is_over()))
    }

    fn wait_for_all(&mut self, deadline: Instant) -> Result<()> {
        let pid = self.pid;
        let mut ended = Vec::new();
        for thread in self.threads.iter_mut().filter(|thread| !thread.stopped) {
            match wait_for_stop(pid, thread.id, Some(deadline))? {
                Stop::Asked => thread.stopped = true,
                Stop::Signal(signal) => {
                    thread.stopped = true;
                    thread.signal.set(signal);
                }
                Stop::Ended => ended.push(thread.id),
            }
        }
        self.threads.retain(|thread| !ended.contains(&thread.id));
        Ok(())
    }

    /// How its threads are traced.
    pub(crate) fn options(&self) -> ptrace::Options {
        self.options
    }

    /// Those that stand where no signal waits to be delivered, the one that leads the process first.
    pub(crate) fn without_signal(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter().filter(|thread| thread.signal.get() == 0)
    }
}

/// Runs what traces on a thread of its own.
fn on_a_thread<T: Send>(pid: i32, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let tracer = std::thread::Builder::new().name("standing".to_owned());
        let tracer = tracer
            .spawn_scoped(scope, work)
            .map_err(MemoryError::system("start a thread to trace the threads", pid))?;
        match tracer.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl Thread {
    /// Gives it a signal when it goes on.
    pub(crate) fn owe(&self, signal: i32) {
        self.signal.set(signal);
    }
}

/// Waits until a thread that we trace has stopped; without a deadline for as long as it takes.
pub(crate) fn wait_for_stop(pid: i32, thread: i32, deadline: Option<Instant>) -> Result<Stop> {
    // Only what this thread traces: children of the program are not ours to collect.
    let options = WaitOptions::NOHANG | WaitOptions::from_bits_retain(WALL | NO_THREAD);
    loop {
        match waitpid(rustix::process::Pid::from_raw(thread), options) {
            Ok(Some((_, status))) => match status.stopping_signal() {
                Some(_) if status.as_raw() >> 16 == EVENT_STOP => return Ok(Stop::Asked),
                Some(signal) => return Ok(Stop::Signal(signal)),
                None => return Ok(Stop::Ended),
            },
            Ok(None) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                return Err(MemoryError::TooSlow { pid, thread, limit: STOP_LIMIT });
            }
            Ok(None) => std::thread::sleep(BETWEEN_LOOKS),
            Err(rustix::io::Errno::CHILD) => return Ok(Stop::Ended),
            Err(error) => return Err(MemoryError::number("wait for a thread", pid)(error)),
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        for thread in self.threads.iter().filter(|thread| thread.stopped) {
            // It may have been killed. One that could not be let go otherwise goes on when this thread of ours ends, which is next.
            let _ = sys::detach(thread.id, thread.signal.get());
        }
    }
}

/// A process that somebody else keeps from running, for as long as the caller has their word for it.
#[derive(Debug)]
pub struct Frozen {
    pid: i32,
}

impl Frozen {
    /// Looks whether every thread is stopped. That it stays so is for the caller to know: CRIU holds a tree until its hook has answered.
    pub fn look(pid: i32) -> Result<Self> {
        let all = proc::threads(pid).map_err(MemoryError::system("list the threads", pid))?;
        let mut seen = 0;
        for thread in all.unwrap_or_default() {
            let stat = proc::read(pid, &format!("task/{thread}/stat"))
                .map_err(MemoryError::system("look at a thread", pid))?;
            match stat.and_then(|line| Stat::parse(&line)) {
                Some(stat) if stat.is_stopped() => seen += 1,
                Some(stat) if !stat.is_over() => {
                    return Err(MemoryError::NotStill { pid, thread, state: stat.state });
                }
                _ => {}
            }
        }
        if seen == 0 { Err(MemoryError::Gone { pid }) } else { Ok(Self { pid }) }
    }
}

impl sealed::Sealed for Frozen {}

impl StandsStill for Frozen {
    fn pid(&self) -> i32 {
        self.pid
    }
}
