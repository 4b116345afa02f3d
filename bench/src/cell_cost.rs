//! `cell-cost`: what it costs a person that every cell can be undone.
//!
//! *Cells.* A hundred of them, of 1 ms to 1 s, run one after the other as by "run all", over 60 MB and over 600 MB of data. Each reads data
//! for as long as it is to last, and writes to 8 MB of it. In the moment in which a cell is sent, the snapshot of the cell before is asked for; what the
//! cell takes longer than the same cell under a daemon that does nothing is the delay. The next is sent when both are over.
//!
//! *Loops* of numpy and pandas, which run in a kernel that is followed since a snapshot, against one that is not.
//!
//! *First writes*: the first write to a page after a snapshot is noticed by the kernel of the machine, which costs the writer something.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::live::{CopyAhead, SwitchedKernel, Turns, able};
use crate::measure::{median, ninety_five, ratio_of_rounds, settle, worse};
use crate::report::{Bar, Kind, Report, round};
use crate::rng::Rng;
use crate::run::Run;

const WORK: &str = include_str!("live/work.py");

/// Cells and the seconds of the longest; the shortest takes 1 ms.
struct Cells {
    count: u32,
    longest_s: f64,
}

/// Delays of cells, in seconds.
struct Delays {
    all: Vec<f64>,
    cells_s: f64,
}

/// Measures all three in one kernel.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let (megabytes, cells) = if run.smoke {
        ([6_u32, 60], Cells { count: 10, longest_s: 0.05 })
    } else {
        ([60, 600], Cells { count: 100, longest_s: 1.0 })
    };
    let mut kernel = SwitchedKernel::start("cells")?;
    kernel.ask(WORK, "None")?;
    let (mut delays, mut compared) = (Vec::new(), serde_json::Map::new());
    for size in megabytes {
        let found = measure_cells(run, &mut kernel, size, &cells)?;
        compared.insert(format!("{size} MB"), found.json());
        delays.push(found);
    }
    let [numpy, pandas] =
        if run.smoke { ["numpy_loop(4)", "pandas_loop(1)"] } else { ["numpy_loop(40)", "pandas_loop(10)"] };
    let (numpy, pandas) = (measure_loops(run, &mut kernel, numpy)?, measure_loops(run, &mut kernel, pandas)?);
    let first_writes = first_writes(&mut kernel, if run.smoke { 8 } else { 64 })?;
    let worst = |of: fn(&Delays) -> f64| delays.iter().map(of).fold(f64::NEG_INFINITY, worse) * 1e3;
    let slow_down = |loops: &Turns<f64>| (ratio_of_rounds(&loops.ahead, &loops.plain) - 1.0) * 100.0;
    compared.insert("numpy".to_owned(), both(&numpy));
    compared.insert("pandas".to_owned(), both(&pandas));
    compared.insert("first_write_to_a_page".to_owned(), first_writes);
    Ok(Report {
        name: "cell-cost",
        bars: vec![
            Bar::at_most(Kind::Speed, "delay of the next cell, median", worst(Delays::median), "ms", 40.0),
            Bar::at_most(
                Kind::Speed,
                "delay of the next cell, 95 of 100",
                worst(Delays::ninety_five),
                "ms",
                120.0,
            ),
            Bar::at_most(Kind::Speed, "slow-down of numpy", slow_down(&numpy), "%", 3.0),
            Bar::at_most(Kind::Speed, "slow-down of pandas", slow_down(&pandas), "%", 3.0),
        ],
        compared_with: Value::Object(compared),
        sizes: json!({
            "data_mb": megabytes, "cells": cells.count, "longest_cell_s": cells.longest_s, "rounds": run.rounds,
        }),
    })
}

/// The delay of each cell in each round: what it took with snapshots, less the median of what the same cell took without.
fn measure_cells(run: &Run, kernel: &mut SwitchedKernel, megabytes: u32, cells: &Cells) -> Result<Delays> {
    let piece_s = kernel.number(&format!("made = make({megabytes})"), "made")?;
    ensure!(piece_s > 0.0, "a piece of data that takes no time");
    let cells = cells.pieces(piece_s, run.seed);
    let what = format!("cell-cost, {megabytes} MB");
    let turns = kernel
        .by_turns(run, &what, |kernel, copy_ahead, _| one_after_the_other(kernel, copy_ahead, &cells))?;
    let alone = |cell: usize| median(&turns.plain.iter().map(|round| round[cell]).collect::<Vec<_>>());
    let alone: Vec<f64> = (0..cells.len()).map(alone).collect();
    let all = turns
        .ahead
        .iter()
        .flat_map(|round| round.iter().zip(&alone).map(|(with, alone)| with - alone))
        .collect();
    Ok(Delays { all, cells_s: alone.iter().sum() })
}

