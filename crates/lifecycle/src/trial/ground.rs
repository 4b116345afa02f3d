//! Where a story is told: a state directory, a machine, and the look at both when it is over.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use api::{
    FilePolicy, GpuWish, ResumeRequest, RollbackRequest, SessionState, SessionView, SnapshotRequest, Start,
    StartRequest, StopRequest,
};
use session_record::Record;

use super::gpu::{FakeGpu, State};
use super::machine::{FakeBox, FakeCriu, Machine, NoDoctor, is_stopped, number_in};
use crate::config::Config;
use crate::engine::Engine;
use crate::error::Result;
use crate::ports::Ports;
use crate::recover::Recovery;
use crate::steps::{NoWatch, Steps};
use crate::timeline::HistoryRequest;

/// What a session runs.
const COMMAND: [&str; 2] = ["sleep", "1000"];
/// The session's file.
const FILE: &str = "file";

pub(super) struct Ground {
    home: PathBuf,
    /// Removed at the end, by the one who made it.
    _own: Option<tempfile::TempDir>,
    machine: Machine,
    /// Whether its sessions have a GPU.
    with_gpu: bool,
}

impl Drop for Ground {
    fn drop(&mut self) {
        if self._own.is_some() {
            self.machine.clear();
        }
    }
}

impl Ground {
    /// A new one. In memory where there is such a place: hundreds are made, and each waits for the disk many times.
    pub(super) fn new(with_gpu: bool) -> Self {
        let shm = Path::new("/dev/shm");
        let own = tempfile::tempdir_in(shm).or_else(|_| tempfile::tempdir()).unwrap();
        let home = own.path().to_owned();
        fs::create_dir(home.join("work")).unwrap();
        Self { machine: Machine::at(&home), home, _own: Some(own), with_gpu }
    }

