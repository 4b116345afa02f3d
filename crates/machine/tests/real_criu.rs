//! The pipelines with real CRIU and real processes: a counter that writes into a file. The engine is
//! root's own here; those of ordinary users are in the tests of the whole daemon.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests fail by panicking, and say what they skip"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::{
    BranchRequest, CopyOutRequest, EnvVar, ResumeRequest, RollbackRequest, SessionState, SnapshotRequest,
    StartRequest, StopRequest, SuspendRequest,
};
use checkpoint_criu::{ComingBack, Leaving, MapId, MemoryPath, Missing, TakePages, WayBack, WayOut};
use lifecycle::{Config, Engine, NoWatch};
use machine::Settings;

/// Counts in memory, and writes each number into a file that it keeps open.
const COUNTER: &str = r#"
import sys, time
out = open(sys.argv[1], "w+")
number = 0
while True:
    number += 1
    out.seek(0)
    out.truncate()
    out.write(str(number))
    out.flush()
    time.sleep(0.005)
"#;

struct World {
    engine: Engine,
    home: tempfile::TempDir,
    config: Config,
}

/// `None` where this cannot run; a failure where it must.
fn world() -> Option<World> {
    let required = std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_some();
    let missing = |why: &str| {
        assert!(!required, "this must run here: {why}");
        eprintln!("skipped: the pipelines with real CRIU because {why}");
    };
    if !rustix::process::geteuid().is_root() {
        missing("it needs root");
        return None;
    }
    if checkpoint_criu::Criu::find(None).is_err() {
        missing("there is no CRIU");
        return None;
    }
    if program().is_none() {
        missing("infinijup-box is not built: cargo build -p sandbox");
        return None;
    }
    let home = tempfile::Builder::new().prefix("infinijup-test-").tempdir_in("/var/lib").unwrap();
    fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    let config = Config::new(home.path().join("state"), home.path().join("run"));
    let (engine, _) = machine::open(config.clone(), settings()).unwrap();
    Some(World { engine, home, config })
}

fn settings() -> Settings {
    Settings { program: program(), ..Settings::default() }
}

/// The helper program, which cargo builds beside the tests of its own crate only.
fn program() -> Option<PathBuf> {
    let mut directory = std::env::current_exe().ok()?;
    directory.pop();
    directory.pop();
    let program = directory.join("infinijup-box");
    program.exists().then_some(program)
}

impl World {
    fn workspace(&self, name: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    }

    fn start(&self, name: &str) -> PathBuf {
        let file = self.start_program(name, COUNTER);
        wait_past(&file, 0);
        file
    }

    /// Starts a program in Python that writes to the file `number` of its workspace, and says where that is.
    fn start_program(&self, name: &str, program: &str) -> PathBuf {
        let workspace = self.workspace(name);
        let file = workspace.join("number");
        let words = ["/usr/bin/python3", "-c", program, file.to_str().unwrap()];
        let request = StartRequest {
            name: Some(name.to_owned()),
            env: vec![EnvVar { name: "PATH".into(), value: "/usr/bin:/bin".into() }],
            ..StartRequest::command(words, workspace)
        };
        self.engine.start(request, &NoWatch).unwrap();
        file
    }

    fn state(&self, name: &str) -> SessionState {
        self.engine.session(name).unwrap().state
    }

    fn end(&self, names: &[&str]) {
        for name in names {
            self.engine.stop(name, StopRequest { grace_ms: Some(5000) }).unwrap();
            self.engine.remove(name, false).unwrap();
        }
        let left = sandbox::leftover_mounts(self.home.path()).unwrap();
        assert!(left.is_empty(), "mounts are left: {left:?}");
    }
}

