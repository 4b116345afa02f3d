//! `pause-warm` and `pause-cold`: how long a kernel stands still for a snapshot whose memory is copied ahead, against a plain dump, which
//! copies all of it while everything stands still.
//!
//! *Warm* is every snapshot after the first: a cell has written 8 MB since. *Cold* is the first one, for which all memory has to be
//! copied, while the kernel is idle, and while a thread of it writes to 10,000 pages a second. A dump that copies nothing ahead does not care.
//! Both contenders work on the same kernel ([`SwitchedKernel`]).

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::live::{Pause, SwitchedKernel, Turns, able, fill};
use crate::measure::{median, ratio_of_rounds};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// A thread that writes to so many pages a second, all over the noise, when it is told to. After a gap it does not make up for what it missed.
/// It keeps the rate that it has had while it was able to run.
const WRITER: &str = "
PAGES_A_SECOND, AT_ONCE = 10_000, 100
writing, pages_written, time_writing = False, 0, 0.0
def write():
    global pages_written, time_writing
    random = numpy.random.default_rng(2)
    last = due = time.perf_counter()
    while True:
        due += AT_ONCE / PAGES_A_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))
        now = time.perf_counter()
        missed = now - due > 0.1
        if writing:
            noise[random.integers(0, noise.size // 512, AT_ONCE) * 512] += 1.0
            pages_written += AT_ONCE
            time_writing += AT_ONCE / PAGES_A_SECOND if missed else now - last
        if missed:
            due = now
        last = now
threading.Thread(target=write, daemon=True).start()
";
/// The rate that there must have been for a figure to be one of a kernel that writes.
const LEAST_PAGES_A_SECOND: f64 = 8000.0;

/// Alternates snapshots with and without copying ahead, at three sizes of the kernel.
pub(crate) fn run_warm(run: &Run) -> Result<Report> {
    able()?;
    let largest = run.largest_kernel_mib();
    ensure!(
        largest >= 128,
        "the smallest of three kernels, an eighth of {largest} MiB, has no 8 MB to write to"
    );
    let sizes = [largest / 8, largest / 2, largest];
    let mut kernel = SwitchedKernel::start("warm")?;
    let mut found = Vec::new();
    for mib in sizes {
        kernel.ask(&fill(mib), "answer")?;
        let turns = kernel.by_turns(run, &format!("pause-warm, {mib} MiB"), |kernel, _, number| {
            kernel.snapshot()?;
            kernel.ask(&cell(number), "answer")?;
            kernel.pause()
        })?;
        found.push(turns);
    }
    let [smallest, middle, largest] = &found[..] else { unreachable!("one for each of three sizes") };
    Ok(Report {
        name: "pause-warm",
        bars: vec![
            Bar::at_most(Kind::Speed, "half of the largest size", median(&gaps(&middle.ahead)), "s", 0.12),
            Bar::at_most(Kind::Speed, "largest size", ratio(largest), "of the plain dump's", 0.03),
            Bar::at_most(
                Kind::Speed,
                "an eighth of the largest size to all of it",
                ratio_of_rounds(&gaps(&largest.ahead), &gaps(&smallest.ahead)),
                "growth",
                2.0,
            ),
        ],
        compared_with: sizes
            .iter()
            .zip(&found)
            .map(|(mib, turns)| (format!("{mib} MiB"), both(turns)))
            .collect(),
        sizes: json!({ "kernels_mib": sizes, "written_mb": 8, "rounds": run.rounds }),
    })
}

/// Alternates first snapshots with and without copying ahead, of a kernel that is idle and of one that writes.
pub(crate) fn run_cold(run: &Run) -> Result<Report> {
    able()?;
    let mib = run.largest_kernel_mib();
    let mut kernel = SwitchedKernel::start("cold")?;
    kernel.ask(&fill(mib), "answer")?;
    kernel.ask(WRITER, "answer")?;
    let idle = kernel.by_turns(run, "pause-cold, idle", |kernel, _, _| kernel.pause())?;
    let mut rates = Vec::new();
    let writing = kernel.by_turns(run, "pause-cold, writing", |kernel, _, _| {
        kernel.ask("pages_written, time_writing, writing = 0, 0.0, True", "answer")?;
        let pause = kernel.pause()?;
        rates.push(kernel.number("writing = False", "pages_written / time_writing")?);
        Ok(pause)
    })?;
    let rate = median(&rates);
    ensure!(
        run.smoke || rate >= LEAST_PAGES_A_SECOND,
        "the writer came to {rate:.0} pages a second: this machine is too busy to measure"
    );
    // A small kernel is dumped plainly in about the time that a freeze takes anyway, and both are at the mercy of what else runs.
    let idle_bar = if run.smoke { 0.25 } else { 0.10 };
    Ok(Report {
        name: "pause-cold",
        bars: vec![
            Bar::at_most(Kind::Speed, "idle", ratio(&idle), "of the plain dump's", idle_bar),
            Bar::at_most(Kind::Speed, "10,000 pages a second", ratio(&writing), "of the plain dump's", 0.25),
        ],
        compared_with: json!({
            "idle": both(&idle), "writing": both(&writing), "pages_a_second": round(rate),
        }),
        sizes: json!({ "kernel_mib": mib, "rounds": run.rounds }),
    })
}

/// A cell that writes 8 MB, each time elsewhere.
fn cell(number: usize) -> String {
    format!(
        "first = {number} * 1_000_000 % (noise.size - 1_000_000 + 1)\nnoise[first:first + 1_000_000] += 1.0"
    )
}

fn gaps(pauses: &[Pause]) -> Vec<f64> {
    pauses.iter().map(|pause| pause.gap_s).collect()
}

fn ratio(turns: &Turns<Pause>) -> f64 {
    ratio_of_rounds(&gaps(&turns.ahead), &gaps(&turns.plain))
}

fn both(turns: &Turns<Pause>) -> Value {
    let of = |pauses: &[Pause]| {
        let frozen: Vec<f64> = pauses.iter().map(|pause| pause.frozen_s).collect();
        let rounds: Vec<f64> = gaps(pauses).into_iter().map(round).collect();
        json!({ "gap_s": round(median(&gaps(pauses))), "frozen_s": round(median(&frozen)), "rounds": rounds })
    };
    json!({ "ahead": of(&turns.ahead), "plain": of(&turns.plain), "ratio": round(ratio(turns)) })
}
