//! Works on a store until it is killed, and says what it does.
//!
//! `worker ROOT PASSPHRASE SEED ROLE FIRST`: the number of the passphrase, or `-` for a store without encryption; what
//! kinds of work to choose from (`all`, `writer`, `collector`); and the jobs to begin with, with commas, or `any`. It ends by itself,
//! after the job at hand, when its standard input ends.

use std::io::{Read, Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cas_core::archive::Follow;
use cas_core::crypto::KdfCost;
use cas_core::gc::GcOptions;
use cas_core::progress::{Progress, Silent, Task};
use cas_core::refs::{Expected, RefChange};
use cas_core::verify::Depth;
use cas_core::{Class, Encryption, ObjectId, OpenOptions, Store, StoreError};
use torture::model::{Model, Rng};
use torture::say::{Job, Line};
use torture::snapshot::{self, KIND, Parent, Snapshots};
use torture::{FIRST_MODEL, passphrase};

/// Snapshots that a thread keeps before another is begun.
const DEPTH: u64 = 3;
/// Threads and tags that there may be before one is deleted.
const REFS: usize = 6;

fn main() {
    if let Err(error) = work() {
        let _ = say(&Line::Failed(format!("{error:#}")));
    }
}

fn work() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, key, seed, role, first] = &arguments[..] else { bail!("five arguments are needed") };
    let stop = stop_with_stdin();
    say(&Line::Begin(Job::Open))?;
    let unlock = if key == "-" { None } else { Some(key.parse()?) };
    let options = OpenOptions { unlock: unlock.map(passphrase), ..OpenOptions::default() };
    let store = Store::open(Path::new(root), options)?;
    say(&Line::Done(None))?;
    let rng = Rng(seed.parse()?);
    let mut worker = Worker { store, root: PathBuf::from(root), key: unlock, rng };
    let mut given = first.split(',').filter(|word| *word != "any");
    while !stop.load(Ordering::Relaxed) {
        let word = match given.next() {
            Some(word) => word,
            None => worker.choose(role)?,
        };
        worker.run(word).with_context(|| word.to_owned())?;
    }
    Ok(())
}

fn stop_with_stdin() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::Relaxed);
    });
    stop
}

/// One line, in one write.
fn say(line: &Line) -> std::io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    out.flush()
}

/// Says when gc begins to copy and remove packs.
struct SayRepack;

impl Progress for SayRepack {
    fn begin(&self, task: Task, _: Option<u64>) {
        if task == Task::Repack {
            let _ = say(&Line::Begin(Job::Repack));
        }
    }
    fn advance(&self, _: Task, _: u64) {}
    fn end(&self, _: Task) {}
}

struct Worker {
    store: Arc<Store>,
    root: PathBuf,
    key: Option<u32>,
    rng: Rng,
}

/// The newest snapshot of a thread.
struct Head {
    name: String,
    id: ObjectId,
    model: Model,
}