fn number(file: &Path) -> u64 {
    fs::read_to_string(file).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Waits until the counter is past this number; says where it is.
fn wait_past(file: &Path, least: u64) -> u64 {
    let begun = Instant::now();
    loop {
        let now = number(file);
        if now > least {
            return now;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{} stays at {now}", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_session_goes_back_with_its_file_and_goes_on() {
    let Some(world) = world() else { return };
    let file = world.start("one");
    let inode = fs::metadata(&file).unwrap().ino();
    let taken = world.engine.snapshot("one", &SnapshotRequest::default(), &NoWatch).unwrap();
    let then = number(&file);
    let far = wait_past(&file, then + 200);
    let back = RollbackRequest::to(&taken.commit);
    let outcome = world.engine.rollback("one", &back, &NoWatch).unwrap();
    let now = wait_past(&file, 0);
    assert!(now < far, "{now} is not before {far}");
    wait_past(&file, now);
    assert_eq!(fs::metadata(&file).unwrap().ino(), inode);
    // And forth again, to where it was when it went back.
    let forth = RollbackRequest::to(outcome.automatic.unwrap());
    world.engine.rollback("one", &forth, &NoWatch).unwrap();
    assert!(wait_past(&file, 0) >= far);
    world.end(&["one"]);
}

#[test]
fn a_branch_lives_beside_its_original_with_files_of_its_own() {
    let Some(world) = world() else { return };
    let file = world.start("root");
    let request =
        BranchRequest { from: None, name: Some("twig".into()), count: Some(1), ..BranchRequest::default() };
    let made = world.engine.branch(Some("root"), &request, &NoWatch).unwrap();
    let branch = &made[0].session;
    let workspace = branch.workspace.as_ref().unwrap().as_path();
    let copy = workspace.join("number");
    assert_ne!(workspace, file.parent().unwrap());
    let (here, there) = (number(&file), number(&copy));
    wait_past(&copy, there);
    wait_past(&file, here);
    world.engine.suspend("root", &SuspendRequest::default(), &NoWatch).unwrap();
    let still = number(&file);
    let there = number(&copy);
    wait_past(&copy, there + 20);
    assert_eq!(number(&file), still);
    world.end(&["twig", "root"]);
}

#[test]
fn a_session_sleeps_through_a_restart_of_the_engine_and_wakes() {
    let Some(mut world) = world() else { return };
    let file = world.start("sleeper");
    world.engine.suspend("sleeper", &SuspendRequest::default(), &NoWatch).unwrap();
    let asleep = number(&file);
    assert_eq!(world.state("sleeper"), SessionState::Suspended);
    let (engine, recovery) = machine::open(world.config.clone(), settings()).unwrap();
    assert!(recovery.troubles.is_empty(), "{recovery:?}");
    world.engine = engine;
    world.engine.resume("sleeper", &ResumeRequest::default(), &NoWatch).unwrap();
    let awake = wait_past(&file, asleep);
    assert!(awake < asleep + 1000);
    // One that runs is adopted as it is.
    let (engine, recovery) = machine::open(world.config.clone(), settings()).unwrap();
    assert_eq!(recovery.adopted, ["sleeper"]);
    world.engine = engine;
    let now = number(&file);
    wait_past(&file, now);
    world.end(&["sleeper"]);
}

#[test]
fn files_that_someone_else_changed_are_named_and_kept() {
    let Some(world) = world() else { return };
    let file = world.start("shared");
    let taken = world.engine.snapshot("shared", &SnapshotRequest::default(), &NoWatch).unwrap();
    world.engine.suspend("shared", &SuspendRequest::default(), &NoWatch).unwrap();
    fs::write(&file, "somebody else was here").unwrap();
    let back = RollbackRequest::to(&taken.commit);
    let outcome = world.engine.rollback("shared", &back, &NoWatch).unwrap();
    assert_eq!(outcome.changed_by_others, [api::Text::from(file.as_path())], "a process needs it as it was");
    wait_past(&file, 0);
    let kept = world.engine.history(lifecycle::HistoryRequest::default()).unwrap().commits;
    let kept = kept.iter().find(|commit| commit.thread == "shared-files").unwrap();
    let copied = CopyOutRequest { to: world.home.path().into(), paths: Vec::new() };
    world.engine.copy_out(&kept.id, &copied).unwrap();
    let found = fs::read_to_string(world.home.path().join("number")).unwrap();
    assert_eq!(found, "somebody else was here");
    world.end(&["shared"]);
}

/// Has 80 MiB that no two runs have alike, a part of it zeros, and a child that has changed its copy of some of it, and 40 MiB of its own,
/// elsewhere: what a child has where its parent has something is taken for shared. Both look at all of theirs again and again, and say with a number that counts on whether it is what it was.
const REMEMBERS: &str = r#"
import os, sys, time, zlib
inherited = bytearray(os.urandom(20 << 20))
child = os.fork() == 0
inherited[:4096] = os.urandom(4096)
own = bytearray(os.urandom((40 if child else 60) << 20))
own[20 << 20:30 << 20] = bytes(10 << 20)
marks = zlib.crc32(inherited), zlib.crc32(own)
out = sys.argv[1] + (".child" if child else "")
number = 0
while True:
    number += 1
    if (zlib.crc32(inherited), zlib.crc32(own)) != marks:
        number = "wrong"
    with open(out + ".new", "w") as new:
        new.write(str(number))
    os.rename(out + ".new", out)
    time.sleep(0.3)
"#;

/// Lets everything take its way, counts what is filled, and breaks in the middle of it if it is to.
#[derive(Debug)]
struct Counting {
    way: Arc<dyn MemoryPath>,
    filled: Arc<AtomicU64>,
    breaks: bool,
}

impl Counting {
    fn settings(breaks: bool) -> (Settings, Arc<AtomicU64>) {
        let filled = Arc::new(AtomicU64::new(0));
        let settings = settings();
        let way = Arc::clone(&settings.way_back);
        let way_back = Arc::new(Self { way, filled: Arc::clone(&filled), breaks });
        (Settings { way_back, ..settings }, filled)
    }
}

impl MemoryPath for Counting {
    fn leave(&self, dump: &Leaving<'_>) -> Result<Box<dyn WayOut>, String> {
        self.way.leave(dump)
    }

    fn come_back(&self, restore: &ComingBack<'_>) -> Result<Box<dyn WayBack>, String> {
        let missing = restore.missing.map(|missing| -> Arc<dyn Missing> {
            let (filled, breaks) = (Arc::clone(&self.filled), self.breaks);
            Arc::new(Counted { missing: Arc::clone(missing), filled, breaks })
        });
        self.way.come_back(&ComingBack { missing: missing.as_ref(), ..*restore })
    }
}

#[derive(Debug)]
struct Counted {
    missing: Arc<dyn Missing>,
    filled: Arc<AtomicU64>,
    breaks: bool,
}

impl Missing for Counted {
    fn runs(&self) -> &BTreeMap<u32, Vec<Range<u64>>> {
        self.missing.runs()
    }

    fn read(&self, pid: u32, to: &dyn TakePages) -> io::Result<()> {
        self.missing.read(pid, &Taking { to, filled: &self.filled, breaks: self.breaks })
    }

    fn map(&self, pid: u32) -> Option<MapId> {
        self.missing.map(pid)
    }
}

struct Taking<'a> {
    to: &'a dyn TakePages,
    filled: &'a AtomicU64,
    breaks: bool,
}

impl Taking<'_> {
    fn count(&self, bytes: u64) -> io::Result<()> {
        let filled = self.filled.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.breaks && filled > 30 << 20 { Err(io::Error::other("it breaks on purpose")) } else { Ok(()) }
    }
}

impl TakePages for Taking<'_> {
    fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.count(bytes.len() as u64)?;
        self.to.pages(address, bytes)
    }

    fn zeros(&self, address: u64, len: u64) -> io::Result<()> {
        self.count(len)?;
        self.to.zeros(address, len)
    }
}

