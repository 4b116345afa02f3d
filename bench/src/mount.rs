//! `mount`: how quickly a file of a snapshot is read through the folder of `infinijup mount`, against the store's own reader.
//!
//! One large file in a store, half of it noise and half of it text. In turns it is read from the store, chunk by chunk, and through a new mount,
//! whose file system the kernel has nothing of in its cache. The store's own files are in the page cache for both.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use cas_core::blob::Blob;
use cas_core::progress::Silent;
use cas_core::refs::{Expected, RefChange};
use cas_core::{OpenOptions, Store, Trust};
use manifest::snapshot::{WorkspacePolicy, WorkspaceSection};
use manifest::{
    Author, Commit, CommitReason, Entry, Extra, FileName, ManifestObject, Node, Snapshot, Thread, Tree,
    TypedSection, stored,
};
use serde_json::json;

use crate::measure::{median, mib, settle};
use crate::report::{Bar, Kind, Report, round};
use crate::rng::Rng;
use crate::run::Run;

/// How much a program reads at a time.
const PIECE: usize = 1 << 20;
/// The file's name in the snapshot.
const NAME: &str = "large.bin";

/// Reads the file both ways.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let bytes: u64 = if run.smoke { 16 << 20 } else { 1 << 30 };
    let work = run.work()?.join("mount");
    // Of a run that was stopped.
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    let at = work.join("past");
    fs::create_dir_all(&at)?;
    let options = || OpenOptions { trust: Trust::Identity, ..OpenOptions::default() };
    let store = Store::init(&work.join("store"), None, options())?;
    let blob = fill(&store, bytes, run.seed)?;
    let (mut ours, mut mounted) = (Vec::new(), Vec::new());
    for number in 0..run.rounds {
        run.say(&format!("mount: round {} of {}", number + 1, run.rounds));
        settle();
        let begun = Instant::now();
        store.read_blob(&blob, &mut io::sink(), &Silent)?;
        ours.push(begun.elapsed().as_secs_f64());
        mounted.push(through_mount(&store, &at, bytes)?);
    }
    drop(store);
    fs::remove_dir_all(&work)?;
    let (ours, mounted) = (median(&ours), median(&mounted));
    Ok(Report {
        name: "mount",
        bars: vec![Bar::at_least(
            Kind::Speed,
            "read through the folder, share of the store's own reader",
            ours / mounted,
            "share",
            0.7,
        )],
        compared_with: json!({
            "store_s": round(ours), "store_mib_per_s": round(mib(bytes) / ours),
            "mount_s": round(mounted), "mount_mib_per_s": round(mib(bytes) / mounted),
        }),
        sizes: json!({ "file_mib": mib(bytes), "rounds": run.rounds }),
    })
}

/// How long it takes to read the file through a mount that nobody has used yet, in seconds.
fn through_mount(store: &Arc<Store>, at: &Path, bytes: u64) -> Result<f64> {
    // Whatever cannot be read fails the read, too.
    let complain = Box::new(|_: &past::PastError| ());
    let mounted = past::mount(Arc::clone(store), at, complain).context("needs fusermount3 and /dev/fuse")?;
    let read = || -> Result<f64> {
        let mut file = File::open(at.join("tags/bench/workspace").join(NAME))?;
        let (mut piece, mut total) = (vec![0; PIECE], 0);
        let begun = Instant::now();
        loop {
            match file.read(&mut piece)? {
                0 => break,
                count => total += count as u64,
            }
        }
        let took = begun.elapsed().as_secs_f64();
        ensure!(total == bytes, "{total} bytes were read of {bytes}");
        Ok(took)
    };
    let took = read();
    mounted.unmount()?;
    took
}

/// A snapshot with one file, and a tag that leads to it.
fn fill(store: &Arc<Store>, bytes: u64, seed: u64) -> Result<Blob> {
    let transaction = store.write(&[])?;
    let mut content = Content { rng: Rng::of(&[seed, 0xf05e]), left: bytes };
    let blob = transaction.put_blob(&mut content, &Silent)?;
    let node = Node::File { size: bytes, content: Some(blob.into()) };
    let mut entry = Entry::new(FileName::new(NAME)?, node);
    entry.mode = 0o644;
    let tree = stored::save(&Tree::new(vec![entry])?, &transaction)?;
    let section = WorkspaceSection {
        policy: WorkspacePolicy::Tree,
        root: "/work".into(),
        tree: Some((tree, bytes)),
        not_captured: Vec::new(),
        open: None,
    };
    let snapshot = stored::save(&Snapshot::new(vec![section.to_section()?])?, &transaction)?;
    let commit = Commit {
        snapshot,
        parents: Vec::new(),
        thread: Thread::new("bench")?,
        author: Author { name: "bench".into(), uid: 0, host: "bench".into(), extra: Extra::default() },
        time: "2026-11-17T12:00:00Z".parse()?,
        order: None,
        message: String::new(),
        label: None,
        reason: CommitReason::Manual,
        tags: [].into(),
        tool: "bench".into(),
        session: None,
        cell: None,
        figures: None,
        has_notebook: false,
        has_variables: false,
        extra: Extra::default(),
    };
    let id = commit.save(&stored::ToTransaction(&transaction))?;
    let name = "tags/bench".to_owned();
    transaction.commit(&[RefChange { name, expected: Expected::Absent, new: Some(id) }])?;
    Ok(blob)
}

/// Noise and text by turns.
struct Content {
    rng: Rng,
    left: u64,
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(4096).min(usize::try_from(self.left).unwrap_or(4096));
        let text = (self.left / (64 << 10)).is_multiple_of(2);
        for chunk in buffer.iter_mut().take(count).collect::<Vec<_>>().chunks_mut(8) {
            let word = self.rng.next();
            let word = if text { 0x2020_2020_2020_2030 | (word & 0x0f) } else { word };
            chunk.iter_mut().zip(word.to_le_bytes()).for_each(|(to, byte)| **to = byte);
        }
        self.left -= count as u64;
        Ok(count)
    }
}
