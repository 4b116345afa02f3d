//! `peers`: a day of 20 cells under the tools that a notebook user would pick instead, and under ours.
//!
//! Each contender runs the same cells in a kernel of the same Python and keeps the state after each. The last cell damages everything; then it
//! goes back by one cell, and by five. What the objects say is compared with what they say in a kernel that has no tool and stops there.
//! The delay of a cell is what it takes longer, until the next may run, than in the kernel that has none.

mod contenders;

use std::path::Path;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::live::{Unable, User, able};
use crate::measure::{gb, median, ninety_five, ratio, settle, worse};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;
use contenders::{Contender, Ours, PYTHON, Plain, Tool};

const CELLS: &str = include_str!("peers/cells.py");
/// Of the 20 cells: the last one damages everything.
const DAMAGED: usize = 20;
/// How far is gone back.
const BACK: [usize; 2] = [1, 5];

/// What one tool came to.
struct Day {
    delays_s: Vec<f64>,
    disk: u64,
    undos: Vec<Undo>,
}

/// Going back by some cells.
struct Undo {
    took_s: Option<f64>,
    plain: Right,
    hard: Right,
    steps: Value,
}

/// How many objects said what they should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Right {
    right: usize,
    of: usize,
}

impl Right {
    fn wrong(self) -> usize {
        self.of - self.right
    }
}

/// What the day is without any tool.
struct Alone {
    cells_s: Vec<f64>,
    /// What the objects say in each of the states that are gone back to.
    told: Vec<Value>,
}

/// Each contender in turn.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    if !Path::new(PYTHON).exists() {
        bail!(Unable(format!("it needs {PYTHON}: run scripts/peers-python.sh")));
    }
    let scale = if run.smoke { 0.02 } else { 1.0 };
    let cells = cells(scale);
    ensure!(cells.len() == DAMAGED, "{} cells", cells.len());
    let user = User::make()?;
    run.say("peers: no tool");
    let alone = alone(&user, &cells)?;
    run.say("peers: Kishu");
    let kishu = day(&mut Plain::start(&user, Tool::Kishu)?, &cells, &alone)?;
    run.say("peers: dill by variable");
    let dill = day(&mut Plain::start(&user, Tool::Dill)?, &cells, &alone)?;
    run.say("peers: infinijup");
    let mut session = Ours::start(&user)?;
    let ours = day(&mut session, &cells, &alone)?;
    let wrong: usize = ours.undos.iter().flat_map(|undo| [undo.plain, undo.hard]).map(Right::wrong).sum();
    let mut bars =
        vec![Bar::at_most(Kind::Count, "objects that are not right", count(wrong), "objects", 0.0)];
    if !run.smoke {
        bars.extend(ratios(&ours, &kishu, &dill));
    }
    let frozen = session.frozen_s();
    Ok(Report {
        name: "peers",
        bars,
        compared_with: json!({
            "infinijup": ours.json(), "kishu": kishu.json(), "dill_by_variable": dill.json(),
            "infinijup_frozen_median_s": round(median(frozen)), "infinijup_frozen_of_95_in_100_s": round(ninety_five(frozen)),
            "cells_alone_s": round(alone.cells_s.iter().sum()),
        }),
        sizes: json!({ "cells": cells.len(), "frame_mb": 300.0 * scale, "array_mb": 100.0 * scale }),
    })
}

/// What is held to bars where the day is large: a kernel itself is tens of MB, and to go back takes a while even with no data.
fn ratios(ours: &Day, kishu: &Day, dill: &Day) -> Vec<Bar> {
    let delay = median(&ours.delays_s) / median(&kishu.delays_s);
    let undo = ours
        .undos
        .iter()
        .enumerate()
        .map(|(at, undo)| undo.took_s.unwrap_or(f64::NAN) / best([kishu, dill], at));
    let disk = ratio(ours.disk, kishu.disk.min(dill.disk));
    vec![
        Bar::at_most(Kind::Speed, "delay of a cell, of Kishu's", delay, "ratio", 0.1),
        Bar::at_most(Kind::Speed, "going back, of the faster", undo.fold(0.0, worse), "ratio", 0.2),
        Bar::at_most(Kind::Count, "disk, of the smaller", disk, "ratio", 0.25),
    ]
}

/// The cells of the day.
fn cells(scale: f64) -> Vec<String> {
    CELLS.split("# %%\n").skip(1).map(|cell| cell.replace("SCALE", &scale.to_string())).collect()
}

