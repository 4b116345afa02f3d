//! The pipelines with work on GPUs: real CRIU, real processes, and the stand-in driver.
//!
//! The libraries of a driver are found when a process starts, by `LD_LIBRARY_PATH`. So each test that cargo runs starts a device server and
//! then this program again, with that set, for the story that it is about. There is one `/dev`, so they wait for each other.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking, and say what they skip")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api::{
    BranchRequest, EnvVar, GpuWish, ResumeRequest, RollbackRequest, SessionState, SnapshotOutcome,
    SnapshotRequest, StartRequest, StopRequest, SuspendRequest,
};
use checkpoint_cuda::{Driver, NoNotes, Settings, State, Target};
use lifecycle::{Config, Engine, NoWatch};
use machine::Settings as EngineSettings;
use serde_json::{Value, json};

/// Names the device server's directory to a story.
const SERVER: &str = "INFINIJUP_TEST_GPU_SERVER";
/// The same file that the end-to-end tests lock: there is one /dev.
const ONE_AT_A_TIME: &str = "/run/infinijup-test-gpus.lock";
const MIB: u64 = 1 << 20;
/// The first driver that copies device memory past its process, into files of ours.
const CUSTOM_STORAGE: &str = "615";
/// What a target has on its GPU, beside its counter.
const HELD: u64 = 16 * MIB;

/// Holds a buffer on a GPU and counts there; writes the count, the hash of the buffer and its address into a file.
const TARGET: &str = r#"
import ctypes, hashlib, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result: sys.exit(f"{name} answered {result}")
size = int(sys.argv[2])
call("cuInit", 0)
context, buffer, counter = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
device = ctypes.c_int()
call("cuDeviceGet", ctypes.byref(device), int(sys.argv[3]))
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(size))
call("cuMemAlloc_v2", ctypes.byref(counter), ctypes.c_size_t(8))
content = os.urandom(1 << 20) * (size >> 20)
call("cuMemcpyHtoD_v2", buffer, content, ctypes.c_size_t(size))
del content
call("cuMemcpyHtoD_v2", counter, bytes(8), ctypes.c_size_t(8))
if "fork" in sys.argv[4:] and os.fork() == 0:
    while True: time.sleep(1)
out = open(sys.argv[1], "w+")
here = ctypes.create_string_buffer(size)
while True:
    number = ctypes.create_string_buffer(8)
    call("cuMemcpyDtoH_v2", number, counter, ctypes.c_size_t(8))
    value = int.from_bytes(number.raw, "little") + 1
    call("cuMemcpyHtoD_v2", counter, value.to_bytes(8, "little"), ctypes.c_size_t(8))
    call("cuMemcpyDtoH_v2", here, buffer, ctypes.c_size_t(size))
    line = f"{value} {hashlib.sha256(here).hexdigest()} {buffer.value} ."
    out.seek(0); out.truncate(); out.write(line); out.flush()
    time.sleep(0.005)
"#;

#[test]
fn there_and_back() {
    tell("story_there_and_back");
}

#[test]
fn branches_share_what_is_free() {
    tell("story_branches_share_what_is_free");
}

#[test]
fn refused_before_any_lock() {
    tell("story_refused_before_any_lock");
}

#[test]
fn the_driver_says_no() {
    tell("story_the_driver_says_no");
}

#[test]
fn a_daemon_that_died() {
    tell("story_a_daemon_that_died");
}

#[test]
fn past_the_processes_there_and_back() {
    tell_on(CUSTOM_STORAGE, "story_there_and_back");
}

#[test]
fn past_the_processes_branches_share_what_is_free() {
    tell_on(CUSTOM_STORAGE, "story_branches_share_what_is_free");
}

#[test]
fn past_the_processes_the_driver_says_no() {
    tell_on(CUSTOM_STORAGE, "story_the_driver_says_no");
}

#[test]
fn past_the_processes_a_daemon_that_died() {
    tell_on(CUSTOM_STORAGE, "story_a_daemon_that_died");
}

#[test]
fn past_the_processes_or_else_through_them() {
    tell_on(CUSTOM_STORAGE, "story_or_else_through_them");
}

fn tell(story: &str) {
    tell_on("580", story);
}

