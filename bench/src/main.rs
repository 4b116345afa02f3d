//! One command for each published figure. `bench/run` builds and starts this; see docs/benchmarks.md.
#![forbid(unsafe_code)]

mod bare;
mod branch;
mod branch_many;
mod calibrate;
mod catalogue;
mod cell_cost;
mod container;
mod content;
mod day;
mod delta;
mod demo;
mod detect;
mod gpu_overhead;
mod image;
mod ingest;
mod install;
mod installation;
mod live;
mod measure;
mod mount;
mod ours;
mod patterns;
mod pause;
mod pause_ahead;
mod paused_container;
mod peers;
mod read;
mod remotes;
mod report;
mod restore;
mod rivals;
mod rng;
mod run;
mod scale;
mod swap;
mod ui;
mod undo;
mod vram_stream;
mod workspace;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use serde_json::{Value, json};

use crate::report::Report;
use crate::run::Run;

/// A benchmark: its name, a sentence, and the function that runs it.
type Benchmark = (&'static str, &'static str, fn(&Run) -> Result<Report>);

const BENCHMARKS: &[Benchmark] = &[
    (
        "calibrate",
        "How close the made image is to the real ones: compression, zero pages, changed pages.",
        calibrate::run,
    ),
    (
        "store-ingest",
        "A first snapshot of 2 GiB, against bare zstd, bare write and fsync, restic and borg.",
        ingest::run,
    ),
    ("store-delta", "Further snapshots after small to large changes, against restic and borg.", delta::run),
    ("store-read", "A snapshot back, whole and in 64 KiB ranges, against bare zstd.", read::run),
    (
        "store-scale",
        "Catalogues of 10^5 to 10^7 objects: speed and memory; the plan of a collection.",
        scale::run,
    ),
    (
        "pause",
        "How long kernels of 1 and 4 GiB stand still for a snapshot, against bare `criu dump`.",
        pause::run,
    ),
    (
        "pause-warm",
        "How long kernels of 1, 4 and 8 GiB stand still after a cell that wrote 8 MB, against a plain dump.",
        pause_ahead::run_warm,
    ),
    (
        "pause-cold",
        "How long a kernel of 8 GiB stands still for its first snapshot, idle and writing, against a plain dump.",
        pause_ahead::run_cold,
    ),
    (
        "container",
        "How long a container of 1 GiB stands still, and what a second snapshot stores, against podman's and containerd's checkpoints.",
        container::run,
    ),
    (
        "cell-cost",
        "What a snapshot after each of 100 cells adds to the next; what following costs numpy and pandas.",
        cell_cost::run,
    ),
    (
        "restore",
        "How long until a kernel that slept answers its first cell, against bare `criu restore`.",
        restore::run,
    ),
    (
        "restore-cold",
        "The same from the store alone, as after a reboot; also as `restore --cold`.",
        restore::run_cold,
    ),
    (
        "restore-first",
        "The same up to 8 GiB, with the bars of a kernel that runs before all of its memory is there.",
        restore::run_first,
    ),
    (
        "restore-remote",
        "How long until a kernel of 2 GiB answers that is restored straight from a remote, against clone and restore.",
        remotes::run_straight,
    ),
    (
        "undo",
        "How long until a kernel of 600 MB that goes back over its last cell answers, with a standby and without.",
        undo::run,
    ),
    (
        "workspace",
        "What a snapshot of a kernel costs to which 50,000 files with 2 GB belong, and how much of it while it stands still.",
        workspace::run,
    ),
    (
        "mount",
        "A file of 1 GiB through the folder of `infinijup mount`, against the store's own reader.",
        mount::run,
    ),
    (
        "remote",
        "Push and pull of 2 GiB of fresh data, against a bare S3 client on the same server.",
        remotes::run_speed,
    ),
    (
        "remote-scale",
        "The index of a remote with 10^7 objects: bytes to open it, requests of a lookup, bytes of merging.",
        remotes::run_scale,
    ),
    (
        "fleet",
        "One checkpoint by 16, 128 and 2,048 writers at once: requests, time until the last ref, conflicts.",
        remotes::run_fleet,
    ),
    (
        "peers",
        "20 cells of a day under Kishu, dill and ours: delay of a cell, disk, going back, objects that are right.",
        peers::run,
    ),
    (
        "branch",
        "How long until the last of 8 branches answers its first cell, against bare `criu restore`.",
        branch::run,
    ),
    (
        "branch-many",
        "When the first and the last of 16 branches answer, and what memory they take that is not shared.",
        branch_many::run,
    ),
    (
        "detect",
        "What a process of 2,000 mappings and 500 descriptors, and 1,000 processes, have on the GPU.",
        detect::run,
    ),
    (
        "gpu-overhead",
        "A snapshot and a resume of a program with 2 GiB on a GPU, against the sum of the bare parts.",
        gpu_overhead::run,
    ),
    (
        "vram-stream",
        "A program with 4 GiB on a GPU is put to sleep, past its memory, against the slower of link and store.",
        vram_stream::run,
    ),
    (
        "ui",
        "The History panel of a notebook with 2,000 snapshots in a browser: opening, scrolling, idling.",
        ui::run,
    ),
    (
        "swap",
        "How long a person waits for a kernel of 100 MB to go back, against bare kill and `criu restore`.",
        swap::run,
    ),
    (
        "install",
        "From nothing to a first snapshot, as an ordinary user with pip: each step timed.",
        install::run,
    ),
    (
        "demo",
        "From nothing to the first undo in the browser, by `infinijup demo`: each step timed.",
        demo::run,
    ),
    (
        "day",
        "What automatic snapshots add to 40 cells over 600 MB with plots in a browser, against none.",
        day::run,
    ),
];

