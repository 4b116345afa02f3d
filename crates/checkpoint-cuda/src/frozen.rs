//! Processes that stand still.
//!
//! The driver locks a process with the help of the process's own threads. If they are stopped or frozen, the lock waits until
//! its time runs out, and a question for the state, which has no limit, waits for ever. So this is found out before anything is
//! asked: by a signal or a tracer (state `T` or `t` of any thread), by the freezer of cgroup v1, or by that of cgroup v2, each
//! of the process's own cgroup or of one above it.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use base::proc;
use rustix::process::{Pid, Signal, kill_process};

use crate::cgroup::{self, Version};
use crate::error::{CudaError, Result};
use crate::process::{self, Process};

/// How long a thaw may take to show.
const THAW: Duration = Duration::from_secs(2);

/// What holds a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// SIGSTOP or one of its kind.
    Stopped,
    /// A debugger or another tracer.
    Traced { by: String },
    /// The freezer of a cgroup.
    Cgroup { version: Version, directory: PathBuf },
}

impl Hold {
    /// For people.
    pub(crate) fn how(&self) -> String {
        match self {
            Self::Stopped => "stopped by a signal".to_owned(),
            Self::Traced { by } => format!("held by its tracer {by}"),
            Self::Cgroup { directory, .. } => format!("cgroup `{}`", directory.display()),
        }
    }
}

/// Everything that holds `pid`; nothing if it runs.
pub(crate) fn holds(pid: i32) -> Result<Vec<Hold>> {
    let mut found = Vec::new();
    for cgroup in cgroup::of(pid, "freezer")? {
        let Some(own) = cgroup.directories.first() else { continue };
        if !is_frozen(cgroup.version, own) {
            continue;
        }
        // Its own cgroup may be frozen because one above it is.
        let culprits: Vec<&PathBuf> =
            cgroup.directories.iter().filter(|directory| freezes(cgroup.version, directory)).collect();
        let directories = if culprits.is_empty() { vec![own] } else { culprits };
        found.extend(
            directories
                .into_iter()
                .map(|directory| Hold::Cgroup { version: cgroup.version, directory: directory.clone() }),
        );
    }
    found.extend(stopped(pid)?);
    Ok(found)
}

fn stopped(pid: i32) -> Result<Option<Hold>> {
    let threads = proc::threads(pid).ok().flatten().ok_or(CudaError::Ended { pid })?;
    for thread in threads {
        // A thread may end while we look: what is left counts.
        let status =
            proc::read_text(pid, &format!("task/{thread}/status")).ok().flatten().unwrap_or_default();
        let state = proc::field(&status, "State").and_then(|state| state.chars().next());
        let tracer = proc::field(&status, "TracerPid").unwrap_or("0");
        match state {
            Some('t') => return Ok(Some(Hold::Traced { by: tracer.to_owned() })),
            Some('T') if tracer != "0" => return Ok(Some(Hold::Traced { by: tracer.to_owned() })),
            Some('T') => return Ok(Some(Hold::Stopped)),
            _ => {}
        }
    }
    Ok(None)
}

/// Is this cgroup frozen or about to be, by itself or by one above it?
fn is_frozen(version: Version, directory: &Path) -> bool {
    match version {
        Version::One => matches!(value(directory, "freezer.state").as_str(), "FROZEN" | "FREEZING"),
        Version::Two => {
            // `frozen 1` says that it is; `cgroup.freeze` that it is about to be.
            value(directory, "cgroup.events").lines().any(|line| line == "frozen 1")
                || freezes(version, directory)
        }
    }
}

/// Was this very cgroup told to freeze?
fn freezes(version: Version, directory: &Path) -> bool {
    let file = match version {
        Version::One => "freezer.self_freezing",
        Version::Two => "cgroup.freeze",
    };
    value(directory, file) == "1"
}

/// The root has none of these files: it cannot be frozen.
fn value(directory: &Path, file: &str) -> String {
    fs::read_to_string(directory.join(file)).unwrap_or_default().trim().to_owned()
}

/// Refuses processes that stand still.
pub(crate) fn refuse<'a>(processes: impl IntoIterator<Item = &'a Process>) -> Result<()> {
    for process in processes {
        if let Some(hold) = holds(process.pid)?.first() {
            return Err(CudaError::Frozen { pid: process.pid, how: hold.how() });
        }
    }
    Ok(())
}

/// Processes and cgroups that were let go, and are held again when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Thawed {
    processes: Vec<(i32, u64)>,
    cgroups: Vec<(Version, PathBuf)>,
}