/// Runs a story on a machine of its own, with a driver of this version.
#[expect(clippy::print_stderr, reason = "a test that cannot run here says so")]
fn tell_on(level: &str, story: &str) {
    let required = std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_some();
    if let Some(why) = missing() {
        assert!(!required, "this must run here: {why}");
        eprintln!("skipped: {story} because {why}");
        return;
    }
    let machine = Machine::start(level);
    let done = Command::new(std::env::current_exe().unwrap())
        .args([story, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(SERVER, &machine.server)
        .env("CUDA_SIM_DIR", &machine.server)
        .env("LD_LIBRARY_PATH", &machine.libraries)
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("1 passed"), "{story}:\n{said}");
    assert_eq!(control(&machine.server, &json!({"do": "status"}))["bytes"], 0, "{story} left memory behind");
}

fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root".to_owned());
    }
    if checkpoint_criu::Criu::find(None).is_err() {
        return Some("there is no CRIU".to_owned());
    }
    for (name, package) in [
        ("infinijup-box", "sandbox"),
        ("infinijup-gpu", "checkpoint-cuda"),
        ("cuda-sim", "cuda-sim"),
        ("libcuda_sim.so", "cuda-sim"),
    ] {
        if !program(name).exists() {
            return Some(format!("{name} is not built: cargo build -p {package}"));
        }
    }
    None
}

/// What cargo builds beside the tests of its own package only.
fn program(name: &str) -> PathBuf {
    let mut directory = std::env::current_exe().unwrap();
    directory.pop();
    directory.pop();
    directory.join(name)
}

fn settings() -> EngineSettings {
    EngineSettings { program: Some(program("infinijup-box")), ..EngineSettings::default() }
}

/// A machine with two GPUs, as far as CUDA can tell.
struct Machine {
    process: Child,
    server: PathBuf,
    libraries: PathBuf,
    _home: tempfile::TempDir,
    _lock: fs::File,
}

impl Machine {
    fn start(level: &str) -> Self {
        let lock = fs::File::create(ONE_AT_A_TIME).unwrap();
        let deadline = Instant::now() + Duration::from_secs(300);
        while rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            assert!(Instant::now() < deadline, "another test has the GPUs");
            std::thread::sleep(Duration::from_millis(100));
        }
        let home = tempfile::Builder::new().prefix("infinijup-gpus-").tempdir_in("/var/lib").unwrap();
        fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let (server, libraries) = (home.path().join("server"), home.path().join("lib"));
        fs::create_dir(&server).unwrap();
        let sim = program("cuda-sim");
        let installed =
            Command::new(&sim).args(["install", "--level", level, "--dir"]).arg(&libraries).output().unwrap();
        assert!(installed.status.success(), "{installed:?}");
        let mut process = Command::new(&sim)
            .args(["serve", "--gpus", "2", "--memory", "256MiB", "--uuid-seed", "lifecycle"])
            .args(["--level", level, "--devices", "/dev", "--dir"])
            .arg(&server)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert!(!ready.is_empty(), "the device server does not start");
        Self { process, server, libraries, _home: home, _lock: lock }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _gone = self.process.wait();
    }
}

