//! `container`: how long a container stands still for a snapshot, and what the second one costs, against the checkpoints of podman and of containerd.
//!
//! Three equal containers, each with the program of `ticker.py`: one of podman's that our daemon, root's own, looks after; one of podman's that `podman container checkpoint`
//! is asked for; one of containerd's, for `ctr tasks checkpoint`. Before each turn of theirs all of them have written to the same share of their memory. How long
//! a container stood still is what a thread in it says, by the same clock in all three. Each contender has the options with which it does best at what is looked
//! at: no archive and no compression for the pause; podman's archive with zstd for the bytes, if that is the smallest. Neither can leave out what
//! has not changed on a kernel that cannot tell (`CONFIG_MEM_SOFT_DIRTY`).

mod containerd;
mod podman;
mod ticker;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::live::{CRIU, Daemon, Place, Unable, able};
use crate::measure::{better, in_turns, median, ratio_of_rounds, settle, tree_size, worse};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;
use containerd::Containerd;
use podman::{Container, Podman};

/// Where scripts/install-containers.sh puts the runtimes.
const PREFIX: &str = "/opt/infinijup/containers/bin";
/// Between two snapshots one part in so many of its memory is written to: 8 MiB of a GiB.
const WRITTEN: u64 = 128;
/// Runtimes start CRIU where nobody may tell it how; it reads this. Without, it looks for a program that locks networks, which a machine may not have.
const SETTINGS_OF_CRIU: &str = "network-lock skip\n";

/// The rounds, in seconds and bytes.
#[derive(Default)]
struct Rounds {
    ours: Vec<f64>,
    ours_frozen: Vec<f64>,
    podman: Vec<f64>,
    ctr: Vec<f64>,
    stored: Vec<f64>,
    theirs_stored: Vec<f64>,
}

/// Where programs are looked for: CRIU beside the runtimes.
fn path() -> String {
    let criu = Path::new(CRIU).parent().unwrap_or(Path::new("/")).display();
    format!("{PREFIX}:{criu}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

/// Alternates the three.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    for name in ["podman", "runc", "containerd", "ctr"] {
        if !Path::new(PREFIX).join(name).exists() {
            bail!(Unable(format!("it needs {PREFIX}/{name}: run scripts/install-containers.sh")));
        }
    }
    let mib = run.size_mib.unwrap_or(if run.smoke { 256 } else { 1024 });
    let place = Place::new("c")?;
    let settings = place.dir.join("criu.conf");
    fs::write(&settings, SETTINGS_OF_CRIU)?;
    let podman = Podman::new(&place.dir.join("podman"))?;
    let ours = Ours::start(&podman, mib, &settings)?;
    let theirs = podman.start("theirs", mib, &settings)?;
    let ctr = Containerd::start(&place.dir.join("ctr"), mib, &settings)?;
    let rounds = take_turns(run, mib, (&ours, &theirs, &ctr), &place.dir)?;
    let restores = restores(run, &ours, &theirs)?;

    let pause =
        worse(ratio_of_rounds(&rounds.ours, &rounds.podman), ratio_of_rounds(&rounds.ours, &rounds.ctr));
    let bytes = ratio_of_rounds(&rounds.stored, &rounds.theirs_stored);
    Ok(Report {
        name: "container",
        bars: vec![
            Bar::at_most(Kind::Speed, "pause", pause, "of the better of podman and ctr", 0.25),
            Bar::at_most(Kind::Count, "stored for a second snapshot", bytes, "of theirs", 0.05),
        ],
        compared_with: json!({ "snapshot": rounds.json(), "back": restores }),
        sizes: json!({ "containers_mib": mib, "written_mib": written(mib) >> 20, "rounds": run.rounds }),
    })
}

/// How much is written between two snapshots.
const fn written(mib: u64) -> u64 {
    (mib << 20) / WRITTEN
}

impl Rounds {
    fn json(&self) -> Value {
        let all = |values: &[f64]| values.iter().map(|value| round(*value)).collect::<Vec<_>>();
        json!({
            "ours_s": round(median(&self.ours)), "podman_s": round(median(&self.podman)), "ctr_s": round(median(&self.ctr)),
            "ours_frozen_s": round(median(&self.ours_frozen)),
            "ours_bytes": round(median(&self.stored)), "theirs_bytes": round(median(&self.theirs_stored)),
            "rounds": { "ours": all(&self.ours), "podman": all(&self.podman), "ctr": all(&self.ctr) },
        })
    }
}

