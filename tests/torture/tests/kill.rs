//! Kills workers at arbitrary instants and looks at what is left.
//!
//! A round: workers run on a store; one or both are killed with SIGKILL, some at a random time, most shortly after they
//! said that they begin a certain job, so that every kind of job is hit in all its stages. Then the store is opened, as
//! if nothing had happened, and must satisfy all of this:
//!
//! * it opens without any repair;
//! * a ref is what was acknowledged last or, if a change was under way, what it was about to become;
//! * every snapshot that a ref leads to reads back byte for byte as the model says;
//! * `verify` has nothing to complain about, not even litter; every twentieth time it reads all bytes;
//! * a new snapshot can be committed;
//! * the passphrase is the last acknowledged one and no older one; while a rotation was under way, the old or the new.
//!
//! `TORTURE_KILLS` sets how many kills to make in all four tests (160), `TORTURE_SEED` repeats a choice of kills as far as timing allows,
//! `TORTURE_DIR` says where the stores lie. What SIGKILL cannot show is in the crate's documentation.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy.toml allows these in #[test] functions only, not in their helpers"
)]

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use cas_core::crypto::{KdfCost, Keyring};
use cas_core::progress::Silent;
use cas_core::refs::{Expected, RefChange};
use cas_core::verify::Depth;
use cas_core::{Encryption, ObjectId, OpenOptions, Store, StoreError};
use torture::model::{Model, Rng};
use torture::say::{Job, Line};
use torture::snapshot::{self, Parent, Snapshots};
use torture::{FIRST_MODEL, passphrase};

/// A worker that runs, and what it has said.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The job that was begun and not acknowledged.
    job: Option<Job>,
    /// Whether that job is a gc that has come to copying and removing packs.
    repacking: bool,
    /// When it began.
    since: Instant,
    acknowledged: Vec<(Job, Option<ObjectId>)>,
}

impl Running {
    fn start(root: &Path, key: Option<u32>, seed: u64, role: &str, first: &str) -> Self {
        let key = key.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .arg(root)
            .args([&key, &seed.to_string(), role, first])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                if line.is_err() || send.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self {
            child,
            stdin,
            lines,
            job: None,
            repacking: false,
            since: Instant::now(),
            acknowledged: Vec::new(),
        }
    }

    /// Takes one line.
    fn listen(&mut self, until: Instant, durations: &mut Durations) -> Heard {
        let line = match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => return Heard::End,
        };
        match line.parse().unwrap() {
            Line::Failed(text) => panic!("a worker failed: {text}"),
            Line::Begin(Job::Repack) => {
                // A stage of the gc under way, not a job of its own.
                self.repacking = true;
                return Heard::Begun("repack");
            }
            Line::Begin(job) => {
                let word = job.word();
                self.job = Some(job);
                self.repacking = false;
                self.since = Instant::now();
                return Heard::Begun(word);
            }
            Line::Done(id) => {
                let job = self.job.take().unwrap();
                durations.add(job.word(), self.since.elapsed());
                self.acknowledged.push((job, id));
            }
        }
        Heard::Done
    }

    fn listen_until(&mut self, until: Instant, durations: &mut Durations) {
        while !matches!(self.listen(until, durations), Heard::Nothing | Heard::End) {}
    }

    /// Kills it and takes what it still had said. `true` if it was alive.
    fn kill(&mut self, durations: &mut Durations) -> bool {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        let far = Instant::now() + Duration::from_secs(10);
        self.listen_until(far, durations);
        !status.success()
    }

    /// Lets it finish its job.
    fn stop(&mut self, durations: &mut Durations) {
        drop(self.stdin.take());
        let far = Instant::now() + Duration::from_secs(60);
        self.listen_until(far, durations);
        assert!(self.child.wait().unwrap().success(), "a worker did not end well");
        assert_eq!(self.job, None, "a worker ended within a job");
    }
}