/// Seconds of each cell. A daemon that copies ahead takes a snapshot of the cell before beside each; the other one takes none.
fn one_after_the_other(
    kernel: &mut SwitchedKernel,
    copy_ahead: CopyAhead,
    cells: &[u32],
) -> Result<Vec<f64>> {
    let snapshots = copy_ahead == CopyAhead::On;
    if snapshots {
        kernel.snapshot()?;
    }
    settle();
    cells.iter().map(|pieces| kernel.time_cell(&format!("done = cell({pieces})"), snapshots)).collect()
}

/// Five loops in each turn, of which the middle one counts; seconds.
fn measure_loops(run: &Run, kernel: &mut SwitchedKernel, code: &str) -> Result<Turns<f64>> {
    kernel.by_turns(run, &format!("cell-cost, {code}"), |kernel, _, _| {
        kernel.snapshot()?;
        settle();
        let mut time = || kernel.number(&format!("took = {code}"), "took");
        Ok(median(&[time()?, time()?, time()?, time()?, time()?]))
    })
}

/// Microseconds for the first write to a page after a snapshot, of small pages and of huge ones, with copying ahead and without.
fn first_writes(kernel: &mut SwitchedKernel, megabytes: u32) -> Result<Value> {
    kernel.ask(
        &format!("small, huge = pages_to_write({megabytes}, False), pages_to_write({megabytes}, True)"),
        "None",
    )?;
    let mut found = serde_json::Map::new();
    for (name, copy_ahead) in [("copy_ahead", CopyAhead::On), ("plain", CopyAhead::Off)] {
        kernel.switch(copy_ahead)?;
        for pages in ["small", "huge"] {
            let mut costs = Vec::new();
            for _ in 0..5 {
                kernel.snapshot()?;
                costs.push(kernel.number(&format!("cost = first_writes({pages})"), "cost")?);
            }
            found.insert(format!("{pages}_{name}_us"), json!(round(median(&costs))));
        }
    }
    Ok(Value::Object(found))
}

impl Cells {
    /// How many pieces of data each cell goes over, if a piece takes so long. Short and long ones come in no order.
    fn pieces(&self, piece_s: f64, seed: u64) -> Vec<u32> {
        let growth = (self.longest_s / 0.001).ln() / f64::from(self.count - 1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "thousands at most")]
        let mut pieces: Vec<u32> = (0..self.count)
            .map(|number| ((0.001 * (growth * f64::from(number)).exp() / piece_s).round() as u32).max(1))
            .collect();
        Rng::of(&[seed]).shuffle(&mut pieces);
        pieces
    }
}

impl Delays {
    fn median(&self) -> f64 {
        median(&self.all)
    }

    fn ninety_five(&self) -> f64 {
        ninety_five(&self.all)
    }

    fn json(&self) -> Value {
        let most = self.all.iter().copied().fold(f64::NEG_INFINITY, worse);
        json!({
            "median_ms": round(self.median() * 1e3), "of_95_in_100_ms": round(self.ninety_five() * 1e3), "most_ms": round(most * 1e3),
            "cells_alone_s": round(self.cells_s),
        })
    }
}

fn both(loops: &Turns<f64>) -> Value {
    let all = |values: &[f64]| values.iter().map(|value| round(*value)).collect::<Vec<_>>();
    json!({
        "followed_s": round(median(&loops.ahead)), "alone_s": round(median(&loops.plain)),
        "rounds": { "followed": all(&loops.ahead), "alone": all(&loops.plain) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_of_one_millisecond_to_the_longest() {
        let mut pieces = Cells { count: 100, longest_s: 1.0 }.pieces(0.0001, 1);
        assert_ne!(pieces, Cells { count: 100, longest_s: 1.0 }.pieces(0.0001, 2), "another order");
        pieces.sort_unstable();
        assert_eq!((pieces.len(), pieces[0], pieces[99]), (100, 10, 10_000));
    }
}
