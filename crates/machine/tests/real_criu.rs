//! The pipelines with real CRIU and real processes: a counter that writes into a file. The engine is
//! root's own here; those of ordinary users are in the tests of the whole daemon.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests fail by panicking, and say what they skip"
)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::{
    BranchRequest, EnvVar, ResumeRequest, RollbackRequest, SessionState, SnapshotRequest, StartRequest,
    StopRequest, SuspendRequest,
};
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
        let workspace = self.workspace(name);
        let file = workspace.join("number");
        let words = ["/usr/bin/python3", "-c", COUNTER, file.to_str().unwrap()];
        let request = StartRequest {
            name: Some(name.to_owned()),
            env: vec![EnvVar { name: "PATH".into(), value: "/usr/bin:/bin".into() }],
            ..StartRequest::command(words, workspace)
        };
        self.engine.start(request, &NoWatch).unwrap();
        wait_past(&file, 0);
        file
    }

    fn state(&self, name: &str) -> SessionState {
        self.engine.session(name).unwrap().state
    }

    fn end(&self, names: &[&str]) {
        for name in names {
            self.engine.stop(name, StopRequest { grace_ms: Some(5000) }).unwrap();
            self.engine.remove(name).unwrap();
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
    let made = world.engine.branch("root", &request, &NoWatch).unwrap();
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
    let mut back = RollbackRequest::to(&taken.commit);
    let error = world.engine.rollback("shared", &back, &NoWatch).unwrap_err();
    assert_eq!(error.code(), "IJ-L030", "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "somebody else was here");
    back.force = true;
    world.engine.rollback("shared", &back, &NoWatch).unwrap();
    wait_past(&file, 0);
    let kept = world.engine.history(lifecycle::HistoryRequest::default()).unwrap().commits;
    assert!(kept.iter().any(|commit| commit.thread == "shared-files"), "{kept:?}");
    world.end(&["shared"]);
}
