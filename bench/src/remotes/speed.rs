//! `remote`: how quickly fresh data goes to an object store and comes back, against a client that does nothing but put and get.
//!
//! Both are processes of their own and talk to the same server in turns, with parts of the same length and as many under way. Ours walks, asks
//! the index, makes packs, publishes them and moves a ref; on the way back it walks, compares every byte with its id and makes it durable.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use cas_core::blob::{Item, List};
use cas_core::progress::Silent;
use cas_core::reach::NoReferences;
use cas_core::refs::{Expected, RefChange};
use cas_core::{Kind, ObjectId, OpenOptions, Store};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectStoreExt};
use remote::{Address, FetchOptions, Patience, Pushed, Remote};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::in_child;
use super::server::{KEYS, Server, bucket};
use crate::measure::{in_turns, median, mib, peak_memory, ratio_of_rounds, settle};
use crate::report::{Bar, Kind as Sort, Report, round};
use crate::rng::Rng;
use crate::run::Run;

/// An object of the store: bytes that do not compress.
const OBJECT: u64 = 256 << 10;
/// What push puts at a time, and how many of them: see `push.rs` of the remote.
const UP: (u64, usize) = (16 << 20, 4);
/// The same for fetch, see `read.rs`.
const DOWN: (u64, usize) = (8 << 20, 8);
const THREAD: &str = "threads/bench";

/// What a process shall do.
#[derive(Serialize, Deserialize)]
struct Told {
    task: Task,
    endpoint: String,
    address: String,
    store: PathBuf,
    prefix: String,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Task {
    Push,
    Pull,
    BarePut,
    BareGet,
}

/// What it did.
#[derive(Serialize, Deserialize)]
struct Said {
    seconds: f64,
    peak_bytes: u64,
}

/// Pushes and pulls in turns.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let bytes = run.size_mib.map_or(if run.smoke { 64 << 20 } else { 2 << 30 }, |mib| mib << 20);
    let dir = run.work()?.join("remote");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let (mut times, mut peak): ([Vec<f64>; 4], u64) = (Default::default(), 0);
    for number in 0..run.rounds {
        run.say(&format!("remote: round {} of {}", number + 1, run.rounds));
        // A new server for each round: what one round left behind is no burden for the next.
        let server = Server::start(&dir)?;
        let (from, to) = (dir.join("from"), dir.join("to"));
        fill(&from, bytes, run.seed + number as u64)?;
        Store::init(&to, None, OpenOptions::default())?;
        let mut one = |task: Task| -> Result<()> {
            settle();
            let store = if task == Task::Pull { &to } else { &from };
            let told = Told {
                task,
                endpoint: server.endpoint(),
                address: server.address("ours"),
                store: store.clone(),
                prefix: "bare".to_owned(),
                bytes,
            };
            let said: Said = in_child("--transfer-child", &KEYS, &told)?;
            times[task as usize].push(said.seconds);
            if matches!(task, Task::Push | Task::Pull) {
                peak = peak.max(said.peak_bytes);
            }
            Ok(())
        };
        let one = std::cell::RefCell::new(&mut one);
        in_turns(
            number,
            &mut [&mut || (one.borrow_mut())(Task::Push), &mut || (one.borrow_mut())(Task::BarePut)],
        )?;
        in_turns(
            number,
            &mut [&mut || (one.borrow_mut())(Task::Pull), &mut || (one.borrow_mut())(Task::BareGet)],
        )?;
        drop(server);
        fs::remove_dir_all(&from)?;
        fs::remove_dir_all(&to)?;
    }
    let [push, pull, put, get] = &times;
    let speed = |rounds: &[f64]| round(mib(bytes) / median(rounds));
    Ok(Report {
        name: "remote",
        bars: vec![
            Bar::at_least(
                Sort::Speed,
                "push, share of the bare client",
                ratio_of_rounds(put, push),
                "share",
                0.85,
            ),
            Bar::at_least(
                Sort::Speed,
                "pull, share of the bare client",
                ratio_of_rounds(get, pull),
                "share",
                0.85,
            ),
            Bar::at_most(
                Sort::Count,
                "peak memory of push and pull",
                crate::measure::gb(peak) * 1e3,
                "MB",
                400.0,
            ),
        ],
        compared_with: json!({
            "push_mib_per_s": speed(push), "bare_put_mib_per_s": speed(put),
            "pull_mib_per_s": speed(pull), "bare_get_mib_per_s": speed(get),
        }),
        sizes: json!({ "mib": mib(bytes), "rounds": run.rounds, "up": UP, "down": DOWN }),
    })
}