#[derive(PartialEq, Eq)]
enum Heard {
    Begun(&'static str),
    Done,
    Nothing,
    End,
}

/// How long jobs take, to know when to kill.
#[derive(Default)]
struct Durations(HashMap<&'static str, Duration>);

impl Durations {
    fn add(&mut self, word: &'static str, took: Duration) {
        let average = self.0.entry(word).or_insert(took);
        *average = (*average * 7 + took) / 8;
    }

    fn of(&self, word: &str) -> Duration {
        // A repack is about half of its gc.
        let word = if word == "repack" { "gc" } else { word };
        self.0.get(word).copied().unwrap_or(Duration::from_millis(30))
    }
}

/// A store under torture, and what it has promised.
struct Torture {
    directory: tempfile::TempDir,
    root: PathBuf,
    key: Option<u32>,
    rng: Rng,
    refs: BTreeMap<String, ObjectId>,
    models: HashMap<ObjectId, Model>,
    durations: Durations,
    round: u64,
    tally: Tally,
}

/// What has happened so far.
#[derive(Default)]
struct Tally {
    kills: BTreeMap<&'static str, u64>,
    acknowledged: BTreeMap<&'static str, u64>,
    /// Jobs that were cut short, and had come far enough to show.
    completed_unsaid: u64,
    snapshots_read: u64,
}

impl Tally {
    fn killed(&self, words: &[&str]) -> u64 {
        words.iter().filter_map(|word| self.kills.get(word)).sum()
    }

    fn all(&self) -> u64 {
        self.kills.values().sum()
    }
}

fn options(key: Option<u32>) -> OpenOptions {
    OpenOptions { unlock: key.map(passphrase), ..OpenOptions::default() }
}

impl Torture {
    fn new(encrypted: bool, seed: u64) -> Self {
        let base = std::env::var_os("TORTURE_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let directory = tempfile::tempdir_in(base).unwrap();
        let root = directory.path().join(".infinijup");
        let key = encrypted.then_some(1);
        let encryption = Encryption { unlocks: vec![passphrase(1)], cost: KdfCost::for_tests() };
        drop(Store::init(&root, encrypted.then_some(&encryption), OpenOptions::default()).unwrap());
        std::fs::create_dir(directory.path().join("exports")).unwrap();
        Self {
            directory,
            root,
            key,
            rng: Rng(seed),
            refs: BTreeMap::new(),
            models: HashMap::new(),
            durations: Durations::default(),
            round: 0,
            tally: Tally::default(),
        }
    }

    /// One worker does everything.
    fn round_alone(&mut self, targets: &[&'static str], rotations: u64) {
        // A rotation is over so soon that many kills come too late: try again until enough have hit one.
        let rare = targets.contains(&"rotate") && self.tally.killed(&["rotate"]) < rotations;
        let target = match targets[usize::try_from(self.rng.below(targets.len() as u64)).unwrap()] {
            _ if rare && self.rng.below(2) == 0 => "rotate",
            target => target,
        };
        // Some snapshots first, so that there is something to lose.
        let lead = usize::try_from(self.rng.below(4)).unwrap();
        let job = match target {
            "repack" => "gc",
            "open" => "any",
            other => other,
        };
        let jobs = format!("{}{job}", "write,".repeat(lead));
        let mut worker = Running::start(&self.root, self.key, self.rng.number(), "all", &jobs);
        if target == "any" {
            let until = Instant::now() + Duration::from_millis(1 + self.rng.below(400));
            worker.listen_until(until, &mut self.durations);
        } else {
            self.wait_for(&mut worker, target, if target == "write" { lead } else { 0 });
        }
        self.kill(&mut worker);
        self.take_over(&[&worker]);
        self.check(&[worker.job.take()]);
    }

    /// Waits until `target` begins, not counting the first `skip` times, and then for a part of the time that it takes.
    fn wait_for(&mut self, worker: &mut Running, target: &'static str, mut skip: usize) {
        // A gc with nothing to do never comes to repacking.
        let give_up = Instant::now() + Duration::from_millis(800);
        loop {
            match worker.listen(give_up, &mut self.durations) {
                Heard::Begun(word) if word == target && skip == 0 => break,
                Heard::Begun(word) if word == target => skip -= 1,
                Heard::Nothing => return,
                Heard::End => panic!("a worker ended by itself"),
                _ => {}
            }
        }
        let whole = u64::try_from(self.durations.of(target).as_micros()).unwrap();
        let part = Duration::from_micros(self.rng.below(whole.max(10)));
        worker.listen_until(Instant::now() + part, &mut self.durations);
    }

    /// A writer and a collector. One is killed; the other lives on for a while, and is then killed or let go.
    fn round_of_two(&mut self) {
        let mut writer = Running::start(&self.root, self.key, self.rng.number(), "writer", "any");
        let mut collector = Running::start(&self.root, self.key, self.rng.number(), "collector", "any");
        let run = Duration::from_millis(20 + self.rng.below(300));
        let mut durations = Durations::default();
        if self.rng.below(4) == 0 {
            std::thread::sleep(run);
        } else if self.rng.below(2) == 0 {
            let skip = usize::try_from(self.rng.below(4)).unwrap();
            self.wait_for(&mut writer, "write", skip);
        } else {
            let target = if self.rng.below(2) == 0 { "gc" } else { "repack" };
            self.wait_for(&mut collector, target, 0);
        }
        let (first, second) = if self.rng.below(2) == 0 {
            (&mut writer, &mut collector)
        } else {
            (&mut collector, &mut writer)
        };
        self.kill(first);
        second.listen_until(Instant::now() + run / 2, &mut durations);
        if self.rng.below(3) == 0 {
            second.stop(&mut durations);
        } else {
            self.kill(second);
        }
        self.take_over(&[&writer, &collector]);
        self.check(&[writer.job.take(), collector.job.take()]);
    }

    fn kill(&mut self, worker: &mut Running) {
        assert!(worker.kill(&mut self.durations), "a worker ended by itself, in round {}", self.round);
        let word = match worker.job.as_ref().map(Job::word) {
            Some("gc" | "erase") if worker.repacking => "repack",
            Some(word) => word,
            None => "between",
        };
        *self.tally.kills.entry(word).or_default() += 1;
    }

    /// Notes what was acknowledged.
    fn take_over(&mut self, workers: &[&Running]) {
        for (job, id) in workers.iter().flat_map(|worker| &worker.acknowledged) {
            *self.tally.acknowledged.entry(job.word()).or_default() += 1;
            match job {
                Job::Write { thread, tag, generation } => {
                    let id = id.unwrap();
                    self.models.insert(id, Model { generation: *generation, ..FIRST_MODEL });
                    self.refs.insert(thread.clone(), id);
                    self.refs.extend(tag.clone().map(|tag| (tag, id)));
                }
                Job::Delete { name } => {
                    self.refs.remove(name).unwrap();
                }
                Job::Rotate { to } => self.key = Some(*to),
                _ => {}
            }
        }
    }

    /// Looks at what is left.
    fn check(&mut self, under_way: &[Option<Job>]) {
        self.round += 1;
        self.check_passphrase(under_way);
        let store = Store::open(&self.root, options(self.key)).unwrap();
        for job in under_way.iter().flatten() {
            self.settle(&store, job);
        }
        let found: BTreeMap<String, ObjectId> =
            store.refs().list("").unwrap().into_iter().map(|(name, id)| (name, id.unwrap())).collect();
        assert_eq!(found, self.refs, "refs, after {under_way:?}");
        self.read_everything(&store);
        self.verify(&store, "after the kill");
        self.write_probe(&store);
        assert_eq!(store.recover().unwrap().files, 0, "the probe's session should have cleaned up");
    }

    /// A change of refs that was under way has happened, or not, or in part.
    fn settle(&mut self, store: &Store, job: &Job) {
        let get = |name: &str| store.refs().get(name).unwrap();
        match job {
            Job::Delete { name } => {
                let gone = get(name).is_none() && self.refs.remove(name).is_some();
                self.tally.completed_unsaid += u64::from(gone);
            }
            Job::Write { thread, tag, generation } => {
                let old = self.refs.get(thread).copied();
                let new = get(thread);
                if new == old {
                    return;
                }
                let new = new.unwrap();
                self.tally.completed_unsaid += 1;
                self.models.insert(new, Model { generation: *generation, ..FIRST_MODEL });
                self.refs.insert(thread.clone(), new);
                let keeps = snapshot::load(store, &new).unwrap().parent;
                assert_eq!(keeps, old, "the new snapshot of {thread} builds upon another one");
                // Changes are made in order: the tag may be missing, but is never there alone.
                if let Some((tag, id)) = tag.as_ref().and_then(|tag| Some((tag, get(tag)?))) {
                    assert_eq!(id, new);
                    self.refs.insert(tag.clone(), id);
                }
            }
            _ => {}
        }
    }

    fn check_passphrase(&mut self, under_way: &[Option<Job>]) {
        let Some(now) = self.key else { return };
        let opens = |key: u32| match Store::open(&self.root, options(Some(key))) {
            Ok(_) => true,
            Err(StoreError::WrongKey { .. }) => false,
            Err(error) => panic!("passphrase {key}: {error}"),
        };
        let rotating = under_way.iter().flatten().any(|job| matches!(job, Job::Rotate { .. }));
        if !rotating {
            assert!(opens(now), "the acknowledged passphrase {now} does not open");
            assert!(!opens(now - 1) || now == 1, "passphrase {} was rotated away and opens", now - 1);
            assert!(!opens(now + 1), "passphrase {} was never set", now + 1);
            return;
        }
        self.key = match (opens(now), opens(now + 1)) {
            (false, false) => panic!("neither passphrase {now} nor {} opens", now + 1),
            (true, false) => Some(now),
            (false, true) => Some(now + 1),
            // Between the two copies of the keyring. Whichever is used next becomes the only one.
            (true, true) => Some(now + u32::from(self.rng.below(2) == 0)),
        };
        self.tally.completed_unsaid += u64::from(self.key != Some(now));
    }

    /// Reads every snapshot that a ref leads to.
    fn read_everything(&mut self, store: &Store) {
        let mut todo: Vec<ObjectId> = self.refs.values().copied().collect();
        let mut done = Vec::new();
        while let Some(id) = todo.pop() {
            if done.contains(&id) {
                continue;
            }
            let model = self.models.get(&id).unwrap_or_else(|| panic!("nobody has written {id}"));
            let read = snapshot::read_back(store, &id, model);
            let snapshot = read.unwrap_or_else(|failure| panic!("{model:?}: {failure}"));
            self.tally.snapshots_read += 1;
            todo.extend(snapshot.parent);
            done.push(id);
        }
    }

    fn verify(&self, store: &Store, when: &str) {
        let depth = if self.round.is_multiple_of(20) { Depth::Bytes } else { Depth::Structure };
        let report = store.verify(&Snapshots, depth, &Silent).unwrap();
        assert!(report.is_clean(), "verify, {when}: {:#?}", report.problems);
    }

    /// Commits a snapshot of our own. It builds upon the newest one, and sometimes has the content of the worker's next.
    fn write_probe(&mut self, store: &Arc<Store>) {
        const NAME: &str = "threads/probe";
        let threads = self.refs.iter().filter(|(name, _)| name.starts_with("threads/t"));
        let newest = threads.map(|(_, id)| (self.models[id].generation, *id)).max();
        let (generation, parent) =
            newest.map_or((0, Parent::None), |(generation, id)| (generation, Parent::Share(id)));
        let model = Model { generation: generation + 1 + 7 * (self.round % 3), ..FIRST_MODEL };
        let expected = self.refs.get(NAME).map_or(Expected::Absent, |id| Expected::At(*id));
        let change = |id| vec![RefChange { name: NAME.to_owned(), expected, new: Some(id) }];
        let id = snapshot::write(store, model, parent, change).unwrap();
        self.models.insert(id, model);
        self.refs.insert(NAME.to_owned(), id);
        snapshot::read_back(store, &id, &model).unwrap();
    }

    /// Every export that was acknowledged, or has its name, is whole.
    fn check_exports(&self) {
        let other = Store::init(&self.directory.path().join("other"), None, OpenOptions::default()).unwrap();
        for entry in std::fs::read_dir(self.directory.path().join("exports")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let Some(id) = name.strip_prefix("export-") else { continue };
            let id: ObjectId = id.parse().unwrap();
            let session = other.write(&[]).unwrap();
            let mut file = std::fs::File::open(&path).unwrap();
            let moved = session.import(&path, &mut file, &Snapshots, &Silent).unwrap();
            session.commit(&[snapshot::set("threads/imported", moved.root)]).unwrap();
            snapshot::read_back(&other, &moved.root, &self.models[&id]).unwrap();
        }
    }

    /// After erasing gcs that nobody disturbs, the keyring holds no key that nothing is sealed under.
    fn check_keys(&self) {
        let store = Store::open(&self.root, options(self.key)).unwrap();
        let gc = cas_core::gc::GcOptions { erase: true, ..cas_core::gc::GcOptions::default() };
        // The second one forgets the key that the first one took for itself, if it had nothing to copy.
        store.gc(&Snapshots, &gc, &Silent).unwrap();
        store.gc(&Snapshots, &gc, &Silent).unwrap();
        let Some(key) = self.key else { return };
        let used: std::collections::BTreeSet<u32> =
            store.catalogue().packs().unwrap().iter().map(|pack| pack.epoch).collect();
        let path = self.root.join("keyring");
        let keyring = Keyring::open(&path, &std::fs::read(&path).unwrap(), &passphrase(key)).unwrap();
        let known: std::collections::BTreeSet<u32> = keyring.epochs().collect();
        assert!(known.is_superset(&used), "keys {known:?}, packs {used:?}");
        let unused: Vec<u32> = known.difference(&used).copied().collect();
        assert!(unused.is_empty(), "keys of packs that are gone: {unused:?}");
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// A sort of store and of workers, and its share of the kills.
struct Sort {
    name: &'static str,
    encrypted: bool,
    two: bool,
    percent: u64,
}

impl Sort {
    /// Kills workers until there were enough, and says what has happened.
    fn torture(&self) {
        const PLAIN: &[&str] = &[
            "write", "write", "write", "gc", "repack", "erase", "delete", "export", "verify", "open", "any",
            "any",
        ];
        const SEALED: &[&str] = &[
            "write", "write", "gc", "repack", "erase", "rotate", "rotate", "rotate", "delete", "any", "any",
        ];
        let wanted = number("TORTURE_KILLS", 160);
        let entropy = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = number("TORTURE_SEED", u64::from(entropy.subsec_nanos()));
        println!("TORTURE_SEED={seed} TORTURE_KILLS={wanted}");
        let started = Instant::now();
        let mut torture = Torture::new(self.encrypted, seed ^ self.percent);
        let part = (wanted * self.percent).div_ceil(100);
        let rotations = wanted.div_ceil(15);
        // Less than this would not have tested much.
        let enough = |tally: &Tally| {
            tally.all() >= part
                && tally.killed(&["write"]) >= part.div_ceil(5)
                && tally.killed(&["gc", "erase", "repack"]) >= part.div_ceil(5)
                && (!self.encrypted || self.two || tally.killed(&["rotate"]) >= rotations)
                && tally.acknowledged.get("write").is_some_and(|count| *count >= part)
                && tally.snapshots_read >= 5 * part
        };
        while !enough(&torture.tally) {
            let Tally { kills, acknowledged, .. } = &torture.tally;
            assert!(
                torture.round < 4 * part,
                "the kills come at the wrong times: {kills:?}, {acknowledged:?}"
            );
            if self.two {
                torture.round_of_two();
            } else {
                torture.round_alone(if self.encrypted { SEALED } else { PLAIN }, rotations);
            }
        }
        torture.check_exports();
        torture.check_keys();
        let tally = torture.tally;
        println!(
            "{}: {} rounds in {:.0?}\n  killed in: {:?}\n  acknowledged: {:?}\n  done but unsaid: {}, snapshots read: {}",
            self.name,
            torture.round,
            started.elapsed(),
            tally.kills,
            tally.acknowledged,
            tally.completed_unsaid,
            tally.snapshots_read
        );
    }
}

// Four tests, so that they run beside each other: most of the time goes by waiting for disks.

#[test]
fn one_worker_on_a_plain_store_is_killed_and_nothing_acknowledged_is_lost() {
    Sort { name: "plain, one worker", encrypted: false, two: false, percent: 27 }.torture();
}

#[test]
fn one_worker_on_an_encrypted_store_is_killed_and_nothing_acknowledged_is_lost() {
    Sort { name: "encrypted, one worker", encrypted: true, two: false, percent: 33 }.torture();
}

#[test]
fn writer_and_collector_on_a_plain_store_are_killed_and_nothing_acknowledged_is_lost() {
    Sort { name: "plain, writer and collector", encrypted: false, two: true, percent: 20 }.torture();
}

#[test]
fn writer_and_collector_on_an_encrypted_store_are_killed_and_nothing_acknowledged_is_lost() {
    Sort { name: "encrypted, writer and collector", encrypted: true, two: true, percent: 20 }.torture();
}
