//! `store-scale`: does the catalogue stay as fast and as small when it grows?

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::catalogue::{self, CatalogueCost};
use crate::measure::worse;
use crate::report::{Bar, Kind, Report};
use crate::run::Run;

/// Measures each size in a process of its own, so that its peak memory is its own.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let sizes: [u64; 3] = if run.smoke { [1_000, 10_000, 100_000] } else { [100_000, 1_000_000, 10_000_000] };
    let mut costs = Vec::new();
    for objects in sizes {
        let cost = in_child(run, objects)?;
        run.say(&format!("{cost:?}"));
        costs.push(cost);
    }
    let growth = |of: fn(&CatalogueCost) -> f64| {
        costs.windows(2).map(|pair| of(&pair[1]) / of(&pair[0])).fold(0.0, worse)
    };
    let peak = costs.iter().map(|cost| cost.peak_bytes).max().unwrap_or(u64::MAX);
    let commits = if run.smoke { 200 } else { 10_000 };
    let plan_s = catalogue::gc_plan(&run.work()?, commits)?;
    Ok(Report {
        name: "store-scale",
        bars: vec![
            Bar::at_most(
                Kind::Speed,
                "lookup, growth at ten times the objects",
                growth(|cost| cost.lookup_s),
                "times",
                1.5,
            ),
            Bar::at_most(
                Kind::Speed,
                "insert, growth at ten times the objects",
                growth(|cost| cost.insert_s),
                "times",
                1.5,
            ),
            Bar::at_most(Kind::Count, "peak memory", crate::measure::gb(peak) * 1e3, "MB", 300.0),
            Bar::at_most(Kind::Speed, "plan of a collection", plan_s, "s", 10.0),
        ],
        compared_with: json!({ "catalogues": costs }),
        sizes: json!({ "objects": sizes, "commits": commits }),
    })
}

fn in_child(run: &Run, objects: u64) -> Result<CatalogueCost> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--catalogue-child", &objects.to_string(), "--dir"])
        .arg(&run.dir)
        .output()
        .context("cannot start a process for the catalogue")?;
    if !output.status.success() {
        bail!(
            "the catalogue of {objects} objects failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("the catalogue's process did not answer with JSON")
}
