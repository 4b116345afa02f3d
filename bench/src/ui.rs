//! `ui`: the History panel of a notebook with 2,000 snapshots, measured in the browser by the page's own clock.
//!
//! The snapshots are real ones of the notebook's kernel, taken through the daemon.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::live::{Browser, Daemon, User, able};
use crate::report::{Bar, Kind, Report};
use crate::run::Run;

/// Opens the panel, scrolls from top to bottom, then does nothing for ten seconds.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let snapshots: u32 = if run.smoke { 40 } else { 2000 };
    let user = User::make()?;
    let daemon = Daemon::start(&user)?;
    let mut page = Browser::start(&user, &daemon)?;
    let opened = page.ask(&json!({ "do": "open" }))?;
    let session = opened["session"].as_str().context("the notebook's kernel is not a session")?.to_owned();
    for number in 1..=snapshots {
        if number % 100 == 0 {
            run.say(&format!("ui: {number} of {snapshots} snapshots"));
        }
        let body = json!({ "label": format!("snapshot {number}"), "variables": false });
        daemon.job(&format!("/v1/sessions/{session}/snapshot"), &body)?;
    }
    let found = page.ask(&json!({ "do": "panel" }))?;
    let figure = |name: &str| found[name].as_f64().with_context(|| format!("no `{name}` from the page"));
    let requests = found["idle_requests"].as_array().context("no list of requests from the page")?;
    ensure!(
        figure("seen")? >= f64::from(snapshots),
        "the panel shows {} of {snapshots} snapshots",
        found["seen"]
    );
    Ok(Report {
        name: "ui",
        bars: vec![
            Bar::at_most(Kind::Speed, "panel opens", figure("open_ms")?, "ms", 1000.0),
            Bar::at_most(
                Kind::Speed,
                "longest task while scrolling",
                figure("longest_task_ms")?,
                "ms",
                100.0,
            ),
            Bar::at_most(
                Kind::Count,
                "requests of an idle panel in 10 s",
                f64::from(u32::try_from(requests.len())?),
                "requests",
                0.0,
            ),
        ],
        compared_with: found.clone(),
        sizes: json!({ "snapshots": snapshots }),
    })
}
