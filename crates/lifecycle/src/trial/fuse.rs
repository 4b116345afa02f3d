//! When the daemon of a trial dies, and which request to the machine fails.
//!
//! One fuse for the process, because a process dies as a whole: a trial's daemon is a process of its own. Without a fuse nothing happens,
//! so all other tests of this crate pass the same moments unharmed.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::process::{Signal, getpid, kill_process};

use crate::error::{LifecycleError, Result};

/// What is to go wrong, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The daemon is killed at this moment.
    DiesAt(usize),
    /// This request to the machine fails.
    FailsAt(usize),
    /// The daemon is killed in the first dump, and whoever works on that does not know it.
    Outlived,
}

impl Fault {
    /// As [`fmt::Display`] writes it.
    pub(crate) fn read(how: &str, at: &str) -> Self {
        let at = at.parse().unwrap();
        match how {
            "dies" => Self::DiesAt(at),
            "fails" => Self::FailsAt(at),
            "outlived" => Self::Outlived,
            _ => Self::None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("unharmed 0"),
            Self::DiesAt(at) => write!(out, "dies {at}"),
            Self::FailsAt(at) => write!(out, "fails {at}"),
            Self::Outlived => out.write_str("outlived 0"),
        }
    }
}

struct Fuse {
    fault: Fault,
    moments: usize,
    requests: usize,
    /// Every moment and request, by name, one on a line.
    told: File,
}

impl Fuse {
    fn die(&mut self) {
        writeln!(self.told, "died").unwrap();
        let _dead = kill_process(getpid(), Signal::KILL);
        // The lock is held, so nobody else does anything more.
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}

static FUSE: OnceLock<Mutex<Fuse>> = OnceLock::new();

/// From here on moments count.
pub(crate) fn light(fault: Fault, told: &Path) {
    let told = OpenOptions::new().create(true).append(true).open(told).unwrap();
    let lit = FUSE.set(Mutex::new(Fuse { fault, moments: 0, requests: 0, told }));
    assert!(lit.is_ok(), "a process has one fuse");
}

fn fuse() -> Option<MutexGuard<'static, Fuse>> {
    Some(FUSE.get()?.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A moment passes.
pub(crate) fn pass(moment: &str) {
    let Some(mut fuse) = fuse() else { return };
    fuse.moments += 1;
    writeln!(fuse.told, "moment {moment}").unwrap();
    if fuse.fault == Fault::DiesAt(fuse.moments) {
        fuse.die();
    }
}

/// A dump begins, and `work` hands it to a worker that does it when the daemon is dead.
pub(crate) fn outlive(work: impl FnOnce()) {
    let Some(mut fuse) = fuse().filter(|fuse| fuse.fault == Fault::Outlived) else { return };
    // It notes its worker in the journal, which is a moment.
    fuse.fault = Fault::None;
    drop(fuse);
    work();
    if let Some(mut fuse) = self::fuse() {
        fuse.die();
    }
}

/// The machine is asked for something. A moment passes before it is done.
pub(crate) fn request(what: &'static str) -> Result<()> {
    pass(&format!("about to {what}"));
    let Some(mut fuse) = fuse() else { return Ok(()) };
    fuse.requests += 1;
    if fuse.fault == Fault::FailsAt(fuse.requests) {
        writeln!(fuse.told, "failed").unwrap();
        return Err(LifecycleError::BadRequest { detail: format!("the machine would not {what}") });
    }
    writeln!(fuse.told, "request {what}").unwrap();
    Ok(())
}
