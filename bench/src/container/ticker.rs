//! The program in each container, and what it is asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = include_str!("ticker.py");
/// How long it may take to say something, on a machine that does other work too.
const PATIENCE: Duration = Duration::from_secs(120);

/// The directory in which a program says what it is asked.
pub(super) struct Ticker {
    work: PathBuf,
}

impl Ticker {
    /// Makes a directory for one, and the program in it.
    pub(super) fn new(work: PathBuf) -> Result<Self> {
        fs::create_dir(&work).with_context(|| format!("cannot create {}", work.display()))?;
        fs::write(work.join("ticker.py"), PROGRAM)?;
        Ok(Self { work })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.work
    }

    /// The command line inside, where the directory is `/work`.
    pub(super) fn command(mib: u64) -> [String; 4] {
        ["/usr/bin/python3".into(), "/work/ticker.py".into(), "/work".into(), mib.to_string()]
    }

    /// Has it write so many bytes; the longest time for which it was not able to run since it was last asked.
    pub(super) fn ask(&self, pid: i32, bytes: u64) -> Result<f64> {
        let said = self.work.join("said");
        fs::write(self.work.join("order"), bytes.to_string())?;
        let pid = Pid::from_raw(pid).context("a container without a process")?;
        kill_process(pid, Signal::USR1).context("the program in a container has ended")?;
        self.until("it says something", || said.exists())?;
        let gap = fs::read_to_string(&said)?;
        fs::remove_file(&said)?;
        gap.parse().with_context(|| format!("{gap} is no number of seconds"))
    }

    /// What it has counted to.
    fn beat(&self) -> Option<u64> {
        fs::read_to_string(self.work.join("beat")).ok()?.parse().ok()
    }

    /// Waits until it counts on.
    pub(super) fn beats(&self) -> Result<()> {
        let before = self.beat();
        self.until("it runs", || self.beat() > before)
    }

    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
        let begun = Instant::now();
        while !is_so() {
            ensure!(begun.elapsed() < PATIENCE, "waited too long until {what}: {}", self.work.display());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