impl Thawed {
    /// Lets all of `processes` run. What a tracer holds cannot be let go.
    pub(crate) fn thaw<'a>(processes: impl IntoIterator<Item = &'a Process> + Clone) -> Result<Self> {
        let mut thawed = Self::default();
        for process in processes.clone() {
            for hold in holds(process.pid)? {
                thawed.let_go(process, hold)?;
            }
        }
        let deadline = Instant::now() + THAW;
        while let Err(error) = refuse(processes.clone()) {
            if Instant::now() > deadline {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(thawed)
    }

    fn let_go(&mut self, process: &Process, hold: Hold) -> Result<()> {
        let pid = process.pid;
        match hold {
            Hold::Traced { .. } => Err(CudaError::Frozen { pid, how: hold.how() }),
            Hold::Stopped => {
                signal(pid, Signal::CONT)?;
                self.processes.push((pid, process.start_time));
                Ok(())
            }
            Hold::Cgroup { version, directory } => {
                // One cgroup may hold several of our processes; it is let go once.
                if self.cgroups.iter().any(|(_, known)| *known == directory) {
                    return Ok(());
                }
                set(version, &directory, false)?;
                self.cgroups.push((version, directory));
                Ok(())
            }
        }
    }

    /// Nothing is to be held again.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Drop for Thawed {
    fn drop(&mut self) {
        for (pid, start_time) in self.processes.drain(..) {
            if process::start_time(pid) == Some(start_time) {
                let _ = signal(pid, Signal::STOP);
            }
        }
        for (version, directory) in self.cgroups.drain(..).rev() {
            let _ = set(version, &directory, true);
        }
    }
}

fn signal(pid: i32, signal: Signal) -> Result<()> {
    let ended = CudaError::Ended { pid };
    let Some(number) = Pid::from_raw(pid) else { return Err(ended) };
    kill_process(number, signal).map_err(|_| ended)
}

fn set(version: Version, directory: &Path, frozen: bool) -> Result<()> {
    let (file, word) = match (version, frozen) {
        (Version::One, true) => ("freezer.state", "FROZEN"),
        (Version::One, false) => ("freezer.state", "THAWED"),
        (Version::Two, true) => ("cgroup.freeze", "1"),
        (Version::Two, false) => ("cgroup.freeze", "0"),
    };
    let path = directory.join(file);
    fs::write(&path, word).map_err(CudaError::io("write", path))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Self {
            Self(Command::new("sleep").arg("1000").spawn().unwrap())
        }

        fn pid(&self) -> i32 {
            i32::try_from(self.0.id()).unwrap()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn wait_for(what: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !what() {
            assert!(Instant::now() < deadline, "waited for too long");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_stopped_process_is_refused_or_let_go_and_stopped_again() {
        let sleeper = Sleeper::new();
        let process = [Process::find(sleeper.pid()).unwrap()];
        refuse(&process).unwrap();
        signal(sleeper.pid(), Signal::STOP).unwrap();
        wait_for(|| !holds(sleeper.pid()).unwrap().is_empty());
        let refused = refuse(&process).unwrap_err();
        assert_eq!(refused.code(), "IJ-G014");
        assert!(refused.to_string().contains("stopped by a signal"), "{refused}");

        let thawed = Thawed::thaw(&process).unwrap();
        assert_eq!(holds(sleeper.pid()).unwrap(), []);
        drop(thawed);
        wait_for(|| holds(sleeper.pid()).unwrap() == [Hold::Stopped]);
    }

    #[test]
    fn frozen_cgroups_are_told_by_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(directory.path().join(file), text).unwrap();
        assert!(!is_frozen(Version::One, directory.path()));
        assert!(!is_frozen(Version::Two, directory.path()));
        for (state, frozen) in [("THAWED\n", false), ("FREEZING\n", true), ("FROZEN\n", true)] {
            write("freezer.state", state);
            assert_eq!(is_frozen(Version::One, directory.path()), frozen, "{state}");
        }
        write("cgroup.events", "populated 1\nfrozen 0\n");
        write("cgroup.freeze", "0\n");
        assert!(!is_frozen(Version::Two, directory.path()));
        write("cgroup.freeze", "1\n");
        assert!(is_frozen(Version::Two, directory.path()));
        write("cgroup.freeze", "0\n");
        write("cgroup.events", "populated 1\nfrozen 1\n");
        assert!(is_frozen(Version::Two, directory.path()));
    }
}
