//! `day`: what automatic snapshots add to the cells of a day's work, in JupyterLab in a browser.
//!
//! Forty cells over 600 MB of data with files and plots, one after the other, with the moments between them in which a person looks at what came
//! of it. Once with a snapshot after each cell, as it is by itself and with the pause that is allowed by itself, and once with none, each in a kernel
//! of its own, not at the same time. Times are those of the page: from the request to run a cell until its kernel is idle again.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::live::{Browser, Daemon, User, able};
use crate::measure::median;
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// What a kernel may stand still for by itself, in ms.
const BUDGET_MS: f64 = 100.0;

/// How large a day is.
struct Size {
    cells: usize,
    megabytes: u64,
    /// Seconds for which a person looks at a cell, at most.
    look_s: f64,
    /// What a kernel may stand still for, in ms, if that is not what it may by itself.
    pause_ms: Option<u64>,
}

/// The day with snapshots, and without.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let size = if run.smoke {
        // Programs that are not optimised on a machine that does other things: there would be no snapshot at all.
        Size { cells: 6, megabytes: 40, look_s: 1.0, pause_ms: Some(3000) }
    } else {
        Size { cells: 40, megabytes: run.size_mib.unwrap_or(600), look_s: 3.0, pause_ms: None }
    };
    let user = User::make()?;
    let daemon = Daemon::start(&user)?;
    let mut page = Browser::start(&user, &daemon)?;
    let mut day = |snapshots: bool| {
        run.say(&format!("day: {} cells, snapshots: {snapshots}", size.cells));
        page.ask(&json!({
            "do": "day", "cells": size.cells, "megabytes": size.megabytes, "longest_look": size.look_s, "snapshots": snapshots,
            "pause_ms": size.pause_ms,
        }))
    };
    let (with, without) = (day(true)?, day(false)?);
    let (times, bare) = (figures(&with["times_ms"])?, figures(&without["times_ms"])?);
    ensure!(times.len() == size.cells && bare.len() == size.cells, "some cells were not timed");
    let mut delays: Vec<f64> = times.iter().zip(&bare).map(|(with, without)| with - without).collect();
    let in_order: Vec<f64> = delays.iter().map(|delay| round(*delay)).collect();
    delays.sort_by(f64::total_cmp);
    let taken = with["snapshots"].as_array().context("no list of snapshots")?;
    let pauses = taken.iter().map(|one| one["pause_ms"].as_f64().context("a snapshot without a pause"));
    let pauses = pauses.collect::<Result<Vec<_>>>()?;
    ensure!(!pauses.is_empty(), "no snapshot was taken in the whole day");
    let longest = pauses.iter().copied().fold(0.0, f64::max);
    #[expect(clippy::cast_precision_loss, reason = "some dozens")]
    let share = taken.len() as f64 / size.cells as f64;
    Ok(Report {
        name: "day",
        bars: vec![
            Bar::at_most(Kind::Speed, "delay of a cell, median", median(&delays), "ms", 60.0),
            Bar::at_most(Kind::Speed, "longest pause", longest, "ms", BUDGET_MS),
            Bar::at_least(Kind::Speed, "cells with a snapshot", share, "ratio", 0.9),
        ],
        compared_with: json!({
            "delays_ms": in_order, "worst_delay_ms": delays.last(), "pause_median_ms": round(median(&pauses)),
            "cells_with_ms": round(median(&times)), "cells_without_ms": round(median(&bare)), "snapshots": taken,
        }),
        sizes: json!({ "cells": size.cells, "megabytes": size.megabytes, "look_s": size.look_s }),
    })
}

fn figures(list: &Value) -> Result<Vec<f64>> {
    let list = list.as_array().context("no list of times from the page")?;
    list.iter().map(|one| one.as_f64().context("a time that is no number")).collect()
}