/// Waits until both processes have looked at their memory some more times.
fn both_remember(file: &Path) {
    for file in [file.to_owned(), file.with_extension("child")] {
        let now = wait_past(&file, 0);
        wait_past(&file, now + 2);
    }
}

/// The processes that run a session's program, with what they are doing.
fn processes_with(word: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let words = fs::read(path.join("cmdline")).unwrap_or_default();
        let word = word.as_os_str().as_encoded_bytes();
        let runs_it = words.starts_with(b"/usr/bin/python3");
        if runs_it && words.split(|byte| *byte == 0).any(|found| found == word) {
            let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
            found.push(stat.rsplit(") ").next().unwrap_or_default().chars().take(1).collect());
        }
    }
    found
}

impl World {
    fn with(mut self, settings: Settings) -> Self {
        let (engine, _) = machine::open(self.config.clone(), settings).unwrap();
        self.engine = engine;
        self
    }

    fn start_remembering(&self, name: &str) -> PathBuf {
        let file = self.start_program(name, REMEMBERS);
        both_remember(&file);
        file
    }
}

#[test]
fn memory_comes_back_straight_from_the_store() {
    let (settings, filled) = Counting::settings(false);
    let Some(world) = world().map(|world| world.with(settings)) else { return };
    let file = world.start_remembering("large");
    let taken = world.engine.snapshot("large", &SnapshotRequest::default(), &NoWatch).unwrap();
    assert_eq!(filled.load(Ordering::Relaxed), 0);
    let most = |times: u64| times * (90 << 20);
    let outcome = world.engine.rollback("large", &RollbackRequest::to(&taken.commit), &NoWatch).unwrap();
    assert_eq!(outcome.warnings, Vec::<String>::new());
    both_remember(&file);
    assert!(filled.load(Ordering::Relaxed) > most(1), "{filled:?}");
    world.engine.suspend("large", &SuspendRequest::default(), &NoWatch).unwrap();
    world.engine.resume("large", &ResumeRequest::default(), &NoWatch).unwrap();
    both_remember(&file);
    assert!(filled.load(Ordering::Relaxed) > most(2), "{filled:?}");
    let twigs =
        BranchRequest { from: None, name: Some("twig".into()), count: Some(2), ..BranchRequest::default() };
    for made in world.engine.branch(Some("large"), &twigs, &NoWatch).unwrap() {
        assert_eq!(made.warnings, Vec::<String>::new());
        both_remember(&made.session.workspace.as_ref().unwrap().as_path().join("number"));
    }
    assert!(filled.load(Ordering::Relaxed) > most(4), "{filled:?}");
    both_remember(&file);
    world.end(&["twig-1", "twig-2", "large"]);
}

