//! `remote-scale`: does the index of a remote stay cheap when it has ten million objects?
//!
//! Counts, not times. The code is that of push and fetch: segments, `root` under a lease, merging, filters and the cache of tails. The server is
//! one of this process's own, because a request counts the same wherever it goes. What is measured at 10^7 says what it is at 10^8: an entry
//! passes through the same levels, and ids are looked for in more runs of the last one (docs/scale.md).

use std::fs;
use std::sync::Arc;

use anyhow::{Result, ensure};
use cas_core::{Kind, ObjectId, OpenOptions, Store};
use remote::{IndexEntry, Patience, Remote, ShortId, Token, View};
use serde_json::json;

use super::counted::{Counted, Traffic};
use super::files::Files;
use crate::report::{Bar, Kind as Sort, Report, round};
use crate::run::Run;

/// So many objects come in with one push: a gigabyte or so, by what objects take on average.
const PUSH: u64 = 2_000;
/// So many of them share a pack.
const PACK: u64 = 40;

/// Fills an index, and asks it.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let (objects, asked) = if run.smoke { (100_000, 2_000) } else { (10_000_000, 20_000) };
    let dir = run.work()?.join("remote-scale");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let server = Counted::new(Arc::new(Files::new(dir.join("bucket"))?));
    let store =
        |name: &str| Store::init(&dir.join(name), None, OpenOptions { threads: 1, ..OpenOptions::default() });
    let (writer, _) = Remote::introduce(server.clone(), store("writer")?, Patience::default())?;
    let (mut new, mut merged) = (0, 0);
    for first in (0..objects).step_by(usize::try_from(PUSH)?) {
        let written = writer.publish_entries((first..first + PUSH).map(entry).collect())?;
        new += written.new;
        merged += written.merged;
        if first % (objects / 10) < PUSH {
            run.say(&format!("remote-scale: {first} of {objects} objects"));
        }
    }
    let stat = writer.stat()?;

    // A client that has never been here.
    let empty = server.traffic();
    let reader = Remote::open(server.clone(), store("reader")?, Patience::default())?;
    let view = reader.view()?;
    let opening = server.traffic() - empty;
    let (first, _) = ask(&server, &view, &[objects / 2], true)?;
    let absent: Vec<u64> = (0..asked).map(|n| objects + n).collect();
    let (absent, _) = ask(&server, &view, &absent, false)?;
    let present: Vec<u64> = (0..asked / 4).map(|n| n.wrapping_mul(7_919_993) % objects).collect();
    let (present, worst) = ask(&server, &view, &present, true)?;

    // The same one on the next day.
    let before = server.traffic();
    let view = reader.view()?;
    let (again, _) = ask(&server, &view, &[objects + asked], false)?;
    let next_day = server.traffic() - before;
    fs::remove_dir_all(&dir)?;

    let share = |traffic: Traffic, of: u64| crate::measure::ratio(traffic.requests().max(1), of.max(1));
    Ok(Report {
        name: "remote-scale",
        bars: vec![
            Bar::at_most(
                Sort::Count,
                "transferred by opening",
                crate::measure::gb(opening.bytes_down) * 1e3,
                "MB",
                5.0,
            ),
            Bar::at_most(
                Sort::Count,
                "requests of a lookup of what is there, at most",
                count(worst),
                "requests",
                2.0,
            ),
            Bar::at_most(
                Sort::Count,
                "requests of a lookup of what is not there, filters included, on average",
                share(absent, asked),
                "requests",
                0.02,
            ),
            Bar::at_most(
                Sort::Count,
                "written by merging, of what came in",
                crate::measure::ratio(merged.max(1), new),
                "times",
                3.0,
            ),
        ],
        compared_with: json!({
            "opening": opening, "first_lookup_with_nothing_kept": first, "lookups_of_what_is_not_there": absent,
            "lookups_of_what_is_there": present, "present_mean": round(share(present, asked / 4)),
            "next_day_opening_and_lookup": next_day, "next_day_lookup": again,
            "segments_by_level": stat.segments, "index_mb": round(crate::measure::gb(stat.index_bytes) * 1e3),
        }),
        sizes: json!({ "objects": objects, "objects_of_a_push": PUSH, "lookups": asked }),
    })
}

/// Looks for objects, one at a time. Returns the traffic, and the requests of the one that took most.
fn ask(server: &Counted, view: &View, numbers: &[u64], there: bool) -> Result<(Traffic, u64)> {
    let begin = server.traffic();
    let mut worst = 0;
    for number in numbers {
        let before = server.traffic();
        let found = view.find(&[id(*number)])?;
        ensure!(found.len() == usize::from(there), "object {number}: found {}, there {there}", found.len());
        worst = worst.max((server.traffic() - before).requests());
    }
    Ok((server.traffic() - begin, worst))
}

fn id(number: u64) -> ObjectId {
    ObjectId::from_bytes(*blake3::hash(&number.to_le_bytes()).as_bytes())
}

fn entry(number: u64) -> IndexEntry {
    let mut pack = [0; 16];
    pack.copy_from_slice(&blake3::hash(format!("pack {}", number / PACK).as_bytes()).as_bytes()[..16]);
    IndexEntry {
        id: ShortId::of(&id(number)),
        pack: Token::from_bytes(pack),
        offset: u32::try_from(number % PACK).unwrap_or(0) * 400_000,
        stored: 400_000,
        kind: Kind::PAGES,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of requests")]
fn count(requests: u64) -> f64 {
    requests as f64
}
