//! `demo`: from an empty home to the first undo in the browser, as an ordinary user does it, by the clock.
//!
//! The installation is that of `install`. Then `infinijup demo` is started, its notebook is opened in a browser, and what it says is done up to the
//! first undo; each step fails unless it shows what the notebook promises. A person would read meanwhile.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::installation::{Steps, Wheels, install};
use crate::live::{Browser, LAB, User, able};
use crate::report::{Bar, Kind, Report};
use crate::run::Run;

/// Seconds, without the download.
const BAR_S: f64 = 180.0;

/// Installs, starts the demo, undoes a cell.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let wheels = Wheels::given()?;
    let user = User::make()?;
    let mut steps = Steps::of("demo", run);
    // `install` has shown already that the wheels can be installed; once is enough where nothing is published.
    let (venv, download) = match run.smoke {
        true => (LAB.into(), None),
        false => install(&mut steps, &user, &wheels).map(|(venv, download)| (venv, Some(download)))?,
    };
    // Programs that are not optimised on a machine that does other things: there would be no snapshot at all.
    let pause_ms = run.smoke.then_some(3000);
    let mut page = steps.act("a browser", || Browser::of_demo(&user, &venv))?;
    let started =
        steps.act("infinijup demo", || page.ask(&json!({ "do": "start", "pause_ms": pause_ms })))?;
    ensure!(started["known"] == false, "the notebook was there already: {started}");
    let undone = steps.act("to the first undo", || page.ask(&json!({ "do": "first_undo" })))?;
    let snapshots = undone["commits"].as_u64().context("no snapshots were counted")?;
    Ok(Report {
        name: "demo",
        bars: vec![Bar::at_most(Kind::Speed, "from nothing to a first undo", steps.total(), "s", BAR_S)],
        compared_with: json!({ "steps": steps.json(), "download": download, "snapshots": snapshots }),
        sizes: json!({ "wheels": wheels.sizes()? }),
    })
}
