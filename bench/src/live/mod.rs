//! What the benchmarks of live kernels share: a daemon, bare boxes, clients, and a place on disk that is cleaned up.
//!
//! Both contenders run the same kernel with the same memory in the same kind of box. Ours is a session of `infinijupd`;
//! the bare one is driven by `criu` command lines alone, with the options that a person would find who had read all of its
//! documentation. They take turns, so that a busy minute hits both.

mod bare;
mod browser;
mod client;
mod daemon;
pub(crate) mod gpu;

pub(crate) use bare::BareBox;
pub(crate) use browser::Browser;
pub(crate) use client::Client;
pub(crate) use daemon::{Daemon, connection};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Where scripts/test-python.sh puts the Python of the tests.
pub(crate) const PYTHON: &str = "/opt/infinijup/test-venv/bin/python";
/// Where scripts/install-criu.sh puts CRIU.
pub(crate) const CRIU: &str = "/opt/infinijup/criu/bin/criu";

/// What keeps benchmarks of live kernels from running on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unable(String);

/// Fails with [`Unable`] where a live benchmark cannot run.
pub(crate) fn able() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(Unable("it needs root".to_owned()));
    }
    for (path, script) in [(CRIU, "install-criu.sh"), (PYTHON, "test-python.sh")] {
        if !Path::new(path).exists() {
            bail!(Unable(format!("it needs {path}: run scripts/{script}")));
        }
    }
    programs().map(drop)
}

/// The directory with `infinijupd` and `infinijup-box`: `$INFINIJUP_PROGRAMS`, or where this program is.
pub(crate) fn programs() -> Result<PathBuf> {
    let dir = match std::env::var_os("INFINIJUP_PROGRAMS") {
        Some(dir) => fs::canonicalize(&dir).with_context(|| format!("no directory {}", dir.display()))?,
        None => std::env::current_exe()?.parent().context("the program is nowhere")?.to_owned(),
    };
    for name in ["infinijupd", "infinijup-box"] {
        ensure!(dir.join(name).exists(), "there is no {} in {}: build it", name, dir.display());
    }
    Ok(dir)
}

/// A directory of our own with a short path, since sockets are in it. Deleted with this value once nothing is mounted below it:
/// the root of a box is a bind of `/`.
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
}

impl Place {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let dir = PathBuf::from(format!("/var/lib/infinijup-bench-{}-{name}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(Self { dir })
    }

    fn mounts(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let below = format!("{}/", self.dir.display());
        let mut points: Vec<String> = table
            .lines()
            .filter_map(|line| line.split(' ').nth(4))
            .filter(|point| point.starts_with(&below))
            .map(str::to_owned)
            .collect();
        points.sort_by_key(|point| std::cmp::Reverse(point.len()));
        points
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for point in self.mounts() {
            let _ = Command::new("umount").args(["--lazy", &point]).status();
        }
        if self.mounts().is_empty() {
            // The next run has a directory of its own; what is left here can be deleted by hand.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Runs a command to its end; fails with what it said.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    let done = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// A cell that fills `mib` MiB, half with noise and half with what compresses.
pub(crate) fn fill(mib: u64) -> String {
    let numbers = (mib << 20) / 16;
    format!(
        "import numpy; noise = numpy.random.default_rng(1).random({numbers}); \
         wave = numpy.round(numpy.sin(numpy.arange({numbers}) / 1e3), 3); answer = 41"
    )
}