/// Benchmarks of the store and of live kernels. The last line of output is one JSON object. Exit code: 0 if every bar is met, 1 if one is
/// missed, 2 if something failed.
#[derive(Parser)]
#[command(name = "bench/run")]
struct Arguments {
    /// Which benchmark; see --list. With --smoke alone: all of them.
    name: Option<String>,
    /// Name all benchmarks.
    #[arg(long)]
    list: bool,
    /// Small sizes, one round; bars of speed are loose.
    #[arg(long)]
    smoke: bool,
    /// `restore` with nothing in the page cache.
    #[arg(long)]
    cold: bool,
    /// Print nothing but the result.
    #[arg(long)]
    json_only: bool,
    /// Work directory. Default: $TMPDIR/infinijup-bench, or bench-work in the target directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Rounds of each contender. Default: 3; 1 with --smoke.
    #[arg(long)]
    rounds: Option<usize>,
    /// Size of the first image in MiB (default: 2048; 256 with --smoke), or of the largest kernel of pause-warm and pause-cold (8192; 256).
    #[arg(long)]
    size_mib: Option<u64>,
    /// Seed of the image.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One measurement of store-scale, in a process of its own.
    #[arg(long, hide = true)]
    catalogue_child: Option<u64>,
    /// One snapshot into a store, in a process of its own; what it is told is on standard input.
    #[arg(long, hide = true)]
    ingest_child: bool,
    /// One transfer of `remote`, in a process of its own; the same.
    #[arg(long, hide = true)]
    transfer_child: bool,
    /// The members of `fleet`; the same.
    #[arg(long, hide = true)]
    members_child: bool,
}

