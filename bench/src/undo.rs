//! `undo`: how long until a kernel that goes back to its newest snapshot, over one cell, answers again: with a standby, and without.
//!
//! One kernel serves both: its daemon is stopped and started anew for each turn. The state that is left is kept in an automatic snapshot
//! each time, and is durable before it is ended, with a standby as without.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::live::{Client, Daemon, User, able, fill};
use crate::measure::{median, settle, timed};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// How long a standby may take to be there.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the undos of one sort have come to.
#[derive(Default)]
struct Undos {
    /// Seconds from the request to the first answer.
    wall_s: Vec<f64>,
    /// Of these, what each step of the daemon's took.
    steps_s: BTreeMap<String, Vec<f64>>,
    /// What the whole request took.
    request_s: Vec<f64>,
}

impl Undos {
    fn told(&self) -> Value {
        let steps: serde_json::Map<String, Value> =
            self.steps_s.iter().map(|(name, took)| (name.clone(), round(median(took)).into())).collect();
        json!({
            "first_answer_s": round(median(&self.wall_s)), "request_s": round(median(&self.request_s)), "steps_s": steps,
            "rounds": self.wall_s.iter().map(|wall| round(*wall)).collect::<Vec<_>>(),
        })
    }
}

/// Alternates undos by a standby with undos by an ordinary restore.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let mib = run.size_mib.unwrap_or(if run.smoke { 64 } else { 600 });
    let user = User::make()?;
    let mut daemon = Daemon::start(&user)?;
    let (id, file) = daemon.kernel("undo")?;
    let mut client = Client::start()?;
    client.ask(&file, &fill(mib), "answer")?;
    let (mut with, mut without) = (Undos::default(), Undos::default());
    for number in 0..run.rounds {
        run.say(&format!("undo, {mib} MiB: round {} of {}", number + 1, run.rounds));
        let mut order = ["on", "off"];
        order.rotate_left(number % 2);
        for standby in order {
            daemon.restart_with(&user, &[("INFINIJUP_STANDBY", standby.into())])?;
            let session = format!("/v1/sessions/{id}");
            let taken = daemon.job(&format!("{session}/snapshot"), &json!({}))?;
            if standby == "on" {
                wait_for_standby(&daemon, &session)?;
            }
            client.ask(&file, "noise[:1_000_000] += 1.0; answer = 0", "answer")?;
            settle();
            let to = json!({ "to": taken["commit"] });
            let mut outcome = Value::Null;
            let mut request_s = 0.0;
            let (answer, took) = timed(|| {
                let (answered, request) = timed(|| daemon.job(&format!("{session}/rollback"), &to))?;
                (outcome, request_s) = (answered, request.wall_s);
                client.ask(&file, "answer += 0", "answer")
            })?;
            ensure!(answer == "41", "the kernel went back to another memory: {answer}");
            let steps = outcome["steps"].as_array().context("no steps")?;
            let laid_out = steps.iter().any(|step| step["name"] == "lay out images");
            ensure!(laid_out == (standby == "off"), "it went back another way than asked: {outcome}");
            let undos = if standby == "on" { &mut with } else { &mut without };
            undos.wall_s.push(took.wall_s);
            undos.request_s.push(request_s);
            for step in steps {
                let name = step["name"].as_str().context("a step without a name")?;
                let micros = step["micros"].as_f64().context("a step without a time")?;
                undos.steps_s.entry(name.to_owned()).or_default().push(micros / 1e6);
            }
        }
    }
    Ok(Report {
        name: "undo",
        bars: vec![
            Bar::at_most(Kind::Speed, "with a standby", median(&with.wall_s), "s", 0.1),
            Bar::at_most(Kind::Speed, "without", median(&without.wall_s), "s", 0.4),
        ],
        compared_with: json!({ "standby": with.told(), "ordinary": without.told() }),
        sizes: json!({ "kernel_mib": mib, "written_mb": 8, "rounds": run.rounds }),
    })
}

fn wait_for_standby(daemon: &Daemon, session: &str) -> Result<()> {
    let begun = Instant::now();
    while daemon.call("GET", session, None)?["standby_bytes"].is_null() {
        ensure!(begun.elapsed() < PATIENCE, "nothing stands by: is there room for it?");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
