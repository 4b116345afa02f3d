//! A device server, and programs that use its GPUs.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cuda_sim::checkpoint::caller::Caller;
use cuda_sim::checkpoint::state::State;
use cuda_sim::faults::control;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cuda-sim");

/// Says why a test does not run; where all must run that is a failure.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{reason}");
    println!("skipped: a test with the stand-in driver because {reason}");
}

/// Waits until something is there.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: it did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A machine: one server with its GPUs and libraries.
pub(crate) struct World {
    pub(crate) dir: TempDir,
    server: Child,
}

impl World {
    /// A machine with two GPUs and the newest driver but one; `None` without root.
    pub(crate) fn new() -> Option<Self> {
        Self::with(&["--gpus", "2", "--memory", "64MiB"])
    }

    pub(crate) fn with(options: &[&str]) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            skip("this needs root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("dev")).unwrap();
        let lib = dir.path().join("lib");
        assert!(Command::new(PROGRAM).args(["install", "--dir"]).arg(&lib).status().unwrap().success());
        let mut server = Command::new(PROGRAM)
            .args(["serve", "--dir"])
            .arg(dir.path())
            .arg("--devices")
            .arg(dir.path().join("dev"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("ready"), "{line}");
        Some(Self { dir, server })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller::new(self.path())
    }

    pub(crate) fn ctl(&self, command: &Value) -> Value {
        let answer: Value =
            serde_json::from_str(&control::send(self.path(), &command.to_string()).unwrap()).unwrap();
        assert!(answer.get("error").is_none(), "{command}: {answer}");
        answer
    }

    pub(crate) fn fault(&self, call: &str, phase: &str, action: &Value) {
        self.ctl(&json!({ "do": "fault", "call": call, "phase": phase, "action": action }));
    }

    pub(crate) fn status(&self) -> Value {
        self.ctl(&json!({ "do": "status" }))
    }

    /// UUIDs of the GPUs, as hexadecimal digits.
    pub(crate) fn uuids(&self) -> Vec<String> {
        let text = |gpu: &Value| gpu["uuid"].as_str().unwrap().trim_start_matches("GPU-").replace('-', "");
        self.status()["gpus"].as_array().unwrap().iter().map(text).collect()
    }

    /// What the server says of a process: its state and bytes.
    pub(crate) fn known(&self, pid: i32) -> Option<(String, u64)> {
        let status = self.status();
        let process = status["processes"].as_array().unwrap().iter().find(|process| process["pid"] == pid)?;
        let bytes = process["gpus"].as_object().unwrap().values().map(|bytes| bytes.as_u64().unwrap()).sum();
        Some((process["state"].as_str().unwrap().to_owned(), bytes))
    }

    pub(crate) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("LD_LIBRARY_PATH", self.path().join("lib")),
            ("CUDA_SIM_DIR", self.path().to_owned()),
            ("CUDA_SIM_DEV", self.path().join("dev")),
        ]
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(i32::try_from(self.server.id()).unwrap()), Signal::SIGTERM);
        let _ = self.server.wait();
    }
}

/// A program with state on the GPUs.
pub(crate) struct Target {
    pub(crate) pid: i32,
    child: Option<Child>,
    pub(crate) log: PathBuf,
    _dir: TempDir,
}

impl Target {
    pub(crate) fn start(world: &World, arguments: &[&str]) -> Self {
        Self::start_by(world, &["setsid"], arguments)
    }

    /// Starts it by other words than `setsid`; its pid is that of the first word then.
    pub(crate) fn start_by(world: &World, by: &[&str], arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let open = || OpenOptions::new().append(true).create(true).open(&log).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checkpoint/target.py");
        let child = Command::new(by[0])
            .args(&by[1..])
            .args(["/usr/bin/python3", "-u"])
            .arg(script)
            .args(arguments)
            .envs(world.environment())
            .stdin(File::open("/dev/null").unwrap())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        let target = Self { pid: i32::try_from(child.id()).unwrap(), child: Some(child), log, _dir: dir };
        until("the target is ready", || {
            let text = target.text();
            assert!(!target.has_ended(), "the target ended: {text}");
            text.contains("\"ready\"").then_some(())
        });
        target
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whole lines that it wrote.
    pub(crate) fn lines(&self, key: &str) -> Vec<Value> {
        let text = self.text();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter_map(|line| line.get(key).cloned()).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid), signal).unwrap();
    }

    /// How it is: hash, pointers, counters.
    pub(crate) fn report(&self) -> Value {
        let before = self.lines("report").len();
        self.signal(Signal::SIGUSR1);
        until("the target reports", || {
            assert!(!self.has_ended(), "the target ended: {}", self.text());
            self.lines("report").get(before).cloned()
        })
    }

    /// The same bytes at the same addresses, no round lost or made twice, and the loop goes on.
    pub(crate) fn assert_whole(&self, before: &Value) {
        let now = self.report();
        assert_eq!(now["hash"], before["hash"]);
        assert_eq!(now["pointers"], before["pointers"]);
        for counter in now["counters"].as_array().unwrap() {
            assert_eq!(counter, &now["rounds"], "{now}");
        }
        let later = self.report();
        assert!(later["rounds"].as_u64() > now["rounds"].as_u64(), "{later}");
    }

    /// Anonymous memory in bytes.
    pub(crate) fn anonymous(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    /// Where its descriptors lead.
    pub(crate) fn descriptors(&self) -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.pid)).unwrap();
        let links = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        links.map(|link| link.to_string_lossy().into_owned()).collect()
    }

    pub(crate) fn has_ended(&self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.pid))
            .map_or(true, |line| line.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z')))
    }

    /// It was ended by another, who took its place: waits until the number is free.
    pub(crate) fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
        until("the process is gone", || (!Path::new(&format!("/proc/{}", self.pid)).exists()).then_some(()));
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

/// The state that a caller reads.
pub(crate) fn state(world: &World, target: &Target) -> State {
    State::from_number(world.caller().state(target.pid).unwrap()).unwrap()
}
