//! `gpu-overhead`: a snapshot and a resume of a program with GPU memory, against the same by bare commands.
//!
//! Both contenders run the same program on the same stand-in, take turns, and are timed by the same clock, the program's: for a snapshot
//! the longest time between two rounds of its loop, for a resume the time from the request until it has made its next round. The bare
//! commands are the driver's calls, made by one long-lived process, and `criu` on the command line.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::live::gpu::{Caller, Gpus, Target};
use crate::live::{BareBox, Daemon, Place, User, able};
use crate::measure::{better, in_turns, ratio_of_rounds, settle, timed};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// Seconds of each round.
#[derive(Default)]
struct Rounds {
    our_snapshots: Vec<f64>,
    bare_snapshots: Vec<f64>,
    our_resumes: Vec<f64>,
    bare_resumes: Vec<f64>,
}

/// Alternates our snapshot, suspend and resume with the bare parts.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let mib: u64 = if run.smoke { 64 } else { 2048 };
    let rounds = measure(run, mib)?;
    let bars = vec![
        Bar::at_most(
            Kind::Speed,
            "snapshot",
            ratio_of_rounds(&rounds.our_snapshots, &rounds.bare_snapshots),
            "of the bare commands",
            1.05,
        ),
        Bar::at_most(
            Kind::Speed,
            "restore",
            ratio_of_rounds(&rounds.our_resumes, &rounds.bare_resumes),
            "of the bare commands",
            1.05,
        ),
    ];
    let all = |values: &[f64]| values.iter().map(|value| round(*value)).collect::<Vec<_>>();
    Ok(Report {
        name: "gpu-overhead",
        bars,
        compared_with: json!({
            "snapshot": { "ours_s": all(&rounds.our_snapshots), "bare_s": all(&rounds.bare_snapshots) },
            "restore": { "ours_s": all(&rounds.our_resumes), "bare_s": all(&rounds.bare_resumes) },
        }),
        sizes: json!({ "vram_mib": mib, "rounds": run.rounds }),
    })
}

fn measure(run: &Run, mib: u64) -> Result<Rounds> {
    let user = User::make()?;
    let gpus = Gpus::start()?;
    let mut command = Command::new("/usr/bin/python3");
    command.arg("-u").arg(gpus.target()?).args(["--gpus", "1", "--mib", &mib.to_string()]).envs(gpus.env());
    let daemon = Daemon::start_with(&user, &gpus.env())?;
    let id = daemon.command("gpu", &command)?;
    let mut bare = BareBox::with_nodes(&user, "g", gpus.nodes())?;
    bare.launch(&command)?;
    let mut caller = Caller::start(&user, &gpus)?;
    let memory = Place::in_memory(&user, "tmpfs")?;
    let disk = Place::of(&user, "disk")?;

    let mut rounds = Rounds::default();
    // The first snapshot stores everything and warms things up.
    for number in 0..=run.rounds {
        run.say(&format!("gpu-overhead {mib} MiB: round {number} of {}", run.rounds));
        let (mut ours, mut theirs) = ((0.0, 0.0), (0.0, 0.0));
        let mut our_turn = || {
            ours = our_round(&daemon, &id)?;
            Ok(())
        };
        let mut bare_turn = || {
            theirs = bare_round(&mut caller, &mut bare, &disk.dir, &memory.dir)?;
            Ok(())
        };
        in_turns(number, &mut [&mut our_turn, &mut bare_turn])?;
        if number > 0 {
            rounds.our_snapshots.push(ours.0);
            rounds.our_resumes.push(ours.1);
            rounds.bare_snapshots.push(theirs.0);
            rounds.bare_resumes.push(theirs.1);
        }
    }
    Ok(rounds)
}

/// Seconds of a snapshot and of a resume of our session.
fn our_round(daemon: &Daemon, id: &str) -> Result<(f64, f64)> {
    let target = Target::find(daemon.pid_of(id)?, daemon.log_of(id)?)?;
    let before = target.ask()?;
    settle();
    let snapshot = longest_gap(&target, &before, || {
        daemon.job(&format!("/v1/sessions/{id}/snapshot"), &json!({})).map(drop)
    })?;
    daemon.job(&format!("/v1/sessions/{id}/suspend"), &json!({}))?;
    settle();
    let (target, resume) = timed(|| {
        daemon.job(&format!("/v1/sessions/{id}/resume"), &json!({}))?;
        let target = Target::find(daemon.pid_of(id)?, daemon.log_of(id)?)?;
        target.next_round()?;
        Ok(target)
    })?;
    same(&before, &target.ask()?)?;
    Ok((snapshot, resume.wall_s))
}

/// Seconds of a snapshot, to the better of two places, and of a restore by bare commands.
fn bare_round(caller: &mut Caller, bare: &mut BareBox, disk: &Path, memory: &Path) -> Result<(f64, f64)> {
    let target = Target::find(bare.holder(), bare.log())?;
    let before = target.ask()?;
    let mut snapshot = |images: &Path| {
        settle();
        let gap = longest_gap(&target, &before, || {
            caller.call("Lock", target.pid())?;
            caller.call("Checkpoint", target.pid())?;
            bare.dump(images, true)?;
            caller.call("Restore", target.pid())?;
            caller.call("Unlock", target.pid())
        });
        fs::remove_dir_all(images)?;
        gap
    };
    let snapshot = better(snapshot(&disk.join("images"))?, snapshot(&memory.join("images"))?);

    let images = disk.join("images");
    caller.call("Lock", target.pid())?;
    caller.call("Checkpoint", target.pid())?;
    bare.dump(&images, false)?;
    settle();
    let (target, resume) = timed(|| {
        bare.restore(&images)?;
        let target = Target::find(bare.holder(), bare.log())?;
        caller.call("Restore", target.pid())?;
        caller.call("Unlock", target.pid())?;
        target.next_round()?;
        Ok(target)
    })?;
    fs::remove_dir_all(&images)?;
    same(&before, &target.ask()?)?;
    Ok((snapshot, resume.wall_s))
}

/// The longest time between two rounds of the program while `work` is done to it, by its own clock.
fn longest_gap(target: &Target, before: &Value, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    // Asking makes it forget what was before.
    target.ask()?;
    work()?;
    target.next_round()?;
    let after = target.ask()?;
    same(before, &after)?;
    after["gap"].as_f64().context("the program does not say how long it stood still")
}

fn same(one: &Value, other: &Value) -> Result<()> {
    for key in ["hash", "pointers"] {
        ensure!(one[key] == other[key], "the program has another {key} than before");
    }
    Ok(())
}
