//! Clocks, counters and what machine this is.
//!
//! Wall time is what a user waits for, but on a shared machine it also measures the neighbours. So everything is
//! measured in both wall and CPU time, and rounds of all contenders are interleaved and compared by their median.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::{Value, json};

/// One GiB divides into 1024 of these.
pub(crate) const MIB: u64 = 1 << 20;

/// What one step took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Timed {
    /// Seconds on the wall clock.
    pub(crate) wall_s: f64,
    /// Seconds of CPU, all threads, and of children that ended meanwhile.
    pub(crate) cpu_s: f64,
}

impl Timed {
    /// GB (10^9 bytes) per second of wall time.
    pub(crate) fn wall_gbps(&self, bytes: u64) -> f64 {
        gb(bytes) / self.wall_s
    }

    /// GB (10^9 bytes) per second of CPU.
    pub(crate) fn cpu_gbps(&self, bytes: u64) -> f64 {
        gb(bytes) / self.cpu_s
    }
}

/// Bytes as 10^9 bytes.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
pub(crate) fn gb(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

/// Bytes as MiB.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}

/// How many times `b` is in `a`. Nothing that is measured here has no bytes: a zero is a figure that could not be had (NaN).
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
pub(crate) fn ratio(a: u64, b: u64) -> f64 {
    if a == 0 || b == 0 { f64::NAN } else { a as f64 / b as f64 }
}

/// The median of our rounds as a multiple of theirs. Nothing takes no time: a round of zero is one that could not be had (NaN).
pub(crate) fn ratio_of_rounds(ours: &[f64], theirs: &[f64]) -> f64 {
    let measured = |rounds: &[f64]| rounds.iter().all(|round| *round > 0.0);
    if measured(ours) && measured(theirs) { median(ours) / median(theirs) } else { f64::NAN }
}

/// Lets every contender have its turn of a round. Who begins changes from round to round: what one leaves behind for the next, a warm
/// cache or a busy disk, is then left for each of them.
pub(crate) fn in_turns(round: usize, contenders: &mut [&mut dyn FnMut() -> Result<()>]) -> Result<()> {
    let count = contenders.len();
    for place in 0..count {
        contenders[(round + place) % count]()?;
    }
    Ok(())
}

/// Runs a step and says what it took.
pub(crate) fn timed<T>(step: impl FnOnce() -> Result<T>) -> Result<(T, Timed)> {
    let cpu = cpu_seconds()?;
    let wall = Instant::now();
    let value = step()?;
    let wall_s = wall.elapsed().as_secs_f64();
    Ok((value, Timed { wall_s, cpu_s: cpu_seconds()? - cpu }))
}

/// CPU time of this process to the nanosecond, plus that of ended children in clock ticks (10 ms).
fn cpu_seconds() -> Result<f64> {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    // The command name may contain spaces; fields are counted after its closing parenthesis.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u32>().ok()).map_or(0.0, f64::from);
    #[expect(clippy::cast_precision_loss, reason = "CPU seconds and nanoseconds are small")]
    let own = own.tv_sec as f64 + own.tv_nsec as f64 / 1e9;
    Ok(own + (ticks(13) + ticks(14)) / 100.0)
}

/// The middle value; the mean of the two middle ones if their number is even.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// So much or less in 95 of 100.
pub(crate) fn ninety_five(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() * 95).div_ceil(100);
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The larger one. Unlike `f64::max` it keeps a figure that could not be had (NaN): that must not vanish behind one that could.
pub(crate) fn worse(one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() { f64::NAN } else { one.max(other) }
}

/// The smaller one, with the same care.
pub(crate) fn better(one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() { f64::NAN } else { one.min(other) }
}

/// Wall and CPU medians of some rounds, each by itself.
pub(crate) fn median_timed(rounds: &[Timed]) -> Timed {
    Timed {
        wall_s: median(&rounds.iter().map(|round| round.wall_s).collect::<Vec<_>>()),
        cpu_s: median(&rounds.iter().map(|round| round.cpu_s).collect::<Vec<_>>()),
    }
}

/// Size of a directory tree: file lengths, and blocks as the file system counts them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct TreeSize {
    /// Sum of file lengths.
    pub(crate) bytes: u64,
    /// Sum of allocated blocks, in bytes.
    pub(crate) allocated: u64,
}

/// Adds up the files below `dir`.
pub(crate) fn tree_size(dir: &Path) -> Result<TreeSize> {
    let mut size = TreeSize::default();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            let below = tree_size(&entry.path())?;
            size.bytes += below.bytes;
            size.allocated += below.allocated;
        } else {
            size.bytes += meta.len();
            size.allocated += meta.blocks() * 512;
        }
    }
    Ok(size)
}

/// Makes a directory tree durable, file by file: other people's dirty pages are not waited for.
pub(crate) fn sync_tree(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_tree(&entry.path())?;
        } else if kind.is_file() {
            fs::File::open(entry.path())?.sync_all()?;
        }
    }
    fs::File::open(dir)?.sync_all().with_context(|| format!("cannot sync {}", dir.display()))
}

