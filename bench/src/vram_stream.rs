//! `vram-stream`: a program with 4 GiB on a GPU, whose driver copies device memory past the program, is put to sleep, against the slower of
//! the two things that have to be done: the bytes over the link to the GPU, and the bytes into the store.
//!
//! The bytes are those of the made image of the store's own benchmarks. What they take over the link is a matter of the speed that the
//! stand-in was given; what they take into the store is measured in turn, with nobody else in between. Once with a link that is slower than
//! the store, once with one that is faster. Memory is what the program, the daemon and its helpers have more of than before, at most.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::image::Image;
use crate::live::gpu::{Gpus, Target};
use crate::live::{Daemon, Place, User, able};
use crate::measure::{MIB, gb, in_turns, median, ratio, settle, timed, worse};
use crate::ours::Store;
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

const PROGRAM: &str = include_str!("live/vram.py");
/// The first driver with custom storage.
const LEVEL: &str = "615";
/// Bytes a second of a link that is slower than the store is on a small machine.
const SLOW: u64 = 512 * MIB;
/// The same of one of today's.
const FAST: u64 = 25 << 30;
/// How often memory is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// What one of them took.
#[derive(Clone, Copy, Debug)]
struct Taken {
    seconds: f64,
    resume: f64,
    memory: u64,
}

/// Alternates our suspends over both links with the bare store.
pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let len = run.size_mib.unwrap_or(if run.smoke { 256 } else { 4096 }) * MIB;
    let image = Image::first(&run.images()?, len, run.seed)?;
    let bytes = fs::metadata(&image.path)?.len();
    let (mut slow, mut fast, mut store) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..run.rounds {
        let mut slow_turn = || {
            slow.push(sleep(&image.path, SLOW)?);
            Ok(())
        };
        let mut fast_turn = || {
            fast.push(sleep(&image.path, FAST)?);
            Ok(())
        };
        let mut store_turn = || {
            settle();
            store.push(Store::create(&run.work()?)?.ingest(&image, None)?.took.wall_s);
            Ok(())
        };
        in_turns(number, &mut [&mut slow_turn, &mut fast_turn, &mut store_turn])?;
        run.say(&format!("vram-stream: round {} of {} done", number + 1, run.rounds));
    }
    let store = median(&store);
    let over = |rounds: &[Taken], link: u64| {
        let ours = median(&rounds.iter().map(|taken| taken.seconds).collect::<Vec<_>>());
        ours / worse(gb(bytes) / gb(link), store)
    };
    let most = slow.iter().chain(&fast).map(|taken| taken.memory).max().unwrap_or(0);
    // A few buffers are all of a small one.
    let memory = if run.smoke { Kind::Speed } else { Kind::Count };
    let bar = "of the slower of link and store";
    Ok(Report {
        name: "vram-stream",
        bars: vec![
            Bar::at_most(memory, "memory", ratio(most, bytes), "of the VRAM", 0.25),
            Bar::at_most(Kind::Speed, "time, link of 0.5 GiB/s", over(&slow, SLOW), bar, 1.15),
            Bar::at_most(Kind::Speed, "time, link of 25 GiB/s", over(&fast, FAST), bar, 1.15),
        ],
        compared_with: json!({
            "store_s": round(store),
            "slow": { "link_s": round(gb(bytes) / gb(SLOW)), "rounds": all(&slow) },
            "fast": { "link_s": round(gb(bytes) / gb(FAST)), "rounds": all(&fast) },
        }),
        sizes: json!({ "vram_mib": bytes / MIB, "rounds": run.rounds }),
    })
}

fn all(rounds: &[Taken]) -> Vec<Value> {
    let one = |taken: &Taken| {
        json!({
            "suspend_s": round(taken.seconds),
            "resume_s": round(taken.resume),
            "memory_mib": taken.memory / MIB,
        })
    };
    rounds.iter().map(one).collect()
}

/// Puts a program with these bytes on its GPU to sleep, which takes them over the link once, and wakes it: it must have them still.
fn sleep(image: &Path, link: u64) -> Result<Taken> {
    let user = User::make()?;
    let gpus = Gpus::start_with(LEVEL, Some(link))?;
    let place = Place::of(&user, "vram")?;
    let program = place.dir.join("vram.py");
    fs::write(&program, PROGRAM)?;
    let bytes = place.dir.join("bytes");
    fs::copy(image, &bytes).context("cannot copy the image to where the user can read it")?;
    let mut command = Command::new("/usr/bin/python3");
    command.arg("-u").arg(&program).arg(&bytes).envs(gpus.env());
    let daemon = Daemon::start_with(&user, &gpus.env())?;
    let id = daemon.command("vram", &command)?;
    let target = Target::find(daemon.pid_of(&id)?, daemon.log_of(&id)?)?;
    let before = target.ask()?;
    settle();
    let over = AtomicBool::new(false);
    let pids = [target.pid(), daemon.pid()];
    let begun = memory_of(&pids);
    let (took, memory) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Acquire) {
                most = memory_of(&pids).max(most);
                std::thread::sleep(GLANCE);
            }
            most
        });
        let took = timed(|| daemon.job(&format!("/v1/sessions/{id}/suspend"), &json!({})).map(drop));
        over.store(true, Ordering::Release);
        (took, watcher.join().unwrap_or(u64::MAX))
    });
    let ((), took) = took?;
    let (target, resume) = timed(|| {
        daemon.job(&format!("/v1/sessions/{id}/resume"), &json!({}))?;
        let target = Target::find(daemon.pid_of(&id)?, daemon.log_of(&id)?)?;
        target.next_round()?;
        Ok(target)
    })?;
    ensure!(target.ask()?["hash"] == before["hash"], "the program has something else on its GPU than before");
    daemon.remove(&id)?;
    Ok(Taken { seconds: took.wall_s, resume: resume.wall_s, memory: memory.saturating_sub(begun) })
}

/// What these processes and all below them have in memory; what they only map from files is not theirs.
fn memory_of(pids: &[i32]) -> u64 {
    let mut todo = pids.to_vec();
    let mut bytes = 0;
    while let Some(pid) = todo.pop() {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let amount = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
        };
        bytes += amount("RssAnon:") + amount("RssShmem:");
        let children = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in children {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            todo.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
    }
    bytes
}
