//! `restore-remote`: how long until a kernel whose snapshot is in a remote answers its first cell on a machine that has nothing of it.
//!
//! In turns a new daemon with an empty store clones everything and restores from its own store, and another one clones the history alone and
//! restores straight from the remote, with an empty cache. Both begin before the clone. The server is SeaweedFS on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::server::{KEYS, Server};
use crate::live::{Client, Daemon, Place, User, able, connection, fill, output, programs};
use crate::measure::{in_turns, median, ratio_of_rounds, settle};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// Alternates the two.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let mib = run.size_mib.unwrap_or(if run.smoke { 64 } else { 2048 });
    let user = User::make()?;
    let place = Place::of(&user, "remote")?;
    let server = Server::start(&place.dir)?;
    let program = place.dir.join("infinijup");
    fs::copy(programs()?.join("infinijup"), &program).context("cannot copy infinijup")?;
    let address = server.address("straight");
    let mut client = Client::start()?;
    let commit = push(&user, &program, &address, &mut client, mib)?;

    let (mut whole, mut straight) = (Vec::new(), Vec::new());
    for number in 0..run.rounds {
        run.say(&format!("restore-remote {mib} MiB: round {} of {}", number + 1, run.rounds));
        let first = |more: &[&str], client: &mut Client| -> Result<f64> {
            let daemon = Daemon::start_with(&user, &keys())?;
            settle();
            let begun = Instant::now();
            command(&user, &program, &daemon, &[&["clone", &address], more].concat())?;
            let words = ["branch", &commit, "--force", "--name", "moved"];
            let said = command(&user, &program, &daemon, &words)?;
            let (_, file) = connection(&branched(&said)?)?;
            let answer = client.ask(&file, "answer += 1", "answer")?;
            let took = begun.elapsed().as_secs_f64();
            ensure!(answer == "42", "the kernel came back with another memory: {answer}");
            Ok(took)
        };
        let mut clients = [Client::start()?, Client::start()?];
        let [one, other] = &mut clients;
        let mut whole_turn = || {
            whole.push(first(&[], one)?);
            Ok(())
        };
        let mut straight_turn = || {
            straight.push(first(&["--history"], other)?);
            Ok(())
        };
        in_turns(number, &mut [&mut whole_turn, &mut straight_turn])?;
    }
    // The bar is that of a kernel that runs before its memory is there, and ours does not. A smoke run sees that it is no loss.
    let bar = if run.smoke { 1.2 } else { 0.25 };
    Ok(Report {
        name: "restore-remote",
        bars: vec![Bar::at_most(
            Kind::Speed,
            "first answer straight from a remote",
            ratio_of_rounds(&straight, &whole),
            "of clone and restore",
            bar,
        )],
        compared_with: json!({ "straight_s": round(median(&straight)), "whole_s": round(median(&whole)),
            "rounds": { "straight": rounded(&straight), "whole": rounded(&whole) } }),
        sizes: json!({ "kernel_mib": mib, "rounds": run.rounds }),
    })
}

fn rounded(all: &[f64]) -> Vec<Value> {
    all.iter().map(|one| json!(round(*one))).collect()
}

fn keys() -> Vec<(&'static str, PathBuf)> {
    KEYS.iter().map(|(name, value)| (*name, PathBuf::from(value))).collect()
}

/// A kernel's snapshot goes to the remote, and the kernel goes.
fn push(user: &User, program: &Path, address: &str, client: &mut Client, mib: u64) -> Result<String> {
    let daemon = Daemon::start(user)?;
    let (id, file) = daemon.kernel("straight")?;
    client.ask(&file, &fill(mib), "answer")?;
    let taken = daemon.job(&format!("/v1/sessions/{id}/snapshot"), &json!({}))?;
    let commit = taken["commit"].as_str().with_context(|| format!("no commit in {taken}"))?.to_owned();
    command(user, program, &daemon, &["remote", "add", "origin", address])?;
    command(user, program, &daemon, &["push", "--unencrypted"])?;
    daemon.remove(&id)?;
    Ok(commit)
}

fn command(user: &User, program: &Path, daemon: &Daemon, words: &[&str]) -> Result<String> {
    let mut command = user.command(program);
    command.arg("--json").args(words).env("INFINIJUP_SOCKET", daemon.socket()).envs(KEYS);
    output(&mut command)
}

/// The new session, in what `branch` has said.
fn branched(said: &str) -> Result<Value> {
    let mut lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let outcome = lines.find(|line| line["message_type"] == "branched").context("nothing was branched")?;
    Ok(outcome["branches"][0]["session"].clone())
}
