//! `store-read`: a snapshot back, whole and in small ranges, also at the end of a long chain.

use std::fs;

use anyhow::{Context, Result};
use serde_json::json;

use crate::bare;
use crate::image::Image;
use crate::measure::{Timed, cores, median, median_timed, mib, settle};
use crate::ours::Store;
use crate::patterns::PATTERNS;
use crate::report::{Bar, Kind, Report, round};
use crate::rng::Rng;
use crate::run::Run;

const RANGE: usize = 64 << 10;

/// Reads image A back, then the last child of a chain of changes like B.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let image = Image::first(&run.images()?, run.len, run.seed)?;
    let work = run.work()?;
    let store = Store::create(&work)?;
    let first = store.ingest(&image, None)?.snapshot;
    let objects = store.stored_objects()?;

    let [mut ours, mut verified, mut bare_rounds] = [const { Vec::<Timed>::new() }; 3];
    let mut bytes = (0, 0);
    for _ in 0..run.rounds {
        settle();
        ours.push(store.read_all(&first, &image)?);
        verified.push(store.read_all_verified(&first)?);
        let stage = bare::decompress(&objects, cores())?;
        bytes = (stage.bytes_in, stage.bytes_out);
        bare_rounds.push(stage.took);
    }
    let (whole, bare) = (median_timed(&ours), median_timed(&bare_rounds));
    let verified = median_timed(&verified);

    let ranges = ranges(&image, if run.smoke { 200 } else { 2000 }, run.seed);
    let of_first = store.read_ranges(&first, &ranges)?;
    // The chain works on a copy that is changed in place. Its start is smaller in full runs too: a hundred
    // ingests of 2 GiB would say nothing more about reading.
    let links = if run.smoke { 20 } else { 100 };
    let start = Image::first(&run.images()?, run.len.min(512 << 20), run.seed)?;
    let chain = Image { path: work.join("chain.img"), ..start.clone() };
    fs::copy(&start.path, &chain.path).context("cannot copy the image")?;
    let mut last = store.ingest(&chain, None)?.snapshot;
    for link in 0..links {
        PATTERNS[0].apply_in_place(&chain, run.seed ^ (link + 1))?;
        last = store.ingest(&chain, Some(&last))?.snapshot;
    }
    store.read_all(&last, &chain)?;
    let of_last = store.read_ranges(&last, &self::ranges(&chain, ranges.len(), run.seed))?;
    fs::remove_file(&chain.path)?;

    Ok(Report {
        name: "store-read",
        bars: vec![
            Bar::at_least(
                Kind::Speed,
                "whole snapshot, share of bare zstd",
                bare.wall_s / whole.wall_s,
                "share",
                0.85,
            ),
            Bar::at_most(Kind::Speed, "64 KiB range, median", median(&of_first) * 1e3, "ms", 1.0),
            Bar::at_most(
                Kind::Speed,
                "64 KiB range at the end of the chain, median",
                median(&of_last) * 1e3,
                "ms",
                1.0,
            ),
        ],
        compared_with: json!({
            "ours": { "wall_s": round(whole.wall_s), "cpu_s": round(whole.cpu_s), "gb_per_s": round(whole.wall_gbps(image.len())) },
            "ours_ids_compared": { "wall_s": round(verified.wall_s), "cpu_s": round(verified.cpu_s),
                "share_of_bare": round(bare.wall_s / verified.wall_s) },
            "bare_zstd": { "wall_s": round(bare.wall_s), "cpu_s": round(bare.cpu_s), "stored_mib": round(mib(bytes.0)),
                "raw_mib": round(mib(bytes.1)) },
            "range_ms_99th": round(ninety_ninth(&of_first) * 1e3),
            "chain_range_ms_99th": round(ninety_ninth(&of_last) * 1e3),
        }),
        sizes: json!({ "image_mib": mib(image.len()), "objects": objects.len(), "ranges": ranges.len(), "chain": links,
            "chain_image_mib": mib(chain.len()), "rounds": run.rounds }),
    })
}

/// Random ranges that lie within a region each.
fn ranges(image: &Image, count: usize, seed: u64) -> Vec<(u64, usize)> {
    let mut rng = Rng::of(&[seed, 0x4ead]);
    let large: Vec<_> = image.regions.iter().filter(|region| region.len >= RANGE as u64).collect();
    let total: u64 = large.iter().map(|region| region.len).sum();
    let mut ranges = Vec::with_capacity(count);
    for _ in 0..count {
        let mut at = rng.below(total);
        for region in &large {
            if at < region.len {
                let at = at.min(region.len - RANGE as u64) & !4095;
                ranges.push((region.start + at, RANGE));
                break;
            }
            at -= region.len;
        }
    }
    ranges
}

fn ninety_ninth(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(f64::NAN)
}