impl Worker {
    fn choose(&mut self, role: &str) -> Result<&'static str> {
        let words: &[&str] = match role {
            "all" => {
                &["write", "write", "write", "delete", "gc", "gc", "erase", "rotate", "export", "verify"]
            }
            "writer" => &["write", "write", "write", "delete", "export"],
            "collector" => &["gc", "gc", "erase", "verify"],
            other => bail!("there is no role `{other}`"),
        };
        let index = usize::try_from(self.rng.below(words.len() as u64))?;
        Ok(words[index])
    }

    fn run(&mut self, word: &str) -> Result<()> {
        match word {
            "write" => self.write(),
            "delete" => self.delete(),
            "gc" => self.gc(Job::Gc, false),
            "erase" => self.gc(Job::Erase, true),
            "rotate" => self.rotate(),
            "export" => self.export(),
            "verify" => self.verify(),
            other => bail!("there is no job `{other}`"),
        }
    }

    /// The threads that workers write to, oldest first.
    fn heads(&self) -> Result<Vec<Head>> {
        let mut heads = Vec::new();
        for (name, id) in self.store.refs().list("threads/t")? {
            let id = id?;
            heads.push(Head { name, id, model: snapshot::load(&self.store, &id)?.model });
        }
        heads.sort_by_key(|head| head.model.generation);
        Ok(heads)
    }

    fn write(&mut self) -> Result<()> {
        let heads = self.heads()?;
        if heads.len() + self.store.refs().list("tags/")?.len() > REFS {
            self.delete()?;
        }
        let last = heads.last();
        let model = last.map_or(FIRST_MODEL, |head| head.model.later(1));
        let generation = model.generation;
        // A thread is named after its first generation, so that its length can be seen.
        let going_on = last.filter(|head| {
            let first: u64 = head.name.trim_start_matches("threads/t").parse().unwrap_or(0);
            generation < first + DEPTH
        });
        let (thread, parent, expected) = match (going_on, last) {
            (Some(head), _) => (head.name.clone(), Parent::Keep(head.id), Expected::At(head.id)),
            (None, Some(last)) => {
                (format!("threads/t{generation:06}"), Parent::Share(last.id), Expected::Absent)
            }
            (None, None) => (format!("threads/t{generation:06}"), Parent::None, Expected::Absent),
        };
        let tag = (self.rng.below(4) == 0).then(|| format!("tags/g{generation:06}"));
        say(&Line::Begin(Job::Write { thread: thread.clone(), tag: tag.clone(), generation }))?;
        let id = snapshot::write(&self.store, model, parent, |id| {
            let mut changes = vec![RefChange { name: thread, expected, new: Some(id) }];
            changes.extend(tag.map(|name| RefChange { name, expected: Expected::Absent, new: Some(id) }));
            changes
        })?;
        Ok(say(&Line::Done(Some(id)))?)
    }

    /// Deletes the oldest thread or tag. The newest thread stays: the next snapshot builds upon it.
    fn delete(&mut self) -> Result<()> {
        let refs = self.store.refs();
        let tags: Vec<String> = refs.list("tags/")?.into_iter().map(|(name, _)| name).collect();
        let heads = self.heads()?;
        let oldest = heads.first().filter(|_| heads.len() > 1).map(|head| head.name.clone());
        let name = if tags.len() > 2 || oldest.is_none() { tags.first().cloned() } else { oldest };
        let Some(name) = name else { return Ok(()) };
        say(&Line::Begin(Job::Delete { name: name.clone() }))?;
        let found = refs.get(&name)?.context("a ref went away")?;
        refs.update(&[RefChange { name, expected: Expected::At(found), new: None }])?;
        Ok(say(&Line::Done(None))?)
    }

    fn gc(&mut self, job: Job, erase: bool) -> Result<()> {
        say(&Line::Begin(job))?;
        let options = GcOptions { repack_below_percent: 97, erase, patience: Duration::from_secs(20) };
        let report = self.store.gc(&Snapshots, &options, &SayRepack)?;
        ensure!(report.plan.unreadable.is_empty(), "gc cannot read: {:?}", report.plan.unreadable);
        ensure!(report.damaged.is_empty(), "gc found damage: {:?}", report.damaged);
        Ok(say(&Line::Done(None))?)
    }

    fn rotate(&mut self) -> Result<()> {
        let Some(now) = self.key else { return Ok(()) };
        let to = now + 1;
        say(&Line::Begin(Job::Rotate { to }))?;
        self.store.rotate_keys(&Encryption { unlocks: vec![passphrase(to)], cost: KdfCost::for_tests() })?;
        self.key = Some(to);
        Ok(say(&Line::Done(None))?)
    }

    /// The file gets its name when it is whole and durable.
    fn export(&mut self) -> Result<()> {
        let Some(head) = self.heads()?.pop() else { return Ok(()) };
        let file = format!("export-{}", head.id);
        say(&Line::Begin(Job::Export { file: file.clone() }))?;
        let directory = self.root.with_file_name("exports");
        let temporary = directory.join("unfinished");
        let mut out = std::fs::File::create(&temporary)?;
        let moved = self.store.export(&head.id, Follow::Strong, &Snapshots, &mut out, &Silent)?;
        ensure!(moved.kind == KIND, "an export is about kind {}", moved.kind.0);
        out.sync_all()?;
        std::fs::rename(&temporary, directory.join(file))?;
        Ok(say(&Line::Done(None))?)
    }

    fn verify(&mut self) -> Result<()> {
        say(&Line::Begin(Job::Verify))?;
        // Beside a collector, a pack may go away between being listed and being looked at.
        match self.store.verify(&Snapshots, Depth::Structure, &Silent) {
            Ok(_) => {}
            Err(StoreError::Bug { detail }) => bail!("verify: {detail}"),
            Err(error) if error.class() == Class::Corruption => bail!("verify: {error}"),
            Err(error) => return Err(error.into()),
        }
        Ok(say(&Line::Done(None))?)
    }
}
