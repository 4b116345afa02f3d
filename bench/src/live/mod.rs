//! What the benchmarks of live kernels share: a user, that user's daemon, bare boxes, clients, and places on disk that are cleaned up.
//!
//! Both contenders run the same kernel with the same memory in the same kind of box, as the same ordinary user. Ours is a session of
//! `infinijupd`; the bare one is driven by `criu` command lines alone, with the options that a person would find who had read
//! all of its documentation. They take turns, so that a busy minute hits both. Root makes the user, looks on, and runs the clients.

mod bare;
mod browser;
mod client;
mod daemon;
mod gap;
pub(crate) mod gpu;
mod place;
mod switched;
mod user;

pub(crate) use bare::BareBox;
pub(crate) use browser::{Browser, LAB};
pub(crate) use client::Client;
pub(crate) use daemon::{Daemon, connection};
pub(crate) use gap::{WATCH, longest_gap};
pub(crate) use place::Place;
pub(crate) use switched::{CopyAhead, Pause, SwitchedKernel, Turns};
pub(crate) use user::User;

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
pub(crate) struct Unable(pub(crate) String);

/// Fails with [`Unable`] where a live benchmark cannot run.
pub(crate) fn able() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(Unable("it needs root, which makes the ordinary user that it runs as".to_owned()));
    }
    for (path, script) in [(CRIU, "install-criu.sh"), (PYTHON, "test-python.sh")] {
        if !Path::new(path).exists() {
            bail!(Unable(format!("it needs {path}: run scripts/{script}")));
        }
    }
    programs().map(drop)
}

/// What a daemon needs, in one directory.
const PROGRAMS: [&str; 3] = ["infinijupd", "infinijup-box", "infinijup-gpu"];

/// The directory with the programs: `$INFINIJUP_PROGRAMS`, or where this program is.
pub(crate) fn programs() -> Result<PathBuf> {
    let dir = match std::env::var_os("INFINIJUP_PROGRAMS") {
        Some(dir) => fs::canonicalize(&dir).with_context(|| format!("no directory {}", dir.display()))?,
        None => std::env::current_exe()?.parent().context("the program is nowhere")?.to_owned(),
    };
    for name in PROGRAMS {
        ensure!(dir.join(name).exists(), "there is no {} in {}: build it", name, dir.display());
    }
    Ok(dir)
}

/// Copies the programs to `to`, where every user may run them: a build often lies in a home that is closed.
fn copy_programs(to: &Path) -> Result<()> {
    let from = programs()?;
    fs::create_dir(to)?;
    for name in PROGRAMS {
        fs::copy(from.join(name), to.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}

/// Runs a command to its end; fails with what it said.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// The same for what it writes.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let done = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    ensure!(done.status.success(), "{command:?}: {}: {out} {err}", done.status);
    Ok(out.into_owned())
}

/// A cell that fills `mib` MiB, half with noise and half with what compresses. What it filled before goes first; nothing larger is made on
/// the way.
pub(crate) fn fill(mib: u64) -> String {
    let numbers = (mib << 20) / 16;
    format!(
        "import numpy
noise = wave = None
noise = numpy.random.default_rng(1).random({numbers})
wave = numpy.empty({numbers})
for at in range(0, {numbers}, 1 << 20):
    part = wave[at:at + (1 << 20)]
    numpy.round(numpy.sin(numpy.arange(at, at + part.size) / 1e3), 3, out=part)
answer = 41"
    )
}