/// Snapshots after which the containers go on. The first of each is not counted: ours stores everything in it.
fn take_turns(
    run: &Run,
    mib: u64,
    (ours, theirs, ctr): (&Ours<'_>, &Container<'_>, &Containerd),
    dir: &Path,
) -> Result<Rounds> {
    let mut rounds = Rounds::default();
    let (their_pid, ctr_pid) = (theirs.pid()?, ctr.pid()?);
    let images = dir.join("images");
    for number in 0..=run.rounds {
        run.say(&format!("container {mib} MiB: round {number} of {}", run.rounds));
        let (mut our_pause, mut stored) = (Pause::default(), 0.0);
        let mut our_turn = || {
            ours.container.ticker().ask(ours.pid()?, written(mib))?;
            settle();
            (our_pause, stored) = ours.snapshot()?;
            Ok(())
        };
        let (mut podman_gap, mut ctr_gap, mut smallest) = (0.0, 0.0, 0.0);
        let mut podman_turn = || {
            theirs.ticker().ask(their_pid, written(mib))?;
            settle();
            theirs.ticker().ask(their_pid, 0)?;
            theirs.checkpoint(&["--leave-running"])?;
            podman_gap = theirs.ticker().ask(their_pid, 0)?;
            let archive = dir.join("theirs.tar.zst");
            let export = archive.to_str().context("a path that is no text")?;
            theirs.checkpoint(&["--leave-running", "--compress", "zstd", "--export", export])?;
            smallest =
                better(bytes(fs::metadata(&archive)?.len()), bytes(tree_size(&theirs.images()?)?.bytes));
            Ok(fs::remove_file(&archive)?)
        };
        let mut ctr_turn = || {
            ctr.ticker().ask(ctr_pid, written(mib))?;
            settle();
            ctr.ticker().ask(ctr_pid, 0)?;
            ctr.checkpoint(&images)?;
            ctr_gap = ctr.ticker().ask(ctr_pid, 0)?;
            Ok(fs::remove_dir_all(&images)?)
        };
        in_turns(number, &mut [&mut our_turn, &mut podman_turn, &mut ctr_turn])?;
        if number > 0 {
            rounds.ours.push(our_pause.gap_s);
            rounds.ours_frozen.push(our_pause.frozen_s);
            rounds.podman.push(podman_gap);
            rounds.ctr.push(ctr_gap);
            rounds.stored.push(stored);
            rounds.theirs_stored.push(smallest);
        }
    }
    Ok(rounds)
}

/// Both are put to sleep and brought back: the time until each counts again. ctr has no command that restores what it has written to a directory.
fn restores(run: &Run, ours: &Ours<'_>, theirs: &Container<'_>) -> Result<Value> {
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for number in 0..run.rounds {
        let mut our_turn = || {
            ours.daemon.job(&format!("/v1/sessions/{}/suspend", ours.id), &json!({}))?;
            settle();
            let begun = Instant::now();
            ours.daemon.job(&format!("/v1/sessions/{}/resume", ours.id), &json!({}))?;
            ours.container.ticker().beats()?;
            our_times.push(begun.elapsed().as_secs_f64());
            Ok(())
        };
        let mut their_turn = || {
            theirs.checkpoint(&[])?;
            settle();
            let begun = Instant::now();
            theirs.restore()?;
            theirs.ticker().beats()?;
            their_times.push(begun.elapsed().as_secs_f64());
            Ok(())
        };
        in_turns(number, &mut [&mut our_turn, &mut their_turn])?;
    }
    Ok(json!({ "ours_s": round(median(&our_times)), "podman_s": round(median(&their_times)) }))
}

#[expect(clippy::cast_precision_loss, reason = "sizes of checkpoints are far below 2^53")]
fn bytes(count: u64) -> f64 {
    count as f64
}

/// What a snapshot cost, in seconds.
#[derive(Clone, Copy, Default)]
struct Pause {
    gap_s: f64,
    frozen_s: f64,
}

/// A container of podman's, and the daemon that looks after it. The daemon ends first.
struct Ours<'a> {
    daemon: Daemon,
    id: String,
    container: Container<'a>,
}

impl<'a> Ours<'a> {
    fn start(podman: &'a Podman, mib: u64, settings: &Path) -> Result<Self> {
        let container = podman.start("ours", mib, settings)?;
        let daemon = Daemon::start_as_root(&podman.environment())?;
        let which = json!({ "container": { "which": container.name(), "runtime": "podman" } });
        let session = daemon.job("/v1/attach", &which)?;
        let id = session["id"].as_str().context("a container that became no session")?.to_owned();
        Ok(Self { daemon, id, container })
    }

    fn pid(&self) -> Result<i32> {
        self.daemon.pid_of(&self.id)
    }

    /// A snapshot, and by how much the store has grown.
    fn snapshot(&self) -> Result<(Pause, f64)> {
        let store = self.daemon.state();
        let (pid, before) = (self.pid()?, tree_size(&store)?.bytes);
        self.container.ticker().ask(pid, 0)?;
        let outcome = self.daemon.job(&format!("/v1/sessions/{}/snapshot", self.id), &json!({}))?;
        let gap_s = self.container.ticker().ask(pid, 0)?;
        ensure!(outcome["frozen_bytes"].is_u64(), "its memory was not copied ahead: {outcome}");
        let frozen_s = outcome["frozen_us"].as_f64().context("no frozen_us")? / 1e6;
        let grown = tree_size(&store)?.bytes.saturating_sub(before);
        Ok((Pause { gap_s, frozen_s }, bytes(grown)))
    }
}
