//! `branch`: how long until the last of eight branches of a kernel has answered its first cell.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;

use crate::live::{BareBox, Client, Daemon, Place, User, able, connection, fill};
use crate::measure::{cores, in_turns, median, ratio_of_rounds, settle, timed};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// Alternates our branches with as many bare restores of the same images, as many at a time as there are cores.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let (mib, count) = if run.smoke { (64, 2) } else { (1024, 8) };
    let user = User::make()?;
    let daemon = Daemon::start(&user)?;
    let (id, file) = daemon.kernel("branch")?;
    let mut original = BareBox::new(&user, "o")?;
    original.launch_kernel()?;
    Client::start()?.ask(&file, &fill(mib), "answer")?;
    Client::start_in(&original)?.ask(&original.connection_file(), &fill(mib), "answer")?;
    let place = Place::of(&user, "images")?;
    let images = place.dir.join("images");
    original.dump(&images, true)?;
    let taken = daemon.job(&format!("/v1/sessions/{id}/snapshot"), &json!({}))?;
    let commit = taken["commit"].as_str().context("a snapshot without a commit")?.to_owned();
    let mut clients = (0..count).map(|_| Client::start()).collect::<Result<Vec<_>>>()?;

    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for number in 0..run.rounds {
        run.say(&format!("branch: round {} of {}", number + 1, run.rounds));
        let mut our_turn = || {
            settle();
            ours.push(branches(&daemon, &id, &commit, &mut clients)?);
            Ok(())
        };
        let mut bare_turn = || {
            settle();
            bare.push(restores(&user, &original, &images, count)?);
            Ok(())
        };
        in_turns(number, &mut [&mut our_turn, &mut bare_turn])?;
    }
    fs::remove_dir_all(&images)?;
    let ratio = ratio_of_rounds(&ours, &bare);
    let all = |values: &[f64]| values.iter().map(|value| round(*value)).collect::<Vec<_>>();
    Ok(Report {
        name: "branch",
        bars: vec![Bar::at_most(
            Kind::Speed,
            "time to the last first answer",
            ratio,
            "of as many bare restores",
            1.25,
        )],
        compared_with: json!({ "ours_s": round(median(&ours)), "bare_s": round(median(&bare)),
            "rounds": { "ours": all(&ours), "bare": all(&bare) } }),
        sizes: json!({ "kernel_mib": mib, "branches": count, "rounds": run.rounds }),
    })
}

/// Seconds for our branches, which are removed again.
fn branches(daemon: &Daemon, id: &str, commit: &str, clients: &mut [Client]) -> Result<f64> {
    let request = json!({ "from": commit, "count": clients.len() });
    let (made, took) = timed(|| {
        let result = daemon.job(&format!("/v1/sessions/{id}/branch"), &request)?;
        let outcomes = result["branches"].as_array().context("no branches")?;
        let made =
            outcomes.iter().map(|outcome| connection(&outcome["session"])).collect::<Result<Vec<_>>>()?;
        ensure!(made.len() == clients.len(), "asked for {} branches, got {}", clients.len(), made.len());
        answers(clients, &made.iter().map(|branch| branch.1.clone()).collect::<Vec<_>>())?;
        Ok(made)
    })?;
    for (branch, _) in made {
        daemon.remove(&branch)?;
    }
    Ok(took.wall_s)
}

/// Waits until each kernel has answered.
fn answers(clients: &mut [Client], files: &[PathBuf]) -> Result<()> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = clients
            .iter_mut()
            .zip(files)
            .map(|(client, file)| scope.spawn(move || client.ask(file, "answer += 1", "answer")))
            .collect();
        for one in asked {
            let answer = one.join().map_err(|_| anyhow!("a client panicked"))??;
            ensure!(answer == "42", "a branch with another memory: {answer}");
        }
        Ok(())
    })
}

/// Seconds for bare restores. Boxes and clients are ready before.
fn restores(user: &User, original: &BareBox, images: &Path, count: usize) -> Result<f64> {
    let mut boxes = Vec::new();
    for number in 0..count {
        let bare = BareBox::new(user, &format!("b{number}"))?;
        original.share(user, &bare)?;
        let client = Client::start_in(&bare)?;
        boxes.push((bare, client));
    }
    let queue = Mutex::new(boxes.iter_mut());
    let ((), took) = timed(|| {
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..cores()).map(|_| scope.spawn(|| work(&queue, images))).collect();
            for worker in workers {
                worker.join().map_err(|_| anyhow!("a worker panicked"))??;
            }
            Ok(())
        })
    })?;
    Ok(took.wall_s)
}

/// Restores one box after the other until none is left.
fn work(queue: &Mutex<std::slice::IterMut<'_, (BareBox, Client)>>, images: &Path) -> Result<()> {
    loop {
        let next = queue.lock().map_err(|_| anyhow!("another worker panicked"))?.next();
        let Some((bare, client)) = next else { return Ok(()) };
        bare.restore(images)?;
        let answer = client.ask(&bare.connection_file(), "answer += 1", "answer")?;
        ensure!(answer == "42", "a bare branch with another memory: {answer}");
    }
}
