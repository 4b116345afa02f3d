//! `calibrate`: does the made image behave like the real ones that it imitates?

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::bare;
use crate::content::{Content, PAGE};
use crate::image::Image;
use crate::measure::{MIB, median, mib, ratio, timed, worse};
use crate::patterns;
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// Measured on the last 2 GiB of a real image of 2487 MiB: level, piece, out/in, GB per CPU second.
const REAL: [(i32, usize, f64, f64); 6] = [
    (1, 64 << 10, 0.40, 0.62),
    (1, 1 << 20, 0.37, 1.04),
    (3, 64 << 10, 0.40, 0.60),
    (3, 1 << 20, 0.37, 0.90),
    (-1, 64 << 10, 0.43, 0.75),
    (-1, 1 << 20, 0.40, 1.39),
];

/// BLAKE3 in pieces of 64 KiB on the same machine and image.
const REAL_BLAKE3: f64 = 4.1;

/// Compares the image with what was measured on real ones.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let images = patterns::family(&run.images()?, run.len, run.seed)?;
    let first = &images[0];
    let machine = reference_speed(run, first)?;
    let mut table = Vec::new();
    let mut worst_size = 0f64;
    let mut worst_speed = 1f64;
    for (level, piece, size, speed) in REAL {
        let mut speeds = Vec::new();
        let mut out = 0.0;
        for _ in 0..run.rounds {
            let stage = bare::compress(&first.path, piece, level, 1)?;
            out = ratio(stage.bytes_out, stage.bytes_in);
            speeds.push(stage.took.cpu_gbps(stage.bytes_in));
        }
        let made = median(&speeds);
        worst_size = worse(worst_size, (out / size - 1.0).abs());
        let corrected = made * REAL_BLAKE3 / machine;
        worst_speed = worse(worst_speed, worse(corrected / speed, speed / corrected));
        run.say(&format!(
            "zstd {level} {:>4} KiB: {out:.3} (real {size}), {made:.2} GB/s (real {speed})",
            piece >> 10
        ));
        table.push(json!({ "zstd_level": level, "piece": piece, "out_in": round(out), "real_out_in": size,
            "gb_per_cpu_s": round(made), "real_gb_per_cpu_s": speed }));
    }
    let zero = zero_pages(first)?;
    let changes = changes(run, &images)?;
    Ok(Report {
        name: "calibrate",
        bars: vec![
            Bar::at_most(
                Kind::Count,
                "out/in of zstd, farthest from the real image",
                worst_size,
                "share",
                0.15,
            ),
            Bar::at_least(Kind::Count, "zero pages", zero, "share", 0.12),
            Bar::at_most(Kind::Count, "zero pages", zero, "share", 0.13),
            Bar::at_most(
                Kind::Count,
                "changed bytes, farthest from the real steps",
                changes.1,
                "share",
                0.15,
            ),
            Bar::at_most(
                Kind::Speed,
                "speed of zstd, corrected by that of BLAKE3, farthest from the real image",
                worst_speed,
                "factor",
                1.5,
            ),
        ],
        compared_with: json!({ "zstd": table, "blake3_64_kib": { "gb_per_cpu_s": round(machine), "real_gb_per_cpu_s": REAL_BLAKE3 }, "changes": changes.0, "by_content": by_content(run, first)? }),
        sizes: json!({ "image_mib": mib(first.len()), "regions": first.regions.len() }),
    })
}

/// The changed bytes of each step beside those that were measured, and the largest deviation. One piece of
/// rounding is allowed: a small image has few of the large ones.
fn changes(run: &Run, images: &[Image]) -> Result<(Value, f64)> {
    let mut worst = 0f64;
    let mut table = Vec::new();
    for (pattern, pair) in patterns::PATTERNS.iter().zip(images.windows(2)) {
        let changed = patterns::compare(&pair[0], &pair[1])?;
        let wanted = pattern.wanted_mib(run.len);
        for ((bytes, wanted), piece) in changed.0.iter().zip(wanted).zip(patterns::PIECES) {
            let off = ((mib(*bytes) - wanted).abs() - mib(piece)).max(0.0);
            worst = worse(worst, off / wanted);
        }
        let made = changed.0.map(|bytes| round(mib(bytes)));
        let wanted = wanted.map(round);
        run.say(&format!("{}: changed {made:?} MiB by 4K/16K/64K/1M, wanted {wanted:?}", pattern.name));
        table.push(json!({ "image": pattern.name, "what": pattern.what, "image_mib": mib(pair[1].len()),
            "changed_mib": made, "wanted_mib": wanted, "pieces": patterns::PIECES }));
    }
    Ok((Value::Array(table), worst))
}

/// BLAKE3 does not care what it hashes, so its speed says how fast this machine is now, beside the one that the real
/// image was measured on. The speeds of zstd are corrected by it.
fn reference_speed(run: &Run, image: &Image) -> Result<f64> {
    let mut speeds = Vec::new();
    for _ in 0..run.rounds {
        let stage = bare::hash(&image.path, 64 << 10, 1)?;
        speeds.push(stage.took.cpu_gbps(stage.bytes_in));
    }
    run.say(&format!(
        "BLAKE3 in 64 KiB pieces: {:.2} GB/s (on the machine of the real image {REAL_BLAKE3})",
        median(&speeds)
    ));
    Ok(median(&speeds))
}

/// The share of zero pages.
fn zero_pages(image: &Image) -> Result<f64> {
    let file = File::open(&image.path)?;
    let zero = AtomicU64::new(0);
    image.for_blocks(|region, block, len| {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, region.offset + block * MIB).context("cannot read the image")?;
        let count = bytes.chunks(PAGE).filter(|page| page.iter().all(|byte| *byte == 0)).count();
        zero.fetch_add(count as u64, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(ratio(zero.into_inner() * PAGE as u64, image.len()))
}

/// How each content compresses, so that a reader sees what the mixture is made of.
fn by_content(run: &Run, image: &Image) -> Result<Value> {
    let file = File::open(&image.path)?;
    let mut samples: Vec<(Content, u64, Vec<u8>)> = Vec::new();
    for region in &image.regions {
        // A sample: the first 4 MiB of each region.
        let mut bytes = vec![0; usize::try_from(region.len.min(4 * MIB))?];
        file.read_exact_at(&mut bytes, region.offset)?;
        match samples.iter_mut().find(|sample| sample.0 == region.content) {
            Some(sample) => {
                sample.1 += region.len;
                sample.2.append(&mut bytes);
            }
            None => samples.push((region.content, region.len, bytes)),
        }
    }
    let mut rows = Vec::new();
    for (content, len, bytes) in samples {
        let mut row = json!({ "content": content, "mib": round(mib(len)) });
        for (name, piece) in [("64_kib", 64 << 10), ("1_mib", 1 << 20)] {
            let mut zstd = zstd::bulk::Compressor::new(1)?;
            let mut out = vec![0; zstd::zstd_safe::compress_bound(piece)];
            let (sum, took) = timed(|| {
                let mut sum = 0;
                for piece in bytes.chunks(piece) {
                    sum += zstd.compress_to_buffer(piece, &mut out)? as u64;
                }
                Ok(sum)
            })?;
            row[name] = json!({ "out_in": round(ratio(sum, bytes.len() as u64)),
                "gb_per_cpu_s": round(took.cpu_gbps(bytes.len() as u64)) });
        }
        run.say(&row.to_string());
        rows.push(row);
    }
    Ok(Value::Array(rows))
}
