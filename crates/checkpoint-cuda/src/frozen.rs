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

use base::proc::{self, CgroupVersion as Version, Hold};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::{CudaError, Result};
use crate::process::{self, Process};

/// How long a thaw may take to show.
const THAW: Duration = Duration::from_secs(2);

/// Everything that holds `pid`; nothing if it runs.
pub(crate) fn holds(pid: i32) -> Result<Vec<Hold>> {
    let found = proc::holds(pid).map_err(CudaError::io("read", proc::path(pid, "cgroup")))?;
    found.ok_or(CudaError::Ended { pid })
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
}