/// The state of after each cell that is gone back to needs a kernel of its own: who looks, changes.
fn alone(user: &User, cells: &[String]) -> Result<Alone> {
    let mut told = Vec::new();
    let mut cells_s = Vec::new();
    for back in BACK {
        let mut kernel = Plain::start(user, Tool::Nothing)?;
        settle();
        let took: Vec<f64> =
            cells[..DAMAGED - back].iter().map(|cell| kernel.cell(cell)).collect::<Result<_>>()?;
        let said = kernel.told()?;
        ensure!(
            right(&said, &said, "plain").of == 6 && !said["plain"]["frame"].is_null(),
            "nothing to compare: {said}"
        );
        told.push(said);
        if cells_s.is_empty() {
            cells_s = took;
            for cell in &cells[DAMAGED - back..] {
                cells_s.push(kernel.cell(cell)?);
            }
            let damaged = kernel.told()?;
            let left = right(&told[0], &damaged, "plain").right + right(&told[0], &damaged, "hard").right;
            ensure!(left == 0, "the last cell did not damage everything: {damaged}");
        }
    }
    Ok(Alone { cells_s, told })
}

/// The day of one contender, and the way back.
fn day(contender: &mut dyn Contender, cells: &[String], alone: &Alone) -> Result<Day> {
    settle();
    let mut delays_s = Vec::new();
    for (cell, alone_s) in cells.iter().zip(&alone.cells_s) {
        delays_s.push(contender.cell(cell)? - alone_s);
    }
    let mut undos = Vec::new();
    let disk = contender.disk()?;
    for (back, expected) in BACK.iter().zip(&alone.told) {
        settle();
        let took_s = contender.back_to(DAMAGED - back)?;
        let said = contender.told()?;
        undos.push(Undo {
            took_s,
            plain: right(expected, &said, "plain"),
            hard: right(expected, &said, "hard"),
            steps: contender.steps(),
        });
    }
    Ok(Day { delays_s, disk, undos })
}

/// How many of the objects that said something then say the same.
fn right(expected: &Value, said: &Value, kind: &str) -> Right {
    let objects = expected[kind].as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let (of, right) = objects
        .fold((0, 0), |(of, right), (name, value)| (of + 1, right + usize::from(said[kind][name] == *value)));
    Right { right, of }
}

/// The faster way back, of those that brought all plain values back.
fn best(days: [&Day; 2], at: usize) -> f64 {
    let whole = days.iter().filter_map(|day| day.undos.get(at)).filter(|undo| undo.plain.wrong() == 0);
    whole.filter_map(|undo| undo.took_s).min_by(f64::total_cmp).unwrap_or(f64::NAN)
}

#[expect(clippy::cast_precision_loss, reason = "a few")]
fn count(number: usize) -> f64 {
    number as f64
}

impl Day {
    fn json(&self) -> Value {
        let undos = self.undos.iter().zip(BACK).map(|(undo, back)| {
            json!({
                "cells": back, "s": undo.took_s.map(round),
                "plain": [undo.plain.right, undo.plain.of], "hard": [undo.hard.right, undo.hard.of],
                "steps": undo.steps,
            })
        });
        json!({
            "delay_median_s": round(median(&self.delays_s)), "delay_of_95_in_100_s": round(ninety_five(&self.delays_s)),
            "disk_gb": round(gb(self.disk)), "undo": undos.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twenty_cells_of_the_size_that_was_asked_for() {
        let cells = cells(0.5);
        assert_eq!(cells.len(), DAMAGED);
        assert!(cells[0].contains("scale = 0.5"));
        assert!(cells.iter().all(|cell| !cell.contains("SCALE") && !cell.trim().is_empty()));
    }

    #[test]
    fn what_says_something_else_or_nothing_is_not_right() {
        let expected = json!({ "hard": { "a": 1, "b": [2], "later": null } });
        let said = json!({ "hard": { "a": 1, "b": null, "later": 3 } });
        assert_eq!(right(&expected, &said, "hard"), Right { right: 1, of: 2 });
    }

    #[test]
    fn a_way_back_to_something_else_is_not_the_faster_one() {
        let day = |took_s, right| Day {
            delays_s: Vec::new(),
            disk: 1,
            undos: vec![Undo {
                took_s,
                plain: Right { right, of: 6 },
                hard: Right { right: 0, of: 9 },
                steps: Value::Null,
            }],
        };
        let (slow, wrong, none) = (day(Some(2.0), 6), day(Some(0.1), 5), day(None, 6));
        assert!((best([&slow, &wrong], 0) - 2.0).abs() < 1e-9);
        assert!(best([&wrong, &none], 0).is_nan());
    }
}
