//! `gpu-overhead`: a snapshot and a resume of a program with GPU memory, against the sum of their bare parts.
//!
//! Ours is what the program itself sees: for a snapshot the longest time between two rounds of its loop, for a resume the whole
//! request, after which it runs. The bare parts are the driver's calls made by one long-lived process, and `criu` on the
//! command line, each timed alone. Both contenders run the same program on the same stand-in, and take turns.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::live::gpu::{Caller, Gpus, Target};
use crate::live::{BareBox, Daemon, Place, User, able};
use crate::measure::{median, settle, timed};
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
    let ratio = |ours: &[f64], bare: &[f64]| median(ours) / median(bare);
    let bars = vec![
        Bar::at_most(
            Kind::Speed,
            "snapshot",
            ratio(&rounds.our_snapshots, &rounds.bare_snapshots),
            "of the sum of the bare parts",
            1.05,
        ),
        Bar::at_most(
            Kind::Speed,
            "restore",
            ratio(&rounds.our_resumes, &rounds.bare_resumes),
            "of the sum of the bare parts",
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
        settle();
        let ours = Target::find(daemon.pid_of(&id)?, daemon.log_of(&id)?)?;
        let before = ours.ask()?;
        daemon.job(&format!("/v1/sessions/{id}/snapshot"), &json!({}))?;
        let after = ours.ask()?;
        same(&before, &after)?;
        let our_snapshot =
            after["gap"].as_f64().context("the program does not say how long it stood still")?;

        let theirs = Target::find(bare.holder(), bare.log())?;
        let before = theirs.ask()?;
        let to_disk = bare_snapshot(&mut caller, &mut bare, &theirs, &disk.dir.join("images"))?;
        let to_memory = bare_snapshot(&mut caller, &mut bare, &theirs, &memory.dir.join("images"))?;
        same(&before, &theirs.ask()?)?;

        settle();
        daemon.job(&format!("/v1/sessions/{id}/suspend"), &json!({}))?;
        settle();
        let (_, our_resume) = timed(|| daemon.job(&format!("/v1/sessions/{id}/resume"), &json!({})))?;
        let ours = Target::find(daemon.pid_of(&id)?, daemon.log_of(&id)?)?;
        same(&after, &ours.ask()?)?;

        let images = disk.dir.join("images");
        caller.call("Lock", theirs.pid())?;
        caller.call("Checkpoint", theirs.pid())?;
        bare.dump(&images, false)?;
        settle();
        let (_, restored) = timed(|| bare.restore(&images))?;
        let theirs = Target::find(bare.holder(), bare.log())?;
        let bare_resume =
            restored.wall_s + caller.call("Restore", theirs.pid())? + caller.call("Unlock", theirs.pid())?;
        fs::remove_dir_all(&images)?;
        same(&before, &theirs.ask()?)?;

        if number > 0 {
            rounds.our_snapshots.push(our_snapshot);
            rounds.bare_snapshots.push(to_disk.min(to_memory));
            rounds.our_resumes.push(our_resume.wall_s);
            rounds.bare_resumes.push(bare_resume);
        }
    }
    Ok(rounds)
}

/// The parts of a snapshot after which the program goes on, each alone.
fn bare_snapshot(caller: &mut Caller, bare: &mut BareBox, target: &Target, images: &Path) -> Result<f64> {
    settle();
    let gpu = caller.call("Lock", target.pid())? + caller.call("Checkpoint", target.pid())?;
    let (_, dump) = timed(|| bare.dump(images, true))?;
    let back = caller.call("Restore", target.pid())? + caller.call("Unlock", target.pid())?;
    fs::remove_dir_all(images)?;
    Ok(gpu + dump.wall_s + back)
}

fn same(one: &Value, other: &Value) -> Result<()> {
    for key in ["hash", "pointers"] {
        ensure!(one[key] == other[key], "the program has another {key} than before");
    }
    Ok(())
}
