//! `fleet`: many writers commit one checkpoint at the same time.
//!
//! Each member of a job pushes its own state under a thread of its own: what all members share is there already, and what is its own is small. When
//! every thread has moved, a tag is put that leads to all of them. Members are threads of one process that share connections, and each
//! has a remote of its own with everything that a push does. What counts is what the shared objects of a remote cost: `root` above all.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use cas_core::blob::{Item, List};
use cas_core::progress::Silent;
use cas_core::reach::NoReferences;
use cas_core::{Kind, ObjectId, OpenOptions, Store};
use remote::{Address, Depth, Objects, Patience, Pushed, Remote};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::counted::{Counted, Traffic};
use super::in_child;
use super::server::{KEYS, Server};
use crate::measure::{gb, median};
use crate::report::{Bar, Kind as Sort, Report, round};
use crate::rng::Rng;
use crate::run::Run;

/// What all members have, and what each has alone.
const SHARED: (usize, usize) = (8, 64 << 10);
const OWN: usize = 16 << 10;
/// A member whose push fails tries again so often.
const TRIES: usize = 5;

/// What the process of the members is told.
#[derive(Serialize, Deserialize)]
struct Told {
    address: String,
    store: PathBuf,
    members: usize,
}

/// What it says.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Said {
    members: usize,
    /// Until the last member's ref had moved.
    last_thread_s: f64,
    /// Until the tag was there that leads to all.
    last_ref_s: f64,
    /// When half of the members were done.
    median_s: f64,
    requests_mean: f64,
    requests_median: f64,
    /// Of one that led: it reads the leases of all.
    requests_worst: u64,
    /// Conditional puts that were refused.
    conflicts: u64,
    root_changes: u64,
    /// Pushes that failed and were made again.
    failed: u64,
    mb_down: f64,
    mb_up: f64,
    segments: usize,
}

/// Commits a checkpoint with more and more members.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let sizes: &[usize] = if run.smoke { &[4, 16] } else { &[16, 128, 2048] };
    let dir = run.work()?.join("fleet");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let server = Server::start(&dir)?;
    let mut fleets: Vec<Said> = Vec::new();
    for members in sizes {
        let store = dir.join(format!("store-{members}"));
        let told = Told { address: server.address(&format!("of-{members}")), store, members: *members };
        let said = in_child("--members-child", &KEYS, &told)?;
        run.say(&format!("fleet: {said:?}"));
        fleets.push(said);
    }
    drop(server);
    fs::remove_dir_all(&dir)?;
    let last = fleets.last().context("there is no fleet")?;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let failed = fleets.iter().map(|fleet| fleet.failed).sum::<u64>() as f64;
    let changes = crate::measure::ratio(last.root_changes, last.members as u64);
    Ok(Report {
        name: "fleet",
        bars: vec![
            Bar::at_most(
                Sort::Count,
                "requests of a member of the largest fleet, on average",
                last.requests_mean,
                "requests",
                40.0,
            ),
            Bar::at_most(
                Sort::Count,
                "changes of root for each member of the largest fleet",
                changes,
                "changes",
                0.5,
            ),
            Bar::at_most(Sort::Count, "pushes that had to be made again", failed, "pushes", 0.0),
        ],
        compared_with: json!({ "fleets": fleets }),
        sizes: json!({ "members": sizes, "shared_bytes": SHARED.0 * SHARED.1, "own_bytes": OWN }),
    })
}