fn control(server: &Path, question: &Value) -> Value {
    let mut stream = UnixStream::connect(server.join("control")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    writeln!(stream, "{question}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert!(answer.get("error").is_none(), "{question}: {answer}");
    answer
}

/// A daemon's engine on that machine.
struct World {
    engine: Engine,
    config: Config,
    server: PathBuf,
    home: tempfile::TempDir,
}

/// What a target says.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Said {
    count: u64,
    hash: String,
    pointer: String,
}

impl World {
    /// `None` if this is not run as a story.
    fn new() -> Option<Self> {
        let server = PathBuf::from(std::env::var_os(SERVER)?);
        let home = tempfile::Builder::new().prefix("infinijup-test-").tempdir_in("/var/lib").unwrap();
        fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        let config = Config::new(home.path().join("state"), home.path().join("run"));
        let (engine, _) = machine::open(config.clone(), settings()).unwrap();
        Some(Self { engine, config, server, home })
    }

    fn start(&self, name: &str, gpus: GpuWish, more: &[&str]) -> PathBuf {
        let workspace = self.home.path().join(name);
        fs::create_dir(&workspace).unwrap();
        let file = workspace.join("said");
        let size = HELD.to_string();
        let mut words = vec!["/usr/bin/python3", "-c", TARGET, file.to_str().unwrap(), &size, "0"];
        words.extend(more);
        let variable = |name: &str, value: &OsStr| EnvVar { name: name.into(), value: value.into() };
        let ours = |name: &str| variable(name, &std::env::var_os(name).unwrap());
        let request = StartRequest {
            name: Some(name.to_owned()),
            env: vec![
                variable("PATH", OsStr::new("/usr/bin:/bin")),
                ours("LD_LIBRARY_PATH"),
                ours("CUDA_SIM_DIR"),
            ],
            gpus,
            ..StartRequest::command(words, workspace)
        };
        self.engine.start(request, &NoWatch).unwrap();
        self.past(name, &file, 0);
        file
    }

    /// Waits until the target has counted past this number.
    fn past(&self, name: &str, file: &Path, least: u64) -> Said {
        let begun = Instant::now();
        loop {
            if let Some(said) = read(file).filter(|said| said.count > least) {
                return said;
            }
            if begun.elapsed() > Duration::from_secs(30) {
                let log = self.engine.log(name).ok();
                let log = log.and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default();
                let view = self.engine.session(name);
                panic_with(&format!("{name} says {:?}\n{view:?}\n{log}", read(file)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// It goes on from here.
    fn goes_on(&self, name: &str, file: &Path) -> Said {
        let now = self.past(name, file, 0);
        self.past(name, file, now.count)
    }

    fn ask(&self, question: &Value) -> Value {
        control(&self.server, question)
    }

    fn held(&self) -> u64 {
        self.ask(&json!({"do": "status"}))["bytes"].as_u64().unwrap()
    }

    fn uuids(&self) -> Vec<String> {
        let status = self.ask(&json!({"do": "status"}));
        let gpus = status["gpus"].as_array().unwrap();
        gpus.iter().map(|gpu| gpu["uuid"].as_str().unwrap().to_owned()).collect()
    }

    fn calls(&self, call: &str) -> u64 {
        self.ask(&json!({"do": "status"}))["calls"][call].as_u64().unwrap_or(0)
    }

    fn fails(&self, call: &str, times: u32, code: i32) {
        for nth in 1..=times {
            self.ask(&json!({"do": "fault", "call": call, "phase": "before", "nth": nth, "pid": null,
                "action": {"error": code}}));
        }
    }

    fn snapshot(&self, name: &str) -> lifecycle::Result<SnapshotOutcome> {
        self.engine.snapshot(name, &SnapshotRequest::default(), &NoWatch)
    }

    fn state(&self, name: &str) -> SessionState {
        self.engine.session(name).unwrap().state
    }

    fn end(&self, names: &[&str]) {
        for name in names {
            self.engine.stop(name, StopRequest { grace_ms: Some(5000) }).unwrap();
            self.engine.remove(name, false).unwrap();
        }
        let begun = Instant::now();
        while self.held() != 0 {
            assert!(begun.elapsed() < Duration::from_secs(10), "GPU memory is held by nobody");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The worker process and the CUDA process of a session.
    fn cuda_process(&self, driver: &Driver, name: &str) -> i32 {
        let init = self.engine.session(name).unwrap().pid.unwrap();
        let tree: Vec<i32> = sandbox::process::tree(init).unwrap().iter().map(|one| one.pid).collect();
        driver.find(&tree).unwrap()[0].pid
    }
}

#[expect(clippy::panic, reason = "a test fails by panicking")]
fn panic_with(text: &str) -> ! {
    panic!("{text}")
}

fn read(file: &Path) -> Option<Said> {
    let text = fs::read_to_string(file).ok()?;
    let mut words = text.split(' ');
    let said = Said {
        count: words.next()?.parse().ok()?,
        hash: words.next()?.to_owned(),
        pointer: words.next()?.to_owned(),
    };
    (words.next() == Some(".")).then_some(said)
}

fn unchanged(one: &Said, other: &Said) {
    assert_eq!((&one.hash, &one.pointer), (&other.hash, &other.pointer));
}

#[test]
#[ignore = "a story that `there_and_back` tells"]
fn story_there_and_back() {
    let Some(world) = World::new() else { return };
    let file = world.start("work", GpuWish::All, &[]);
    let uuids = world.uuids();
    let view = world.engine.session("work").unwrap();
    let mut granted = view.gpus.clone();
    granted.sort();
    let mut all = uuids.clone();
    all.sort();
    assert_eq!(granted, all);
    assert!(view.vram_bytes.unwrap() >= HELD, "{view:?}");
    let first = world.past("work", &file, 0);

    let taken = world.snapshot("work").unwrap();
    assert!(taken.vram_bytes >= HELD && taken.memory_bytes >= taken.vram_bytes, "{taken:?}");
    assert!(taken.gpu_paused_us > taken.frozen_us, "{taken:?}");
    for step in ["lock the GPU", "checkpoint the GPU", "freeze and dump", "restore the GPU", "unlock the GPU"]
    {
        assert!(taken.steps.iter().any(|timed| timed.name == step), "{step} in {:?}", taken.steps);
    }
    let then = world.goes_on("work", &file);
    unchanged(&first, &then);
    // What did not change on the GPU is not stored again.
    let again = world.snapshot("work").unwrap();
    assert!(again.new_bytes < HELD / 2, "{} new bytes of {}", again.new_bytes, again.memory_bytes);

    let far = world.past("work", &file, then.count + 10);
    let back = RollbackRequest::to(&taken.commit);
    world.engine.rollback("work", &back, &NoWatch).unwrap();
    let now = world.past("work", &file, 0);
    assert!(now.count < far.count, "{now:?} is not before {far:?}");
    unchanged(&first, &world.goes_on("work", &file));

    let asleep = world.engine.suspend("work", &SuspendRequest::default(), &NoWatch).unwrap();
    assert!(asleep.freed_vram_bytes >= HELD, "{asleep:?}");
    assert_eq!(world.held(), 0);
    let before = read(&file).unwrap();
    let other = ResumeRequest { force: false, gpus: Some(GpuWish::List { gpus: vec!["1".to_owned()] }) };
    world.engine.resume("work", &other, &NoWatch).unwrap();
    let awake = world.past("work", &file, before.count);
    unchanged(&first, &awake);
    let status = world.ask(&json!({"do": "status"}));
    let on = |uuid: &String| -> u64 {
        let processes = status["processes"].as_array().unwrap();
        processes.iter().filter_map(|process| process["gpus"][uuid].as_u64()).sum()
    };
    assert!(on(&uuids[0]) == 0 && on(&uuids[1]) >= HELD, "{status}");
    // And from there, as any other.
    world.snapshot("work").unwrap();
    unchanged(&first, &world.goes_on("work", &file));
    world.end(&["work"]);
}

#[test]
#[ignore = "a story that `branches_share_what_is_free` tells"]
fn story_branches_share_what_is_free() {
    let Some(world) = World::new() else { return };
    let file = world.start("trunk", GpuWish::All, &[]);
    let first = world.past("trunk", &file, 0);
    // Room for one more on the first GPU, and for two on the second.
    let taken = world.snapshot("trunk").unwrap();
    let size = taken.vram_bytes;
    let total = 256 * MIB;
    world.ask(&json!({"do": "fill", "gpu": 0, "bytes": total - size * 2 - size / 2}));
    world.ask(&json!({"do": "fill", "gpu": 1, "bytes": total - size * 2 - size / 2}));
    let from = Some(taken.commit.clone());
    let request = BranchRequest {
        from: from.clone(),
        name: Some("twig".into()),
        count: Some(3),
        ..BranchRequest::default()
    };
    let made = world.engine.branch(Some("trunk"), &request, &NoWatch).unwrap();
    for branch in &made {
        let copy = branch.session.workspace.as_ref().unwrap().as_path().join("said");
        unchanged(&first, &world.goes_on(&branch.session.name, &copy));
    }
    unchanged(&first, &world.goes_on("trunk", &file));
    // There is no room for another, and that is said beforehand.
    let request =
        BranchRequest { from, name: Some("more".into()), count: Some(1), ..BranchRequest::default() };
    let error = world.engine.branch(Some("trunk"), &request, &NoWatch).unwrap_err();
    assert_eq!(error.code(), "IJ-L080", "{error}");
    assert_eq!(world.engine.sessions().len(), 4);
    // Going back needs no room but its own.
    let back = RollbackRequest::to(&taken.commit);
    world.engine.rollback("trunk", &back, &NoWatch).unwrap();
    unchanged(&first, &world.goes_on("trunk", &file));
    for gpu in 0..2 {
        world.ask(&json!({"do": "fill", "gpu": gpu, "bytes": 0}));
    }
    world.end(&["twig-1", "twig-2", "twig-3", "trunk"]);
}

#[test]
#[ignore = "a story that `refused_before_any_lock` tells"]
fn story_refused_before_any_lock() {
    let Some(world) = World::new() else { return };
    let file = world.start("forked", GpuWish::All, &["fork"]);
    let locks = world.calls("lock");
    let error = world.snapshot("forked").unwrap_err();
    assert_eq!(error.code(), "IJ-L040", "{error}");
    let hint = error.hint().unwrap();
    assert!(hint.contains("fork"), "{hint}");
    assert_eq!(world.calls("lock"), locks);
    world.goes_on("forked", &file);
    world.end(&["forked"]);

    // One without a GPU has no nodes and is no concern of the driver.
    let workspace = world.home.path().join("plain");
    fs::create_dir(&workspace).unwrap();
    let looks = "import os, time\nopen('said', 'w').write(str(sorted(n for n in os.listdir('/dev') if 'nvidia' in n)))\ntime.sleep(1000)";
    let request = StartRequest {
        name: Some("plain".to_owned()),
        env: vec![EnvVar { name: "PATH".into(), value: "/usr/bin:/bin".into() }],
        gpus: GpuWish::None,
        ..StartRequest::command(["/usr/bin/python3", "-c", looks], workspace.clone())
    };
    world.engine.start(request, &NoWatch).unwrap();
    let begun = Instant::now();
    while !fs::read_to_string(workspace.join("said")).is_ok_and(|said| said.ends_with(']')) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(fs::read_to_string(workspace.join("said")).unwrap(), "[]");
    let taken = world.snapshot("plain").unwrap();
    assert_eq!((taken.vram_bytes, taken.gpu_paused_us), (0, 0));
    world.end(&["plain"]);
}

#[test]
#[ignore = "a story that `the_driver_says_no` tells"]
fn story_the_driver_says_no() {
    let Some(world) = World::new() else { return };
    let file = world.start("work", GpuWish::All, &[]);
    let first = world.past("work", &file, 0);
    // Before the dump: everything goes on.
    for call in ["lock", "checkpoint"] {
        // Twice: what cannot go past the process is tried once more through it.
        world.fails(call, 2, 999);
        let error = world.snapshot("work").unwrap_err();
        assert!(error.code().starts_with("IJ-G"), "{call}: {error:?}");
        world.ask(&json!({"do": "clear"}));
        unchanged(&first, &world.goes_on("work", &file));
    }
    // After it, once: tried again when the snapshot is durable.
    world.fails("restore", 1, 999);
    let taken = world.snapshot("work").unwrap();
    world.ask(&json!({"do": "clear"}));
    unchanged(&first, &world.goes_on("work", &file));
    // And for good: suspended at the snapshot, and back from it when the driver is well.
    world.fails("restore", 8, 999);
    let error = world.snapshot("work").unwrap_err();
    assert_eq!(error.code(), "IJ-L082", "{error}");
    assert_eq!(world.state("work"), SessionState::Suspended);
    assert_eq!(world.held(), 0);
    let error = world.engine.resume("work", &ResumeRequest::default(), &NoWatch).unwrap_err();
    assert_eq!(error.code(), "IJ-L021", "{error}");
    world.ask(&json!({"do": "clear"}));
    // Between the dump and its end the program may have written its file once more.
    let anyway = ResumeRequest { force: true, ..ResumeRequest::default() };
    world.engine.resume("work", &anyway, &NoWatch).unwrap();
    unchanged(&first, &world.goes_on("work", &file));
    // On the way back to a snapshot: put back to where it was.
    let there = world.goes_on("work", &file);
    world.fails("restore", 1, 999);
    let back = RollbackRequest::to(&taken.commit);
    let error = world.engine.rollback("work", &back, &NoWatch).unwrap_err();
    assert_eq!(error.code(), "IJ-L020", "{error}");
    unchanged(&first, &world.past("work", &file, there.count));
    world.ask(&json!({"do": "clear"}));
    world.end(&["work"]);
}

#[test]
#[ignore = "a story that `a_daemon_that_died` tells"]
fn story_a_daemon_that_died() {
    let Some(mut world) = World::new() else { return };
    let file = world.start("orphan", GpuWish::All, &[]);
    let first = world.past("orphan", &file, 0);
    // A new one each time: the one that leaves a process locked believes that it still has it.
    let driver = || Driver::open(Settings::new(program("infinijup-gpu"))).unwrap();
    let view = world.engine.session("orphan").unwrap();
    let journal = world.config.state.join("journal").join(format!("{}.json", view.id));
    let beside = world.config.state.join("sessions").join(&view.id).join("device");
    for how in ["locked", "off the GPU", "off the GPU, past the process"] {
        let driver = driver();
        let pid = world.cuda_process(&driver, "orphan");
        let locked = driver.lock(&[Target { pid, vram_bytes: HELD }], &mut NoNotes).unwrap();
        if how == "locked" {
            // As a daemon leaves it that is killed: nobody undoes it.
            std::mem::forget(locked);
        } else if how != "off the GPU" && driver.capabilities().custom_storage {
            locked.checkpoint_to(&beside, &mut NoNotes).unwrap().ended();
        } else {
            locked.checkpoint(&mut NoNotes).unwrap().ended();
        }
        assert_ne!(driver.state(pid).unwrap(), State::Running);
        let identity = sandbox::process::Identity::of(pid).unwrap().unwrap();
        let line = json!({"phase": "dumping", "worker": null, "gpu": [identity], "gpu_workers": []});
        fs::write(&journal, line.to_string()).unwrap();
        let (engine, recovery) = machine::open(world.config.clone(), settings()).unwrap();
        assert!(recovery.troubles.is_empty(), "{how}: {recovery:?}");
        assert_eq!(recovery.finished.len(), 1, "{how}: {recovery:?}");
        world.engine = engine;
        unchanged(&first, &world.goes_on("orphan", &file));
        assert!(!journal.exists() && !beside.exists(), "{how}");
    }
    // A driver that says no at that moment: said, and tried again by a resume.
    let driver = driver();
    let pid = world.cuda_process(&driver, "orphan");
    driver
        .lock(&[Target { pid, vram_bytes: HELD }], &mut NoNotes)
        .unwrap()
        .checkpoint(&mut NoNotes)
        .unwrap()
        .ended();
    let identity = sandbox::process::Identity::of(pid).unwrap().unwrap();
    let line = json!({"phase": "dumping", "worker": null, "gpu": [identity]});
    fs::write(&journal, line.to_string()).unwrap();
    world.fails("restore", 8, 999);
    let (engine, recovery) = machine::open(world.config.clone(), settings()).unwrap();
    assert_eq!(recovery.troubles.len(), 1, "{recovery:?}");
    world.engine = engine;
    let view = world.engine.session("orphan").unwrap();
    assert!(view.gpu_trouble.is_some() && view.state == SessionState::Running, "{view:?}");
    assert_eq!(world.snapshot("orphan").unwrap_err().code(), "IJ-L083");
    world.ask(&json!({"do": "clear"}));
    let view = world.engine.resume("orphan", &ResumeRequest::default(), &NoWatch).unwrap();
    assert_eq!(view.gpu_trouble, None);
    unchanged(&first, &world.goes_on("orphan", &file));
    assert!(!journal.exists());
    world.end(&["orphan"]);
}

#[test]
#[ignore = "a story that `past_the_processes_or_else_through_them` tells"]
fn story_or_else_through_them() {
    let Some(world) = World::new() else { return };
    let file = world.start("work", GpuWish::All, &[]);
    let first = world.past("work", &file, 0);
    let view = world.engine.session("work").unwrap();
    let beside = world.config.state.join("sessions").join(&view.id).join("device");
    // Past the process: its own memory is not where the bytes are, and nothing is left lying about.
    let taken = world.snapshot("work").unwrap();
    assert_eq!(taken.warnings, Vec::<String>::new());
    assert!(taken.memory_bytes >= HELD && !beside.exists(), "{taken:?}");
    unchanged(&first, &world.goes_on("work", &file));
    // A second one shares what did not change with it.
    let again = world.snapshot("work").unwrap();
    assert!(again.new_bytes < HELD / 4, "{} new bytes", again.new_bytes);
    // Nothing can be written there: through the process then, and that is said.
    fs::write(&beside, "in the way").unwrap();
    let through = world.snapshot("work").unwrap();
    assert!(through.warnings.iter().any(|said| said.contains("went through its processes")), "{through:?}");
    unchanged(&first, &world.goes_on("work", &file));
    fs::remove_file(&beside).unwrap();
    // The driver does not do it this time.
    world.fails("checkpoint", 1, 801);
    let through = world.snapshot("work").unwrap();
    assert!(!through.warnings.is_empty(), "{through:?}");
    world.ask(&json!({"do": "clear"}));
    // Each comes back the way it went.
    for commit in [&taken.commit, &through.commit, &again.commit] {
        world.engine.rollback("work", &RollbackRequest::to(commit), &NoWatch).unwrap();
        unchanged(&first, &world.goes_on("work", &file));
    }
    assert!(!beside.exists());
    world.end(&["work"]);
}
