//! `workspace`: what it costs a snapshot that all files of a directory belong to it.
//!
//! One kernel in a directory with many files. A first snapshot takes all of them; then, in turns, a cell changes one file and a snapshot takes the
//! directory, and the same with no files at all. The difference of the two pauses is what files cost while the kernel stands still.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::live::{Client, Daemon, User, able};
use crate::measure::{median, settle};
use crate::report::{Bar, Kind, Report, round};
use crate::rng::Rng;
use crate::run::Run;

/// Files of a directory.
const IN_ONE: usize = 250;

/// Snapshots with all files and with none, in turns.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let (files, file_bytes) = if run.smoke { (2_000, 4 << 10) } else { (50_000, 40 << 10) };
    let rounds = run.rounds.max(if run.smoke { 1 } else { 5 });
    let user = User::make()?;
    let daemon = Daemon::start(&user)?;
    run.say(&format!("workspace: {files} files of {file_bytes} bytes"));
    let data = user.home().join("data");
    make_files(&user, &data, files, file_bytes, run.seed)?;
    let (id, file) = daemon.kernel_in("workspace", &data)?;
    let mut client = Client::start()?;
    client.ask(&file, "answer = 41", "answer")?;
    let snapshot = |policy: &str| {
        daemon.job(&format!("/v1/sessions/{id}/snapshot"), &json!({ "files": { "type": policy } }))
    };
    settle();
    let first = snapshot("workspace")?;
    let (mut all, mut none) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        run.say(&format!("workspace: round {} of {rounds}", number + 1));
        let mut order = ["workspace", "none"];
        order.rotate_left(number % 2);
        for policy in order {
            let cell = format!("open('0/0', 'w').write('round {number} {policy}'); answer = {number}");
            let answer = client.ask(&file, &cell, "answer")?;
            ensure!(answer == number.to_string(), "the kernel said {answer}");
            settle();
            let taken = snapshot(policy)?;
            if policy == "workspace" { all.push(taken) } else { none.push(taken) }
        }
    }
    let newest = all.last().context("no round")?;
    let kept = daemon.call("GET", &format!("/v1/commits/{}/files?limit=1", text(newest, "commit")?), None)?;
    ensure!(kept["count"].as_u64().is_some_and(|count| count >= files as u64), "files are missing: {kept}");
    let seconds = |taken: &[Value], field: &str| -> Result<f64> {
        let values = taken.iter().map(|one| one[field].as_f64().context("a snapshot without a time"));
        Ok(median(&values.collect::<Result<Vec<_>>>()?) / 1e6)
    };
    let frozen = (seconds(&all, "frozen_us")?, seconds(&none, "frozen_us")?);
    let total_s = seconds(&all, "total_us")?;
    Ok(Report {
        name: "workspace",
        bars: vec![
            Bar::at_most(Kind::Speed, "a further snapshot", total_s, "s", 1.0),
            Bar::at_most(Kind::Speed, "frozen for files", (frozen.0 - frozen.1).max(0.0), "s", 0.05),
        ],
        compared_with: json!({
            "first_s": first["total_us"].as_f64().map(|micros| round(micros / 1e6)),
            "first_frozen_s": first["frozen_us"].as_f64().map(|micros| round(micros / 1e6)),
            "total_s": round(total_s), "without_files_s": round(seconds(&none, "total_us")?),
            "frozen_s": round(frozen.0), "without_files_frozen_s": round(frozen.1),
            "steps": newest["steps"],
        }),
        sizes: json!({ "files": files, "bytes": files as u64 * file_bytes as u64, "rounds": rounds }),
    })
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("no {field} in {value}"))
}

/// Noise, so that nothing is stored once for two files.
fn make_files(user: &User, data: &Path, files: usize, bytes: usize, seed: u64) -> Result<()> {
    let mut rng = Rng::of(&[seed, 50_000]);
    let mut content = vec![0; bytes];
    make(user, data)?;
    for number in 0..files {
        let directory = data.join((number / IN_ONE).to_string());
        if number % IN_ONE == 0 {
            make(user, &directory)?;
        }
        content.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next().to_le_bytes()));
        let path = directory.join((number % IN_ONE).to_string());
        fs::write(&path, &content)?;
        user.give(&path)?;
    }
    Ok(())
}

fn make(user: &User, directory: &Path) -> Result<()> {
    fs::create_dir(directory)?;
    user.give(directory)
}
