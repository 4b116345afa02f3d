//! `pause`: how long a kernel stands still for a snapshot after which it goes on.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::live::{BareBox, Client, Daemon, Place, User, WATCH, able, fill, longest_gap};
use crate::measure::{in_turns, median, ratio_of_rounds, settle, worse};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// The rounds of one size, in seconds.
#[derive(Default)]
struct Rounds {
    ours: Vec<f64>,
    ours_frozen: Vec<f64>,
    disk: Vec<f64>,
    tmpfs: Vec<f64>,
}

/// Alternates our snapshot with bare dumps to disk and to tmpfs.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let mut bars = Vec::new();
    let mut compared = serde_json::Map::new();
    let sizes: &[(u64, &'static str)] =
        if run.smoke { &[(64, "64 MiB")] } else { &[(1024, "1 GiB"), (4096, "4 GiB")] };
    for (mib, name) in sizes {
        let rounds = measure(run, *mib)?;
        let of = |bare: &[f64]| ratio_of_rounds(&rounds.ours, bare);
        let ratio = worse(of(&rounds.disk), of(&rounds.tmpfs));
        bars.push(Bar::at_most(Kind::Speed, name, ratio, "of the better bare pause", 1.05));
        compared.insert((*name).to_owned(), rounds.json());
    }
    Ok(Report {
        name: "pause",
        bars,
        compared_with: Value::Object(compared),
        sizes: json!({ "kernels_mib": sizes.iter().map(|size| size.0).collect::<Vec<_>>(), "rounds": run.rounds }),
    })
}

impl Rounds {
    fn json(&self) -> Value {
        let all = |values: &[f64]| values.iter().map(|value| round(*value)).collect::<Vec<_>>();
        json!({
            "ours_s": round(median(&self.ours)), "bare_disk_s": round(median(&self.disk)),
            "bare_tmpfs_s": round(median(&self.tmpfs)), "ours_frozen_s": round(median(&self.ours_frozen)),
            "rounds": { "ours": all(&self.ours), "disk": all(&self.disk), "tmpfs": all(&self.tmpfs) },
        })
    }
}

fn measure(run: &Run, mib: u64) -> Result<Rounds> {
    let user = User::make()?;
    let daemon = Daemon::start(&user)?;
    let mut bare = BareBox::new(&user, "p")?;
    bare.launch_kernel()?;
    let (id, ours_file) = daemon.kernel("pause")?;
    let mut ours = Client::start()?;
    let mut theirs = Client::start_in(&bare)?;
    let bare_file = bare.connection_file();
    for (client, file) in [(&mut ours, &ours_file), (&mut theirs, &bare_file)] {
        client.ask(file, &fill(mib), "answer")?;
        client.ask(file, WATCH, "gap")?;
    }
    let disk = Place::of(&user, "disk")?;
    let memory = Place::in_memory(&user, "tmpfs")?;

    let mut rounds = Rounds::default();
    // The first snapshot stores everything, later ones what changed; the pause is the same, so it may warm things up.
    for number in 0..=run.rounds {
        run.say(&format!("pause {mib} MiB: round {number} of {}", run.rounds));
        let (mut gap, mut frozen) = (0.0, 0.0);
        let mut our_turn = || {
            settle();
            gap = longest_gap(&mut ours, &ours_file, || {
                let result = daemon.job(&format!("/v1/sessions/{id}/snapshot"), &json!({}))?;
                frozen = result["frozen_us"].as_f64().context("no frozen_us")? / 1e6;
                Ok(())
            })?;
            Ok(())
        };
        let (mut to_disk, mut to_tmpfs) = (0.0, 0.0);
        let mut bare_turn = || {
            let mut dump_to = |dir: &Path| {
                settle();
                let images = dir.join("images");
                let gap = longest_gap(&mut theirs, &bare_file, || bare.dump(&images, true));
                fs::remove_dir_all(&images)?;
                gap
            };
            to_disk = dump_to(&disk.dir)?;
            to_tmpfs = dump_to(&memory.dir)?;
            Ok(())
        };
        in_turns(number, &mut [&mut our_turn, &mut bare_turn])?;
        if number > 0 {
            rounds.ours.push(gap);
            rounds.ours_frozen.push(frozen);
            rounds.disk.push(to_disk);
            rounds.tmpfs.push(to_tmpfs);
        }
    }
    Ok(rounds)
}