fn main() -> ExitCode {
    match start() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            // If standard error is closed there is nobody to tell; the exit code remains.
            let _ = writeln!(std::io::stderr(), "bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start() -> Result<bool> {
    let arguments = Arguments::parse();
    if arguments.list {
        for (name, sentence, _) in BENCHMARKS {
            print(&format!("{name:<13} {sentence}"))?;
        }
        return Ok(true);
    }
    if arguments.ingest_child {
        print(&ours::ingest_as_told(std::io::stdin())?)?;
        return Ok(true);
    }
    if arguments.transfer_child {
        print(&remotes::transfer_as_told(std::io::stdin())?)?;
        return Ok(true);
    }
    if arguments.members_child {
        print(&remotes::members_as_told(std::io::stdin())?)?;
        return Ok(true);
    }
    let run = Run {
        dir: arguments.dir.clone().map_or_else(default_dir, Ok)?,
        len: arguments.size_mib.unwrap_or(if arguments.smoke { 256 } else { 2048 }) * measure::MIB,
        size_mib: arguments.size_mib,
        rounds: arguments.rounds.unwrap_or(if arguments.smoke { 1 } else { 3 }).max(1),
        seed: arguments.seed,
        smoke: arguments.smoke,
        json_only: arguments.json_only,
    };
    ensure!(run.len >= 64 * measure::MIB, "an image needs at least 64 MiB to hold all kinds of content");
    if let Some(objects) = arguments.catalogue_child {
        print(&serde_json::to_string(&catalogue::catalogue_cost(&run.work()?, objects)?)?)?;
        return Ok(true);
    }
    let name = match arguments.name.as_deref() {
        Some("restore") if arguments.cold => Some("restore-cold"),
        name => {
            ensure!(!arguments.cold || name == Some("restore-cold"), "--cold is for `restore`");
            name
        }
    };
    match name {
        Some(name) => {
            let benchmark = BENCHMARKS.iter().find(|benchmark| benchmark.0 == name);
            let (_, _, function) =
                benchmark.with_context(|| format!("there is no benchmark `{name}`; try --list"))?;
            let (json, ok) = one(&run, *function)?;
            print(&json.to_string())?;
            Ok(ok)
        }
        None if run.smoke => all(&run),
        None => bail!("name a benchmark, or give --smoke or --list"),
    }
}

fn one(run: &Run, function: fn(&Run) -> Result<Report>) -> Result<(Value, bool)> {
    let machine = measure::machine(&run.work()?);
    let report = function(run)?;
    report.check_complete()?;
    Ok((report.json(run.smoke, &machine), report.ok(run.smoke)))
}

/// Runs everything. One that fails does not keep the others from running.
fn all(run: &Run) -> Result<bool> {
    let mut results = Vec::new();
    let mut failed = Vec::new();
    let mut missed = Vec::new();
    let mut skipped = 0;
    for (name, _, function) in BENCHMARKS {
        let begin = Instant::now();
        match one(run, *function) {
            Ok((json, ok)) => {
                run.say(&json.to_string());
                if !ok {
                    missed.push(name);
                }
                results.push(
                    json!({ "name": name, "ok": ok, "took_s": report::round(begin.elapsed().as_secs_f64()) }),
                );
            }
            // A machine of the gate must be able to run all of them.
            Err(error)
                if error.is::<live::Unable>() && std::env::var_os("CI").is_none_or(|ci| ci != "true") =>
            {
                run.say(&format!("skipped: {name} because {error}"));
                skipped += 1;
                results.push(json!({ "name": name, "ok": true, "skipped": error.to_string() }));
            }
            Err(error) => {
                failed.push(format!("{name}: {error:#}"));
                results.push(json!({ "name": name, "ok": false, "error": format!("{error:#}") }));
            }
        }
    }
    let ok = failed.is_empty() && missed.is_empty();
    print(
        &json!({
            "name": "smoke", "value": results.len() - failed.len() - missed.len() - skipped, "unit": "benchmarks that held",
            "bar": BENCHMARKS.len() - skipped, "ok": ok, "compared_with": { "results": results },
        })
        .to_string(),
    )?;
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(ok)
}

fn print(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{line}").context("cannot print")
}

/// `$TMPDIR` if it is set: whoever sets it knows which disk has room. Else beside the program, in the target directory.
fn default_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("TMPDIR") {
        return Ok(PathBuf::from(dir).join("infinijup-bench"));
    }
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("the program is not in a target directory")?;
    Ok(target.join("bench-work"))
}
