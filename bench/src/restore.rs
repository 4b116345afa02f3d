//! `restore` and `restore-first`: how long until a kernel that was put to sleep answers its first cell.
//!
//! Ours has the store, the bare engine has plain images. `restore` has two variants: after a short sleep both are in the page cache; `--cold` is
//! the way back of the next day, with a daemon that was started anew, and both are read from the disk. `restore-first` is the cold one up to
//! 8 GiB, with the bars of a way back that follows what is touched, and tells also when a cell that works on some of the memory is done.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::live::{BareBox, Client, Daemon, Place, User, able, fill};
use crate::measure::{in_turns, median, out_of_page_cache, ratio_of_rounds, settle};
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

/// The same as cold at three sizes, with the bars of a kernel that runs before all of its memory is there.
pub(crate) fn run_first(run: &Run) -> Result<Report> {
    able()?;
    let largest = run.largest_kernel_mib();
    let sizes = [largest / 8, largest / 2, largest];
    let found =
        sizes.into_iter().map(|mib| measure(run, mib, Memory::Cold)).collect::<Result<Vec<Contenders>>>()?;
    let [smallest, _, of_largest] = &found[..] else { unreachable!("one for each of three sizes") };
    let ratio = |of: fn(&Back) -> f64| {
        let all = |rounds: &[Back]| rounds.iter().map(of).collect::<Vec<_>>();
        ratio_of_rounds(&all(&of_largest.ours), &all(&of_largest.bare))
    };
    // What is out of reach cannot be held even loosely: a smoke run holds it to what a full restore takes.
    let (first_bar, work_bar) = if run.smoke { (1.5, 1.5) } else { (0.10, 0.15) };
    Ok(Report {
        name: "restore-first",
        bars: vec![
            Bar::at_most(
                Kind::Speed,
                "largest size",
                ratio(first),
                "of the bare time to the first answer",
                first_bar,
            ),
            Bar::at_most(
                Kind::Speed,
                "an eighth of the largest size to all of it",
                ratio_of_rounds(&firsts(&of_largest.ours), &firsts(&smallest.ours)),
                "growth",
                2.0,
            ),
            Bar::at_most(
                Kind::Speed,
                "16 MB of arrays and a dict of 200,000 are worked on",
                ratio(|back| back.worked_s),
                "of the bare time",
                work_bar,
            ),
            // Nothing is filled in after the first answer: then it is complete.
            Bar::at_most(Kind::Speed, "complete", ratio(first), "of the bare restore", 1.5),
        ],
        compared_with: sizes
            .iter()
            .zip(&found)
            .map(|(mib, found)| (format!("{mib} MiB"), found.told()))
            .collect(),
        sizes: json!({ "kernels_mib": sizes, "rounds": run.rounds }),
    })
}

/// Seconds since the command to come back.
struct Back {
    /// Until the first answer.
    first_s: f64,
    /// Until [`WORK`] was done after that.
    worked_s: f64,
}

fn first(back: &Back) -> f64 {
    back.first_s
}

fn firsts(rounds: &[Back]) -> Vec<f64> {
    rounds.iter().map(first).collect()
}

/// What each has come to.
#[derive(Default)]
struct Contenders {
    ours: Vec<Back>,
    bare: Vec<Back>,
}

impl Contenders {
    fn told(&self) -> Value {
        let worked =
            |rounds: &[Back]| round(median(&rounds.iter().map(|back| back.worked_s).collect::<Vec<_>>()));
        let all = |rounds: &[Back]| firsts(rounds).into_iter().map(round).collect::<Vec<_>>();
        json!({ "ours_s": round(median(&firsts(&self.ours))), "bare_s": round(median(&firsts(&self.bare))),
            "worked_s": { "ours": worked(&self.ours), "bare": worked(&self.bare) },
            "rounds": { "ours": all(&self.ours), "bare": all(&self.bare) } })
    }
}

/// What [`WORK`] works on, beside what fills the kernel.
const FOR_WORK: &str = "small = numpy.ones(2_000_000); words = {n: str(n) for n in range(200_000)}";
const WORK: &str = "small += 1.0; worked = int(small.sum()) + sum(len(word) for word in words.values())";

fn report(run: &Run, benchmark: &'static str, memory: Memory, bar: f64) -> Result<Report> {
    able()?;
    let mut bars = Vec::new();
    let mut compared = serde_json::Map::new();
    let sizes: &[(u64, &'static str)] =
        if run.smoke { &[(64, "64 MiB")] } else { &[(1024, "1 GiB"), (4096, "4 GiB")] };
    for (mib, name) in sizes {
        let found = measure(run, *mib, memory)?;
        let ratio = ratio_of_rounds(&firsts(&found.ours), &firsts(&found.bare));
        bars.push(Bar::at_most(Kind::Speed, name, ratio, "of the bare time to the first answer", bar));
        compared.insert((*name).to_owned(), found.told());
    }
    Ok(Report {
        name: benchmark,
        bars,
        compared_with: Value::Object(compared),
        sizes: json!({ "kernels_mib": sizes.iter().map(|size| size.0).collect::<Vec<_>>(), "rounds": run.rounds }),
    })
}

fn measure(run: &Run, mib: u64, memory: Memory) -> Result<Contenders> {
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
    ours.ask(&ours_file, FOR_WORK, "answer")?;
    theirs.ask(&bare_file, FOR_WORK, "answer")?;

    let place = Place::of(&user, "images")?;
    let images = place.dir.join("images");
    let mut found = Contenders::default();
    for number in 0..run.rounds {
        run.say(&format!("restore {mib} MiB: round {} of {}", number + 1, run.rounds));
        let expected = (42 + number).to_string();
        let mut our_turn = || {
            daemon.job(&format!("/v1/sessions/{id}/suspend"), &json!({}))?;
            settle();
            if memory == Memory::Cold {
                daemon.reboot(&user)?;
            }
            let begun = Instant::now();
            daemon.job(&format!("/v1/sessions/{id}/resume"), &json!({}))?;
            found.ours.push(back(&mut ours, &ours_file, begun, &expected)?);
            Ok(())
        };
        let mut bare_turn = || {
            bare.dump(&images, false)?;
            settle();
            if memory == Memory::Cold {
                out_of_page_cache(&images)?;
            }
            let begun = Instant::now();
            bare.restore(&images)?;
            found.bare.push(back(&mut theirs, &bare_file, begun, &expected)?);
            fs::remove_dir_all(&images)?;
            Ok(())
        };
        in_turns(number, &mut [&mut our_turn, &mut bare_turn])?;
    }
    Ok(found)
}

/// Asks a kernel that has just come back.
fn back(client: &mut Client, file: &Path, begun: Instant, expected: &str) -> Result<Back> {
    let answer = client.ask(file, "answer += 1", "answer")?;
    let first_s = begun.elapsed().as_secs_f64();
    ensure!(answer == expected, "the kernel woke with another memory: {answer}");
    client.ask(file, WORK, "worked")?;
    Ok(Back { first_s, worked_s: begun.elapsed().as_secs_f64() })
}
