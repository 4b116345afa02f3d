//! Benchmarks of remotes: the index at ten million objects, the speed of push and pull, and many writers at once.

mod counted;
mod files;
mod fleet;
mod scale;
mod server;
mod speed;
mod straight;

pub(crate) use fleet::{members_as_told, run as run_fleet};
pub(crate) use scale::run as run_scale;
pub(crate) use speed::{run as run_speed, transfer_as_told};
pub(crate) use straight::run as run_straight;

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Runs a part of a benchmark in a process of its own, with what it is told on its standard input.
fn in_child<T: DeserializeOwned>(
    option: &str,
    environment: &[(&str, &str)],
    told: &impl Serialize,
) -> Result<T> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(option)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a process")?;
    // Dropped at once, which ends its input.
    child.stdin.take().context("the process has no input")?.write_all(&serde_json::to_vec(told)?)?;
    let done = child.wait_with_output()?;
    ensure!(done.status.success(), "the process of {option} failed: {}", done.status);
    serde_json::from_slice(&done.stdout).context("the process did not answer with JSON")
}
