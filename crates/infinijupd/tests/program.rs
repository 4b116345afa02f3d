//! The program itself, on a machine without CRIU: started, told to stop, killed, started again.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "tests fail by panicking")]

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    let required = std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_some_and(|value| value == "1");
    assert!(root || !required, "a test that is required cannot run: the daemon needs root");
    if !root {
        println!("skipped: a test of the whole daemon, because it needs root");
    }
    root
}

/// A place for a daemon, and the daemon of the moment.
struct Place {
    directory: tempfile::TempDir,
    notices: UnixDatagram,
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let notices = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        notices.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { directory, notices }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_infinijupd"));
        command.arg("--state").arg(self.path("state")).arg("--run").arg(self.path("run"));
        // There is no CRIU here. Nor is the helper ever asked for anything; it only has to be there.
        command.arg("--criu").arg(self.path("no-criu")).args(["--box", "/bin/true"]);
        command.env("NOTIFY_SOCKET", self.path("notify")).env("INFINIJUP_LOG_FORMAT", "json");
        command.env_remove("INFINIJUP_SOCKET").env_remove("INFINIJUP_LOG").env_remove("WATCHDOG_USEC");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Starts a daemon and waits until it says that it is ready.
    fn start(&self) -> Daemon {
        let daemon = Daemon(self.command().spawn().unwrap());
        self.hear("READY=1");
        daemon
    }

    /// Waits until the daemon tells the service manager this.
    fn hear(&self, what: &str) {
        let mut buffer = [0; 4096];
        loop {
            let read = self.notices.recv(&mut buffer).unwrap_or_else(|error| panic!("no {what}: {error}"));
            let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
            if text.lines().any(|line| line == what) {
                return;
            }
        }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut stream = UnixStream::connect(self.path("run/infinijupd.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap())
    }
}

impl Daemon {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Waits for its end; how it ended, and its log.
    fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut log = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (status, log)
    }
}

#[test]
fn without_criu_it_lists_and_refuses_with_the_reason() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let _daemon = place.start();
    let (_, version) = place.send("GET", "/v1/version", "");
    assert!(version["criu"].is_null());
    let reason = &version["refusal"]["message"];
    assert!(reason.as_str().unwrap().to_lowercase().contains("criu"), "{version}");

    assert_eq!(place.send("GET", "/v1/sessions", ""), (200, serde_json::json!({ "sessions": [] })));
    assert_eq!(
        place.send("GET", "/v1/history", ""),
        (200, serde_json::json!({ "commits": [], "threads": [] }))
    );
    let (status, doctor) = place.send("GET", "/v1/doctor", "");
    assert_eq!((status, &doctor["works"]), (200, &Value::Bool(false)));

    let body = r#"{"start":{"type":"command","argv":["true"]},"cwd":"/"}"#;
    let (status, refused) = place.send("POST", "/v1/sessions?wait=true", body);
    assert_eq!((status, &refused["code"], &refused["message"]), (503, &version["refusal"]["code"], reason));
}

#[test]
fn it_stops_when_told_and_comes_back_after_a_kill() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let first = place.start();
    // The terminal that it was started from has closed: no reason to end.
    first.signal(Signal::HUP);
    assert_eq!(place.send("GET", "/v1/sessions", "").0, 200);

    let (status, said) = Daemon(place.command().spawn().unwrap()).end();
    assert_eq!(status.code(), Some(11));
    let pid = format!("pid {}", first.0.id());
    assert!(said.contains("IJ-D002") && said.contains(&pid), "{said}");
    assert_eq!(place.send("GET", "/v1/sessions", "").0, 200, "the first is not disturbed");

    first.signal(Signal::KILL);
    first.end();
    assert!(place.path("run/infinijupd.sock").exists(), "this is the stale socket that the next one finds");
    let second = place.start();
    assert_eq!(place.send("GET", "/v1/sessions", "").0, 200);

    second.signal(Signal::TERM);
    place.hear("STOPPING=1");
    let (status, log) = second.end();
    assert!(status.success(), "{log}");
    assert!(!place.path("run/infinijupd.sock").exists());
    for line in log.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    assert!(log.contains("sessions live on"), "{log}");
}

#[test]
fn help_and_version_need_nothing() {
    for (flag, word) in [("--help", "--state DIR"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let output = Command::new(env!("CARGO_BIN_EXE_infinijupd")).arg(flag).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains(word));
    }
    let output = Command::new(env!("CARGO_BIN_EXE_infinijupd")).arg("--verbose").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
