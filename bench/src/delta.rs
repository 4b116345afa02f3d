//! `store-delta`: what the next snapshots cost after small, middling and large changes.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::bare;
use crate::image::Image;
use crate::measure::{Timed, better, cores, in_turns, median_timed, mib, ratio, settle, worse};
use crate::ours::Store;
use crate::patterns::{self, Changed, PATTERNS, PIECES, STEPS};
use crate::report::{Bar, Kind, Report, round};
use crate::rivals::{self, RIVALS, Rival};
use crate::run::Run;

/// The step with scattered changes.
const SCATTERED: usize = 3;

/// What one contender did with B, C, D and S, one entry a round.
#[derive(Default)]
struct Steps {
    took: [Vec<Timed>; STEPS],
    /// How much the store grew, in bytes on disk.
    grew: [u64; STEPS],
    /// New bytes before compression; ours only.
    new_raw: [u64; STEPS],
    /// An image that is the same as its parent; ours only.
    unchanged: Vec<Timed>,
    unchanged_raw: u64,
}

/// Runs A (not timed), B, C, D, S into new stores, round after round, all contenders in turn.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let images = patterns::family(&run.images()?, run.len, run.seed)?;
    let changed =
        images.windows(2).map(|pair| patterns::compare(&pair[0], &pair[1])).collect::<Result<Vec<_>>>()?;
    for image in &images {
        bare::read(&image.path, 1 << 20, cores())?;
    }
    let work = run.work()?;
    let mut ours = Steps::default();
    let mut rivals = [Steps::default(), Steps::default()];
    let [restic, borg] = &mut rivals;
    for number in 0..run.rounds {
        let mut our_turn = || our_round(&work, &images, &mut ours);
        let mut restic_turn = || rival_round(Rival::Restic, &work, &images, restic);
        let mut borg_turn = || rival_round(Rival::Borg, &work, &images, borg);
        in_turns(number, &mut [&mut our_turn, &mut restic_turn, &mut borg_turn])?;
        run.say(&format!("round {} of {} done", number + 1, run.rounds));
    }
    report(run, &images, &changed, &ours, &rivals)
}

fn our_round(work: &Path, images: &[Image], steps: &mut Steps) -> Result<()> {
    let store = Store::create(work)?;
    let first = store.ingest(&images[0], None)?;
    settle();
    let same = store.ingest(&images[0], Some(&first.snapshot))?;
    steps.unchanged.push(same.took);
    steps.unchanged_raw = same.new_raw;
    let mut parent = first.snapshot;
    for (at, image) in images[1..].iter().enumerate() {
        settle();
        let ingest = store.ingest(image, Some(&parent))?;
        steps.took[at].push(ingest.took);
        steps.grew[at] = ingest.grew.bytes;
        steps.new_raw[at] = ingest.new_raw;
        parent = ingest.snapshot;
    }
    Ok(())
}

fn rival_round(rival: Rival, work: &Path, images: &[Image], steps: &mut Steps) -> Result<()> {
    let repository = rival.create(work)?;
    repository.backup(&images[0].path, "A")?;
    for (at, image) in images[1..].iter().enumerate() {
        settle();
        let backup = repository.backup(&image.path, PATTERNS[at].name)?;
        steps.took[at].push(backup.took);
        steps.grew[at] = backup.grew.bytes;
    }
    Ok(())
}

fn report(
    run: &Run,
    images: &[Image],
    changed: &[Changed],
    ours: &Steps,
    rivals: &[Steps; 2],
) -> Result<Report> {
    let mut steps = Vec::new();
    for (at, pattern) in PATTERNS.iter().enumerate() {
        let len = images[at + 1].len();
        let mut row = json!({
            "image": pattern.name, "what": pattern.what, "image_mib": mib(len), "pieces": PIECES,
            "changed_mib": changed[at].0.map(|bytes| round(mib(bytes))),
            "wanted_mib": pattern.wanted_mib(run.len).map(round),
            "ours": figures(ours, at, len),
        });
        row["ours"]["new_raw_mib"] = json!(round(mib(ours.new_raw[at])));
        for (rival, steps) in RIVALS.into_iter().zip(rivals) {
            row[rival.name()] = figures(steps, at, len);
        }
        run.say(&row.to_string());
        steps.push(row);
    }
    let first = images.first().context("there is an image A")?;
    let unchanged = median_timed(&ours.unchanged);
    let b = median_timed(&ours.took[0]);
    let wall = |steps: &Steps, at: usize| median_timed(&steps.took[at]).wall_s;
    let times_as_fast = |at: usize| better(wall(&rivals[0], at), wall(&rivals[1], at)) / wall(ours, at);
    let growth = |at: usize| {
        let theirs = rivals.iter().map(|steps| steps.grew[at]).min().unwrap_or(0);
        ratio(ours.grew[at], theirs)
    };
    let worst_raw = (0..SCATTERED).map(|at| ratio(ours.new_raw[at], changed[at].0[0])).fold(0.0, worse);
    Ok(Report {
        name: "store-delta",
        bars: vec![
            Bar::at_most(
                Kind::Count,
                "new bytes before compression, share of changed pages, worst of B C D",
                worst_raw,
                "share",
                1.10,
            ),
            Bar::at_least(
                Kind::Speed,
                "through an unchanged image",
                unchanged.cpu_gbps(first.len()),
                "GB per CPU second",
                1.5,
            ),
            Bar::at_least(Kind::Speed, "through B", b.cpu_gbps(images[1].len()), "GB per CPU second", 1.5),
            Bar::at_least(
                Kind::Speed,
                "B, times as fast as the faster of restic and borg",
                times_as_fast(0),
                "times",
                5.0,
            ),
            Bar::at_least(
                Kind::Speed,
                "S, times as fast as the faster of restic and borg",
                times_as_fast(SCATTERED),
                "times",
                5.0,
            ),
            Bar::at_most(
                Kind::Count,
                "S, growth on disk, share of the smaller of restic and borg",
                growth(SCATTERED),
                "share",
                0.05,
            ),
        ],
        compared_with: json!({
            "steps": steps,
            // Not a bar: the pages that B changes, compressed and nothing else, are more than 1/20 of restic's growth.
            "b_growth_share": round(growth(0)),
            // Nor this: each page of S costs a map leaf of its own.
            "s_new_raw_share": round(ratio(ours.new_raw[SCATTERED], changed[SCATTERED].0[0])),
            "unchanged": { "wall_s": round(unchanged.wall_s), "cpu_s": round(unchanged.cpu_s), "new_raw_bytes": ours.unchanged_raw },
            "versions": rivals::versions()?,
        }),
        sizes: json!({ "image_mib": mib(first.len()), "rounds": run.rounds }),
    })
}

fn figures(steps: &Steps, at: usize, len: u64) -> Value {
    let took = median_timed(&steps.took[at]);
    json!({ "wall_s": round(took.wall_s), "cpu_s": round(took.cpu_s), "gb_per_cpu_s": round(took.cpu_gbps(len)),
        "wall_rounds": steps.took[at].iter().map(|took| round(took.wall_s)).collect::<Vec<_>>(),
        "grew_mib": round(mib(steps.grew[at])) })
}