/// Has the kernel forget what it has of the files below `dir`, so that they are read from the disk, and looks whether it has.
pub(crate) fn out_of_page_cache(dir: &Path) -> Result<()> {
    settle();
    let mut resident = 0;
    advise_away(dir, &mut resident)?;
    let all = tree_size(dir)?.bytes;
    // What a program has mapped, such as the index of a log of SQLite's, stays.
    ensure!(
        resident <= all / 20,
        "{resident} of {all} bytes in {} are still in the page cache",
        dir.display()
    );
    Ok(())
}

fn advise_away(dir: &Path, resident: &mut u64) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            advise_away(&entry.path(), resident)?;
        } else if kind.is_file() && entry.metadata()?.len() > 0 {
            rustix::fs::fadvise(fs::File::open(entry.path())?, 0, None, rustix::fs::Advice::DontNeed)?;
            *resident += in_page_cache(&entry.path())?;
        }
    }
    Ok(())
}

/// Bytes of a file that are in the page cache, as fincore of util-linux tells.
fn in_page_cache(file: &Path) -> Result<u64> {
    let asked =
        Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).arg(file).output();
    let said = asked.context("cannot run fincore")?.stdout;
    String::from_utf8_lossy(&said)
        .trim()
        .parse()
        .with_context(|| format!("fincore says nothing of {}", file.display()))
}

/// Writes back everything that is dirty, so that the next step does not pay for the step before.
pub(crate) fn settle() {
    rustix::fs::sync();
}

/// The largest resident size this process ever had, in bytes.
pub(crate) fn peak_memory() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM in /proc/self/status")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("VmHWM is not a number")?;
    Ok(kib * 1024)
}

/// How many threads may run at once.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a reader needs to know of the machine to judge a figure.
pub(crate) fn machine(dir: &Path) -> Value {
    let first = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .find(|line| line.starts_with(key))
            .map(|line| line.replace('\t', " "))
            .unwrap_or_default()
    };
    let after_colon = |line: String| line.split(':').nth(1).unwrap_or_default().trim().to_owned();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    json!({
        "cpu": after_colon(first("/proc/cpuinfo", "model name")),
        "cores": cores(),
        "memory": after_colon(first("/proc/meminfo", "MemTotal")),
        "kernel": kernel.trim(),
        "load_1min_before": load.split(' ').next().and_then(|load| load.parse::<f64>().ok()),
        "file_system": rustix::fs::statfs(dir).map_or_else(|_| "unknown".to_owned(), |fs| match fs.f_type {
            0xef53 => "ext4".to_owned(),
            0x0102_1994 => "tmpfs".to_owned(),
            0x5846_5342 => "xfs".to_owned(),
            0x9123_683e => "btrfs".to_owned(),
            0x794c_7630 => "overlay".to_owned(),
            other => format!("{other:#x}"),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ninety_five_of_a_hundred() {
        let values = |count: u32| (1..=count).rev().map(f64::from).collect::<Vec<_>>();
        assert!((ninety_five(&values(100)) - 95.0).abs() < 1e-9);
        assert!((ninety_five(&values(10)) - 10.0).abs() < 1e-9);
        assert!(ninety_five(&[]).is_nan());
    }

    #[test]
    fn a_figure_that_is_missing_is_the_worst() {
        assert!((worse(1.0, 2.0) - 2.0).abs() < 1e-9);
        assert!([1.0, f64::NAN, 2.0].into_iter().fold(0.0, worse).is_nan());
        assert!((better(1.0, 2.0) - 1.0).abs() < 1e-9);
        assert!(better(1.0, f64::NAN).is_nan() && better(f64::NAN, 1.0).is_nan());
    }

    #[test]
    fn nothing_is_a_figure_that_is_missing() {
        assert!(ratio(0, 5).is_nan() && ratio(5, 0).is_nan());
        assert!(ratio_of_rounds(&[1.0, 0.0], &[1.0]).is_nan());
        assert!(ratio_of_rounds(&[], &[1.0]).is_nan());
        assert!((ratio_of_rounds(&[1.0, 3.0], &[4.0]) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn each_contender_begins_a_round() {
        let order = std::cell::RefCell::new(String::new());
        for round in 0..3 {
            let say = |name| {
                let order = &order;
                move || -> Result<()> {
                    order.borrow_mut().push(name);
                    Ok(())
                }
            };
            in_turns(round, &mut [&mut say('a'), &mut say('b'), &mut say('c')]).unwrap();
        }
        assert_eq!(*order.borrow(), "abcbcacab");
    }

    #[test]
    fn cpu_time_of_children_is_counted() {
        let loop_a_while = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let (status, took) =
            timed(|| Ok(std::process::Command::new("sh").args(["-c", loop_a_while]).status()?)).unwrap();
        assert!(status.success());
        assert!(took.cpu_s >= 0.01, "{took:?}");
    }

    #[test]
    fn a_tree_is_as_big_as_its_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(dir.path().join("a"), [1; 10]).unwrap();
        fs::write(dir.path().join("below/b"), [1; 32]).unwrap();
        assert_eq!(tree_size(dir.path()).unwrap().bytes, 42);
    }
}