    /// One that another process has made.
    pub(super) fn at(home: PathBuf, with_gpu: bool) -> Self {
        Self { machine: Machine::at(&home), home, _own: None, with_gpu }
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    pub(super) fn told_file(&self) -> PathBuf {
        self.home.join("told")
    }

    /// What the daemon passed.
    pub(super) fn told(&self) -> Vec<String> {
        let text = fs::read_to_string(self.told_file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A daemon comes.
    pub(super) fn open(&self) -> (Engine, Recovery) {
        let config =
            Config { reserve_bytes: 0, ..Config::new(self.home.join("state"), self.home.join("run")) };
        let machine = self.machine.clone();
        let ports = Ports {
            checkpointer: std::sync::Arc::new(FakeCriu(machine.clone())),
            own_box: std::sync::Arc::new(FakeBox(machine.clone())),
            host_tree: std::sync::Arc::new(FakeBox(machine.clone())),
            container: std::sync::Arc::new(FakeBox(machine.clone())),
            gpu: std::sync::Arc::new(FakeGpu(machine)),
            doctor: std::sync::Arc::new(NoDoctor),
        };
        Engine::open(config, |_| Ok(ports)).unwrap()
    }

    pub(super) fn command() -> Start {
        Start::Command { argv: COMMAND.map(Into::into).into() }
    }

    /// Starts a session whose workspace lies beside the state directory.
    pub(super) fn start(&self, engine: &Engine, name: &str) -> Result<SessionView> {
        let work = engine.inner.place.state.parent().unwrap().join("work");
        let request = StartRequest {
            name: Some(name.to_owned()),
            files: FilePolicy::tree(Some(1 << 20)),
            gpus: if self.with_gpu { GpuWish::All } else { GpuWish::None },
            ..StartRequest::command(COMMAND, work)
        };
        engine.start(request, &NoWatch)
    }

    /// The session `s`, with a snapshot that is tagged `first`, and with what it has done since.
    pub(super) fn session_with_a_past(&self, engine: &Engine) {
        let id = self.start(engine, "s").unwrap().id;
        self.lives_on(&id, 1, "one");
        let request = SnapshotRequest { tag: Some("first".to_owned()), ..SnapshotRequest::default() };
        engine.snapshot("s", &request, &NoWatch).unwrap();
        self.lives_on(&id, 2, "two");
    }

    fn lives_on(&self, id: &str, number: u8, text: &str) {
        self.machine.compute(id, number);
        fs::write(self.home.join("work").join(FILE), text).unwrap();
    }

    /// A new daemon comes, and everything is as one of `allowed` says; nothing is left over, no number of `kept` is lost, and life goes on.
    pub(super) fn check(&self, kept: &[u8], allowed: &[&str]) {
        let (engine, recovery) = self.open();
        assert!(recovery.troubles.is_empty(), "{recovery:?}");
        assert!(!self.machine.is_worked_on(), "a worker was not waited for: {recovery:?}");
        let found = self.state(&engine);
        assert!(allowed.contains(&found.as_str()), "`{found}` is none of {allowed:?}: {recovery:?}");
        self.nothing_is_left_over(&engine);
        let numbers = self.numbers(&engine);
        assert!(kept.iter().all(|kept| numbers.contains(kept)), "only {numbers:?} is left: {recovery:?}");
        self.life_goes_on(&engine);
        drop(engine);
        let (_, again) = self.open();
        assert!(again.finished.is_empty() && again.troubles.is_empty(), "once more: {again:?}");
    }

    /// All sessions in words.
    fn state(&self, engine: &Engine) -> String {
        let mut records: Vec<Record> = engine.records().values().cloned().collect();
        records.sort_by(|one, other| one.name.cmp(&other.name));
        let words = records.iter().map(|record| {
            let processes = self.machine.of(record.id.as_str());
            let number = match (record.state, &processes[..]) {
                (SessionState::Running, [(process, number)]) => {
                    assert_eq!(record.init, Some(*process), "another process than the record says");
                    assert!(!is_stopped(*process), "it was left standing still");
                    let on_gpu = self.with_gpu.then_some((State::Running, *number));
                    assert_eq!(self.machine.on_gpu(*process), on_gpu, "its work on the GPU");
                    Some(*number)
                }
                (SessionState::Running, _) => panic!("{} processes of {}", processes.len(), record.name),
                (_, []) => number_at_head(engine, record),
                (state, _) => panic!("{state:?}, and it has processes"),
            };
            let text = fs::read_to_string(record.files_at.join(FILE)).unwrap_or_else(|_| "-".to_owned());
            let number = number.map_or_else(|| "-".to_owned(), |number| number.to_string());
            format!("{} {} {number} {text}", record.name, record.state.as_str())
        });
        words.collect::<Vec<_>>().join(", ")
    }

    fn nothing_is_left_over(&self, engine: &Engine) {
        let known: BTreeSet<String> = engine.records().keys().map(ToString::to_string).collect();
        for (session, process, _) in self.machine.living() {
            assert!(known.contains(&session), "process {} is nobody's", process.pid);
        }
        let place = &engine.inner.place;
        assert_eq!(names(&place.journal()), Vec::<String>::new(), "the journal");
        assert_eq!(names(&place.state.join("staging")), Vec::<String>::new(), "staging");
        let sessions: BTreeSet<String> = names(&place.sessions()).into_iter().collect();
        assert_eq!(sessions, known, "directories of sessions");
        let branches = names(&place.state.join("branches"));
        let stray = |name: &String| !known.iter().any(|id| name.contains(id.as_str()));
        assert!(!branches.iter().any(stray), "files of branches: {branches:?}");
    }

    /// Every number that is in somebody's memory or in a snapshot of somebody's.
    fn numbers(&self, engine: &Engine) -> BTreeSet<u8> {
        let mut numbers: BTreeSet<u8> =
            self.machine.living().into_iter().map(|(.., [number, _])| number).collect();
        let records: Vec<Record> = engine.records().values().cloned().collect();
        for record in records {
            let request = HistoryRequest { session: Some(record.id.as_str()), family: false, limit: None };
            for commit in engine.history(request).unwrap().commits {
                numbers.extend(number_at(engine, &record, &commit.id));
            }
        }
        numbers
    }

    /// Each session can be snapshotted if it runs, be brought back, and stopped and removed; and then nothing is left.
    fn life_goes_on(&self, engine: &Engine) {
        let records: Vec<Record> = engine.records().values().cloned().collect();
        for record in records {
            let name = record.name.as_str();
            let well = |done: Result<()>| {
                if let Err(error) = done {
                    panic!("{name} afterwards: {error}");
                }
            };
            if record.state == SessionState::Running {
                well(engine.snapshot(name, &SnapshotRequest::default(), &NoWatch).and_then(|taken| {
                    let back = RollbackRequest { force: true, ..RollbackRequest::to(taken.commit) };
                    engine.rollback(name, &back, &NoWatch).map(drop)
                }));
            } else if record.head.is_some() {
                well(engine.resume(name, &ResumeRequest { force: true, gpus: None }, &NoWatch).map(drop));
                let number = self.machine.of(record.id.as_str())[0].1;
                assert_eq!(Some(number), number_at_head(engine, &record), "{name} came back as another");
            }
            well(engine.stop(name, StopRequest { grace_ms: Some(5000) }).map(drop));
            well(engine.remove(name, false).map(drop));
        }
        assert!(self.machine.living().is_empty(), "somebody lives on");
    }
}

fn number_at_head(engine: &Engine, record: &Record) -> Option<u8> {
    number_at(engine, record, record.head.as_deref()?)
}

/// The number in a snapshot, read through the store.
fn number_at(engine: &Engine, record: &Record, commit: &str) -> Option<u8> {
    let store = engine.inner.store.open().unwrap();
    let commit = store.resolve(commit).unwrap();
    // Not by force: it is a snapshot of this session's, and must be known as one.
    let aim = engine.aim(record, &store, commit, 1, false, &mut Steps::new(&NoWatch)).unwrap();
    Some(number_in(aim.images().unwrap().path()))
}

fn names(directory: &Path) -> Vec<String> {
    let items = fs::read_dir(directory).unwrap().map(|item| item.unwrap().file_name());
    items.map(|name| name.to_string_lossy().into_owned()).collect()
}
