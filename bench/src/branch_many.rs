//! `branch-many`: when the first and when the last of sixteen branches of one kernel answer, and what memory they take that is not shared.
//!
//! A branch is asked as soon as the daemon says that it runs, not when the whole request is done: otherwise all of them would seem to answer at
//! the same moment. Memory is what the kernel of the machine calls the proportional share of each process (Pss), after every branch has read
//! all of its arrays: what two of them share counts half for each.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;

use crate::live::{Client, Daemon, User, able, connection, fill};
use crate::measure::{MIB, median, ratio, settle};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// How long until all of them run.
const PATIENCE: Duration = Duration::from_secs(600);
const READ_ALL: &str = "read = float(noise.sum() + wave.sum())";

/// Branches, asks and looks at their memory.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let mib = run.size_mib.unwrap_or(if run.smoke { 64 } else { 1024 });
    let count = if run.smoke { 3 } else { 16 };
    let user = User::make()?;
    let daemon = Daemon::start(&user)?;
    let (id, file) = daemon.kernel("original")?;
    Client::start()?.ask(&file, &fill(mib), "answer")?;
    let taken = daemon.job(&format!("/v1/sessions/{id}/snapshot"), &json!({}))?;
    let commit = taken["commit"].as_str().context("a snapshot without a commit")?.to_owned();
    let (mut firsts, mut lasts, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..run.rounds {
        run.say(&format!("branch-many: round {} of {}", number + 1, run.rounds));
        let mut clients = (0..count).map(|_| Client::start()).collect::<Result<Vec<_>>>()?;
        settle();
        let mut answered = branches(&daemon, &id, &commit, &mut clients)?;
        answered.sort_by(|one, other| one.after_s.total_cmp(&other.after_s));
        firsts.push(answered[0].after_s);
        lasts.push(answered[count - 1].after_s);
        let mut bytes = 0;
        for (branch, client) in answered.iter().zip(&mut clients) {
            client.ask(&branch.file, READ_ALL, "read")?;
            bytes += pss_of_tree(daemon.pid_of(&branch.id)?)?;
        }
        shares.push(ratio(bytes, u64::try_from(count)? * mib * MIB));
        for branch in answered {
            daemon.remove(&branch.id)?;
        }
    }
    // Small kernels are mostly interpreter.
    let memory_bar = if run.smoke { 1.0 } else { 0.15 };
    let all = |values: &[f64]| values.iter().map(|value| round(*value)).collect::<Vec<_>>();
    Ok(Report {
        name: "branch-many",
        bars: vec![
            Bar::at_most(
                Kind::Speed,
                "last first answer",
                median(&lasts) / median(&firsts),
                "of the first",
                2.0,
            ),
            Bar::at_most(
                Kind::Speed,
                "memory that is not shared",
                median(&shares),
                "of all branches",
                memory_bar,
            ),
        ],
        compared_with: json!({ "first_s": all(&firsts), "last_s": all(&lasts), "memory": all(&shares) }),
        sizes: json!({ "kernel_mib": mib, "branches": count, "rounds": run.rounds }),
    })
}

/// A branch that has answered.
struct Answered {
    id: String,
    file: PathBuf,
    /// Seconds since the request for all of them.
    after_s: f64,
}

/// Makes a branch for each client, and lets it ask as soon as the branch runs.
fn branches(daemon: &Daemon, id: &str, commit: &str, clients: &mut [Client]) -> Result<Vec<Answered>> {
    let known: BTreeSet<String> = running(daemon)?.into_iter().map(|(id, _)| id).collect();
    let request = json!({ "from": commit, "count": clients.len() });
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let job = scope.spawn(move || daemon.job(&format!("/v1/sessions/{id}/branch"), &request));
        let mut idle = clients.iter_mut();
        let (mut seen, mut asked) = (known, Vec::new());
        while idle.len() > 0 {
            ensure!(begun.elapsed() < PATIENCE, "{} branches do not run", idle.len());
            let is_done = job.is_finished();
            let there = running(daemon)?;
            ensure!(
                !is_done || there.iter().any(|(id, _)| !seen.contains(id)),
                "it is said to be done, and {} branches do not run",
                idle.len()
            );
            for (id, file) in there {
                if !seen.insert(id.clone()) {
                    continue;
                }
                let client = idle.next().context("more branches than were asked for")?;
                asked.push(scope.spawn(move || {
                    let answer = client.ask(&file, "answer += 1", "answer")?;
                    ensure!(answer == "42", "a branch with another memory: {answer}");
                    Ok(Answered { id, file, after_s: begun.elapsed().as_secs_f64() })
                }));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        job.join().map_err(|_| anyhow!("the request panicked"))??;
        asked.into_iter().map(|one| one.join().map_err(|_| anyhow!("a client panicked"))?).collect()
    })
}

/// The sessions that run, with their connection files.
fn running(daemon: &Daemon) -> Result<Vec<(String, PathBuf)>> {
    let all = daemon.call("GET", "/v1/sessions", None)?;
    let all = all["sessions"].as_array().context("no list of sessions")?;
    all.iter().filter(|session| session["state"] == "running").map(connection).collect()
}

/// Proportional bytes of a process and all below it.
fn pss_of_tree(pid: i32) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .with_context(|| format!("process {pid} does not tell of its memory"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).context("no Pss")?;
    let mut bytes = line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        for child in fs::read_to_string(thread?.path().join("children"))?.split_whitespace() {
            bytes += pss_of_tree(child.parse()?)?;
        }
    }
    Ok(bytes)
}
