//! `swap`: how long a person waits for a kernel that goes back.
//!
//! Ours is measured in the page: from the click that says yes to the restore until the restored kernel has answered the page. That
//! includes the automatic snapshot of what would be lost. Bare is `kill` and `criu restore` of an equal kernel until a client that
//! connects then has its first answer.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::live::{BareBox, Browser, Client, Daemon, Place, User, able, fill};
use crate::measure::{in_turns, median, ratio_of_rounds, settle, timed};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// Rounds: a person's wait is short, so it must be measured more often than what takes minutes.
const ROUNDS: usize = 15;

/// Alternates our restore by click with a bare kill and restore.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let (mib, rounds) = if run.smoke { (20, 2) } else { (60, ROUNDS.max(run.rounds)) };
    let user = User::make()?;
    let daemon = Daemon::start(&user)?;
    let mut page = Browser::start(&user, &daemon)?;
    let opened = page.ask(&json!({ "do": "open" }))?;
    ensure!(opened["session"].is_string(), "the notebook's kernel is not a session: {opened}");
    page.ask(&json!({ "do": "run", "code": fill(mib) }))?;
    let taken = page.ask(&json!({ "do": "snapshot", "label": "here" }))?;
    let commit = taken["commit"].as_str().context("a snapshot without a commit")?.to_owned();

    let mut bare = BareBox::new(&user, "w")?;
    bare.launch_kernel()?;
    let mut client = Client::start_in(&bare)?;
    let file = bare.connection_file();
    client.ask(&file, &fill(mib), "answer")?;
    let place = Place::of(&user, "images")?;
    let images = place.dir.join("images");
    bare.dump(&images, true)?;

    let (mut gaps, mut told, mut bares, mut bare_restores) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for number in 0..rounds {
        run.say(&format!("swap: round {} of {rounds}", number + 1));
        let mut our_turn = || {
            page.ask(&json!({ "do": "run", "code": "answer = 0" }))?;
            settle();
            let times = page.ask(&json!({ "do": "restore", "commit": commit }))?;
            gaps.push(times["gap_ms"].as_f64().context("no time from the page")?);
            told.push(times["told_ms"].as_f64().context("no time from the page")?);
            let answer = page.ask(&json!({ "do": "run", "code": "print(answer)" }))?;
            ensure!(answer["output"] == "41", "the kernel went back to something else: {answer}");
            Ok(())
        };
        let mut bare_turn = || {
            settle();
            let ((), ended) = timed(|| {
                bare.empty()?;
                bare.restore(&images)
            })?;
            let (answer, first) = timed(|| client.ask(&file, "answer += 1", "answer"))?;
            ensure!(answer == "42", "the bare kernel went back to something else: {answer}");
            bare_restores.push(ended.wall_s * 1e3);
            bares.push((ended.wall_s + first.wall_s) * 1e3);
            Ok(())
        };
        in_turns(number, &mut [&mut our_turn, &mut bare_turn])?;
    }
    let all = |values: &[f64]| values.iter().map(|value| round(*value)).collect::<Vec<_>>();
    Ok(Report {
        name: "swap",
        bars: vec![
            Bar::at_most(Kind::Speed, "click to answer", median(&gaps), "ms", 500.0),
            Bar::at_most(
                Kind::Speed,
                "of bare kill and restore",
                ratio_of_rounds(&gaps, &bares),
                "ratio",
                2.0,
            ),
        ],
        compared_with: json!({
            "told_ms": round(median(&told)), "bare_to_first_answer_ms": round(median(&bares)),
            "bare_kill_and_restore_ms": round(median(&bare_restores)),
            "rounds": { "ours": all(&gaps), "bare": all(&bares) },
        }),
        sizes: json!({ "arrays_mib": mib, "rounds": rounds }),
    })
}