/// A store with so many bytes that nobody has seen before, and a thread that leads to them.
fn fill(dir: &Path, bytes: u64, seed: u64) -> Result<()> {
    let store = Store::init(dir, None, OpenOptions::default())?;
    let transaction = store.write(&[])?;
    let mut rng = Rng::of(&[seed, 0x5e4d]);
    let mut items = Vec::new();
    for _ in 0..bytes / OBJECT {
        let content: Vec<u8> = (0..OBJECT / 8).flat_map(|_| rng.next().to_le_bytes()).collect();
        items.push(Item { id: transaction.put(Kind::CHUNK, content)?, len: OBJECT });
    }
    let list = transaction.put(Kind::CHUNK_LIST, List { level: 0, items }.encode())?;
    transaction.commit(&[RefChange {
        name: THREAD.to_owned(),
        expected: Expected::Absent,
        new: Some(list),
    }])?;
    Ok(())
}

/// The process: does what it is told and returns what it says.
pub(crate) fn transfer_as_told(mut told: impl Read) -> Result<String> {
    let mut text = String::new();
    told.read_to_string(&mut text)?;
    let told: Told = serde_json::from_str(&text).context("nobody said what to do")?;
    let begun = Instant::now();
    match told.task {
        Task::Push => push(&told)?,
        Task::Pull => pull(&told)?,
        Task::BarePut => bare(&told, true)?,
        Task::BareGet => bare(&told, false)?,
    }
    let said = Said { seconds: begun.elapsed().as_secs_f64(), peak_bytes: peak_memory()? };
    Ok(serde_json::to_string(&said)?)
}

fn push(told: &Told) -> Result<()> {
    let store = Store::open(&told.store, OpenOptions::default())?;
    let target: ObjectId = store.refs().get(THREAD)?.context("the store has no thread")?;
    let objects = Arc::new(Address::parse(&told.address)?.open()?);
    let (remote, _) = Remote::introduce(objects, store, Patience::default())?;
    let pushed = Pushed { name: THREAD.to_owned(), target, seen: None, force: false };
    let report = remote.push(&[pushed], &NoReferences, false, &Silent)?;
    ensure!(report.bytes >= told.bytes, "{} bytes were sent of {}", report.bytes, told.bytes);
    Ok(())
}

fn pull(told: &Told) -> Result<()> {
    let store = Store::open(&told.store, OpenOptions::default())?;
    let objects = Arc::new(Address::parse(&told.address)?.open()?);
    let remote = Remote::open(objects, store, Patience::default())?;
    let options = FetchOptions { tracking: "remotes/origin".to_owned(), ..FetchOptions::default() };
    let report = remote.fetch(&options, &NoReferences, &Silent)?;
    ensure!(report.bytes >= told.bytes, "{} bytes came of {}", report.bytes, told.bytes);
    Ok(())
}

/// As many bytes by put and get alone. They are made once, and not looked at.
fn bare(told: &Told, up: bool) -> Result<()> {
    // Opened for what it does beside: it chooses the TLS of this process.
    drop(Address::parse(&told.address)?.open()?);
    let client = AmazonS3Builder::from_env()
        .with_endpoint(&told.endpoint)
        .with_bucket_name(bucket())
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut rng = Rng::of(&[0xba4e]);
    let part: Vec<u8> = (0..UP.0 / 8).flat_map(|_| rng.next().to_le_bytes()).collect();
    let (length, in_flight) = if up { UP } else { DOWN };
    let (next, parts) = (AtomicU64::new(0), told.bytes.div_ceil(length));
    std::thread::scope(|scope| {
        let worker = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= parts {
                    return Ok(());
                }
                if up {
                    let key = Key::from(format!("{}/{number}", told.prefix));
                    runtime.block_on(client.put(&key, part.clone().into()))?;
                } else {
                    let start = number * length;
                    let key = Key::from(format!("{}/{}", told.prefix, start / UP.0));
                    let range = start % UP.0..start % UP.0 + length;
                    let got = runtime.block_on(client.get_range(&key, range))?;
                    ensure!(got.len() as u64 == length, "{} bytes came of {length}", got.len());
                }
            }
        };
        let workers: Vec<_> = (0..in_flight).map(|_| scope.spawn(worker)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<()>>| match worker.join() {
            Ok(done) => done,
            Err(_) => Err(anyhow::anyhow!("a thread of the bare client panicked")),
        };
        workers.into_iter().try_for_each(join)
    })
}
