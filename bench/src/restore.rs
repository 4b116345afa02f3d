//! `restore`: how long until a kernel that was put to sleep answers its first cell.
//!
//! Ours has the store, the bare engine has plain images. There are two of them: after a short sleep both are in the page cache; `--cold` is the
//! way back of the next day, with a daemon that was started anew, and both are read from the disk.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::live::{BareBox, Client, Daemon, Place, User, able, fill};
use crate::measure::{in_turns, median, out_of_page_cache, ratio_of_rounds, settle, timed};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// What has been left in memory since the kernel went to sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Our store and the bare engine's images.
    Warm,
    /// Nothing.
    Cold,
}

/// Alternates our resume with a bare restore from plain images in the page cache.
pub(crate) fn run(run: &Run) -> Result<Report> {
    report(run, "restore", Memory::Warm, 1.25)
}

/// Alternates our resume with a bare restore from plain images on the disk. The store has to be decompressed and its pages put together,
/// which the bare engine need not do.
pub(crate) fn run_cold(run: &Run) -> Result<Report> {
    report(run, "restore-cold", Memory::Cold, 2.0)
}

fn report(run: &Run, benchmark: &'static str, memory: Memory, bar: f64) -> Result<Report> {
    able()?;
    let mut bars = Vec::new();
    let mut compared = serde_json::Map::new();
    let sizes: &[(u64, &'static str)] =
        if run.smoke { &[(64, "64 MiB")] } else { &[(1024, "1 GiB"), (4096, "4 GiB")] };
    for (mib, name) in sizes {
        let (ours, bare) = measure(run, *mib, memory)?;
        let ratio = ratio_of_rounds(&ours, &bare);
        bars.push(Bar::at_most(Kind::Speed, name, ratio, "of the bare time to the first answer", bar));
        let all = |values: &[f64]| values.iter().map(|value| round(*value)).collect::<Vec<_>>();
        compared.insert(
            (*name).to_owned(),
            json!({ "ours_s": round(median(&ours)), "bare_s": round(median(&bare)),
                "rounds": { "ours": all(&ours), "bare": all(&bare) } }),
        );
    }
    Ok(Report {
        name: benchmark,
        bars,
        compared_with: Value::Object(compared),
        sizes: json!({ "kernels_mib": sizes.iter().map(|size| size.0).collect::<Vec<_>>(), "rounds": run.rounds }),
    })
}

fn measure(run: &Run, mib: u64, memory: Memory) -> Result<(Vec<f64>, Vec<f64>)> {
    let user = User::make()?;
    let mut daemon = Daemon::start(&user)?;
    let mut bare = BareBox::new(&user, "r")?;
    bare.launch_kernel()?;
    let (id, ours_file) = daemon.kernel("restore")?;
    let mut ours = Client::start()?;
    let mut theirs = Client::start_in(&bare)?;
    let bare_file = bare.connection_file();
    ours.ask(&ours_file, &fill(mib), "answer")?;
    theirs.ask(&bare_file, &fill(mib), "answer")?;

    let place = Place::of(&user, "images")?;
    let images = place.dir.join("images");
    let (mut our_rounds, mut bare_rounds) = (Vec::new(), Vec::new());
    for number in 0..run.rounds {
        run.say(&format!("restore {mib} MiB: round {} of {}", number + 1, run.rounds));
        let expected = (42 + number).to_string();
        let mut our_turn = || {
            daemon.job(&format!("/v1/sessions/{id}/suspend"), &json!({}))?;
            settle();
            if memory == Memory::Cold {
                daemon.reboot(&user)?;
            }
            let (answer, took) = timed(|| {
                daemon.job(&format!("/v1/sessions/{id}/resume"), &json!({}))?;
                ours.ask(&ours_file, "answer += 1", "answer")
            })?;
            ensure!(answer == expected, "the kernel woke with another memory: {answer}");
            our_rounds.push(took.wall_s);
            Ok(())
        };
        let mut bare_turn = || {
            bare.dump(&images, false)?;
            settle();
            if memory == Memory::Cold {
                out_of_page_cache(&images)?;
            }
            let (answer, took) = timed(|| {
                bare.restore(&images)?;
                theirs.ask(&bare_file, "answer += 1", "answer")
            })?;
            ensure!(answer == expected, "the bare kernel woke with another memory: {answer}");
            bare_rounds.push(took.wall_s);
            fs::remove_dir_all(&images)?;
            Ok(())
        };
        in_turns(number, &mut [&mut our_turn, &mut bare_turn])?;
    }
    Ok((our_rounds, bare_rounds))
}
