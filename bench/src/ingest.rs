//! `store-ingest`: how fast a first snapshot gets into the store, against its slowest bare stage and against backup
//! programs.

use anyhow::Result;
use serde_json::{Value, json};

use crate::bare::{self, Stage};
use crate::image::Image;
use crate::measure::{Timed, better, cores, in_turns, median, median_timed, mib, ratio, settle, worse};
use crate::ours::{self, Store};
use crate::report::{Bar, Kind, Report, round};
use crate::rivals::{self, RIVALS, Rival};
use crate::run::Run;

/// Runs all contenders over image A, in turn, each into a new store.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let image = Image::first(&run.images()?, run.len, run.seed)?;
    let work = run.work()?;
    // Warm the page cache for everybody.
    bare::read(&image.path, 1 << 20, cores())?;

    let mut rounds = Rounds::default();
    for number in 0..run.rounds {
        let Rounds { ours, grew, zstd, hash, read, write, rivals: [restic, borg] } = &mut rounds;
        let mut our_turn = || {
            settle();
            let ingest = Store::create(&work)?.ingest(&image, None)?;
            ours.push(ingest.took);
            *grew = ingest.grew.bytes;
            Ok(())
        };
        let mut bare_turn = || {
            settle();
            let compressed = bare::compress(&image.path, ours::OBJECT_LEN, ours::LEVEL, cores())?;
            zstd.push(compressed);
            hash.push(bare::hash(&image.path, ours::OBJECT_LEN, cores())?);
            read.push(bare::read(&image.path, ours::OBJECT_LEN, cores())?);
            settle();
            // As much as our packs have, but for what the store says about them.
            write.push(bare::write_and_sync(&work, compressed.bytes_out)?);
            Ok(())
        };
        let turn_of = |rival: Rival, took: &mut Vec<_>| {
            settle();
            let backup = rival.create(&work)?.backup(&image.path, "A")?;
            took.push((backup.took, backup.sync_s, backup.grew.bytes));
            Ok(())
        };
        let mut restic_turn = || turn_of(Rival::Restic, restic);
        let mut borg_turn = || turn_of(Rival::Borg, borg);
        in_turns(number, &mut [&mut our_turn, &mut bare_turn, &mut restic_turn, &mut borg_turn])?;
        run.say(&format!("round {} of {} done", number + 1, run.rounds));
    }
    Ok(rounds.report(run, &image, rivals::versions()?))
}

#[derive(Default)]
struct Rounds {
    ours: Vec<Timed>,
    /// How large our store is in the end.
    grew: u64,
    zstd: Vec<Stage>,
    hash: Vec<Stage>,
    read: Vec<Stage>,
    write: Vec<Stage>,
    rivals: [Vec<(Timed, f64, u64)>; 2],
}

impl Rounds {
    fn report(&self, run: &Run, image: &Image, versions: Value) -> Report {
        let len = image.len();
        let ours = median_timed(&self.ours);
        let bare =
            |rounds: &[Stage]| median_timed(&rounds.iter().map(|stage| stage.took).collect::<Vec<_>>());
        let (zstd, write) = (bare(&self.zstd), bare(&self.write));
        let slowest = worse(zstd.wall_s, write.wall_s);
        let rival =
            |at: usize| median_timed(&self.rivals[at].iter().map(|round| round.0).collect::<Vec<_>>());
        let fastest_rival = better(rival(0).wall_s, rival(1).wall_s);

        let mut compared = json!({
            "ours": figures(ours, len, self.grew),
            "bare_zstd": figures(zstd, len, self.zstd.last().map_or(0, |stage| stage.bytes_out)),
            "bare_write_fsync": figures(write, len, self.write.last().map_or(0, |stage| stage.bytes_out)),
            "bare_blake3": figures(bare(&self.hash), len, 0),
            "bare_read": figures(bare(&self.read), len, 0),
            "versions": versions,
        });
        for (at, name) in RIVALS.map(Rival::name).into_iter().enumerate() {
            let last = self.rivals[at].last().map_or(0, |round| round.2);
            compared[name] = figures(rival(at), len, last);
            compared[name]["sync_s"] =
                json!(median(&self.rivals[at].iter().map(|round| round.1).collect::<Vec<_>>()));
        }
        for (name, value) in compared.as_object().into_iter().flatten() {
            run.say(&format!("{name}: {value}"));
        }
        Report {
            name: "store-ingest",
            bars: vec![
                Bar::at_least(
                    Kind::Speed,
                    "wall speed, share of the slowest bare stage",
                    slowest / ours.wall_s,
                    "share",
                    0.85,
                ),
                Bar::at_least(
                    Kind::Speed,
                    "wall speed, times the faster of restic and borg",
                    fastest_rival / ours.wall_s,
                    "times",
                    2.0,
                ),
                Bar::at_most(
                    Kind::Count,
                    "store size, share of the smaller repository",
                    ratio(self.grew, self.rivals.iter().flatten().map(|round| round.2).min().unwrap_or(0)),
                    "share",
                    1.15,
                ),
            ],
            compared_with: compared,
            sizes: json!({ "image_mib": mib(len), "regions": image.regions.len(), "object_len": ours::OBJECT_LEN,
                "zstd_level": ours::LEVEL, "rounds": run.rounds }),
        }
    }
}

fn figures(took: Timed, bytes_in: u64, bytes_out: u64) -> Value {
    json!({ "wall_s": round(took.wall_s), "cpu_s": round(took.cpu_s), "gb_per_s": round(took.wall_gbps(bytes_in)),
        "gb_per_cpu_s": round(took.cpu_gbps(bytes_in)), "out_mib": round(mib(bytes_out)) })
}