#[test]
fn what_breaks_in_the_middle_is_ended_and_comes_back_through_images() {
    let (settings, filled) = Counting::settings(true);
    let Some(world) = world().map(|world| world.with(settings)) else { return };
    let file = world.start_remembering("breaks");
    let taken = world.engine.snapshot("breaks", &SnapshotRequest::default(), &NoWatch).unwrap();
    let outcome = world.engine.rollback("breaks", &RollbackRequest::to(&taken.commit), &NoWatch).unwrap();
    assert!(filled.load(Ordering::Relaxed) > 30 << 20);
    let [warning] = &outcome.warnings[..] else { panic!("{:?}", outcome.warnings) };
    assert!(warning.contains("it breaks on purpose"), "{warning}");
    both_remember(&file);
    let twig = BranchRequest { name: Some("twig".into()), ..BranchRequest::default() };
    let made = world.engine.branch(Some("breaks"), &twig, &NoWatch).unwrap();
    assert_eq!(made[0].warnings.len(), 1, "{:?}", made[0].warnings);
    both_remember(&made[0].session.workspace.as_ref().unwrap().as_path().join("number"));
    // The tree that was half filled is gone: what is here is the program and its child, and those of the branch.
    let here = processes_with(&file);
    assert!(here.len() == 4 && !here.iter().any(|state| state == "T"), "{here:?}");
    world.end(&["twig", "breaks"]);
    assert_eq!(processes_with(&file), Vec::<String>::new());
}