/// The process: commits one checkpoint and returns what it says.
pub(crate) fn members_as_told(mut told: impl Read) -> Result<String> {
    let mut text = String::new();
    told.read_to_string(&mut text)?;
    let told: Told = serde_json::from_str(&text).context("nobody said what to do")?;
    let store = Store::init(&told.store, None, OpenOptions::default())?;
    let states = states(&store, told.members)?;
    let server: Arc<dyn Objects> = Arc::new(Address::parse(&told.address)?.open()?);
    let (first, _) = Remote::introduce(server.clone(), store.clone(), Patience::default())?;
    push(&first, "tags/shared", states.shared)?;

    let (start, done) = (Barrier::new(told.members + 1), Mutex::new(Vec::new()));
    let begun = std::thread::scope(|scope| {
        for (rank, state) in states.members.iter().enumerate() {
            let (server, store, start, done) = (&server, &store, &start, &done);
            scope.spawn(move || {
                start.wait();
                let begun = Instant::now();
                let counted = Counted::new(server.clone());
                let mut tries = 0;
                let outcome = loop {
                    let pushed = Remote::open(counted.clone(), store.clone(), Patience::default())
                        .map_err(Into::into)
                        .and_then(|remote| push(&remote, &thread(rank), *state));
                    tries += 1;
                    if pushed.is_ok() || tries == TRIES {
                        break pushed;
                    }
                };
                let member = (outcome, tries, begun.elapsed().as_secs_f64(), counted.traffic());
                done.lock().unwrap_or_else(PoisonError::into_inner).push(member);
            });
        }
        start.wait();
        Instant::now()
    });
    let last_thread_s = begun.elapsed().as_secs_f64();
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    push(&first, "tags/checkpoint", states.all)?;
    let last_ref_s = begun.elapsed().as_secs_f64();

    let mut traffic: Vec<Traffic> = Vec::new();
    let (mut times, mut failed) = (Vec::new(), 0);
    for (outcome, tries, seconds, of_member) in done {
        outcome?;
        failed += tries as u64 - 1;
        times.push(seconds);
        traffic.push(of_member);
    }
    check(&first, &states, told.members)?;
    let sum = |of: fn(&Traffic) -> u64| traffic.iter().map(of).sum::<u64>();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let mean = sum(Traffic::requests) as f64 / told.members as f64;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let requests: Vec<f64> = traffic.iter().map(|traffic| traffic.requests() as f64).collect();
    let said = Said {
        members: told.members,
        last_thread_s: round(last_thread_s),
        last_ref_s: round(last_ref_s),
        median_s: round(median(&times)),
        requests_mean: round(mean),
        requests_median: round(median(&requests)),
        requests_worst: traffic.iter().map(Traffic::requests).max().unwrap_or(0),
        conflicts: sum(|traffic| traffic.refused),
        root_changes: sum(|traffic| traffic.roots),
        failed,
        mb_down: round(gb(sum(|traffic| traffic.bytes_down)) * 1e3),
        mb_up: round(gb(sum(|traffic| traffic.bytes_up)) * 1e3),
        segments: first.stat()?.segments.values().sum(),
    };
    Ok(serde_json::to_string(&said)?)
}

/// That every thread is where it should be, and everything that it leads to is there.
fn check(remote: &Remote, states: &States, members: usize) -> Result<()> {
    for (rank, state) in states.members.iter().enumerate().step_by((members / 16).max(1)) {
        ensure!(remote.get_ref(&thread(rank))? == Some(*state), "member {rank} is not where it should be");
    }
    let report = remote.verify(Depth::Presence, &NoReferences, &Silent)?;
    ensure!(report.faults.is_empty(), "{}", report.faults.join("; "));
    ensure!(report.refs == members as u64 + 2, "{} refs of {members} members", report.refs);
    Ok(())
}

fn thread(rank: usize) -> String {
    format!("threads/rank-{rank:04}")
}

fn push(remote: &Remote, name: &str, target: ObjectId) -> Result<()> {
    let pushed = Pushed { name: name.to_owned(), target, seen: None, force: false };
    let report = remote.push(&[pushed], &NoReferences, false, &Silent)?;
    ensure!(report.moved == [name], "{name} did not move");
    Ok(())
}

struct States {
    shared: ObjectId,
    members: Vec<ObjectId>,
    all: ObjectId,
}

/// What the members are going to push.
fn states(store: &Arc<Store>, members: usize) -> Result<States> {
    let transaction = store.write(&[])?;
    let mut rng = Rng::of(&[0xf1ee7]);
    let mut chunk = |length: usize| -> Result<Item> {
        let content: Vec<u8> = (0..length / 8).flat_map(|_| rng.next().to_le_bytes()).collect();
        Ok(Item { id: transaction.put(Kind::CHUNK, content)?, len: length as u64 })
    };
    let shared: Vec<Item> = (0..SHARED.0).map(|_| chunk(SHARED.1)).collect::<Result<_>>()?;
    let own: Vec<Item> = (0..members).map(|_| chunk(OWN)).collect::<Result<_>>()?;
    let list = |level, items: Vec<Item>| transaction.put(Kind::CHUNK_LIST, List { level, items }.encode());
    let length = (SHARED.0 * SHARED.1 + OWN) as u64;
    let members: Vec<ObjectId> = own
        .into_iter()
        .map(|own| list(0, shared.iter().cloned().chain([own]).collect()))
        .collect::<Result<_, _>>()?;
    let all = list(1, members.iter().map(|id| Item { id: *id, len: length }).collect())?;
    let shared = list(0, shared)?;
    transaction.commit(&[])?;
    Ok(States { shared, members, all })
}
