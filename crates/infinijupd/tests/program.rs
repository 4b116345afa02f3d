//! The program itself, on a machine without CRIU: started, told to stop, killed, started again.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// A user who is in no user database.
const NOBODY_ELSE: u32 = 40_007;

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
        self.set_up(&mut command);
        command
    }

    fn set_up(&self, command: &mut Command) {
        command.arg("--state").arg(self.path("state")).arg("--run").arg(self.path("run"));
        // There is no CRIU here. Nor is the helper ever asked for anything; it only has to be there.
        command.arg("--criu").arg(self.path("no-criu")).args(["--box", "/bin/true"]);
        command.env("NOTIFY_SOCKET", self.path("notify")).env("INFINIJUP_LOG_FORMAT", "json");
        command.env_remove("INFINIJUP_SOCKET").env_remove("INFINIJUP_LOG").env_remove("WATCHDOG_USEC");
        command.env_remove("INFINIJUP_IDLE_END").env_remove("LISTEN_FDS");
        command.env("HOME", self.directory.path()).env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
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
    for (flag, word) in [("--help", "--state <DIR>"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let output = Command::new(env!("CARGO_BIN_EXE_infinijupd")).arg(flag).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains(word));
    }
    let output = Command::new(env!("CARGO_BIN_EXE_infinijupd")).arg("--verbose").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Everything below a directory: its path, its mode and its owner.
fn everything(directory: &Path) -> Vec<(PathBuf, u32, u32)> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        let about = std::fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push((path, about.mode() & 0o7777, about.uid()));
    }
    found
}

#[test]
fn an_ordinary_user_runs_it_and_nobody_else_can_look() {
    let place = Place::new();
    let mut command = place.command();
    let mut user = rustix::process::geteuid().as_raw();
    if user == 0 {
        // The program must be where that user can read it.
        user = NOBODY_ELSE;
        let program = place.path("infinijupd");
        std::fs::copy(env!("CARGO_BIN_EXE_infinijupd"), &program).unwrap();
        chown(place.directory.path(), Some(user), Some(user)).unwrap();
        std::fs::set_permissions(place.path("notify"), PermissionsExt::from_mode(0o666)).unwrap();
        command = Command::new(program);
        place.set_up(&mut command);
        command.uid(user).gid(user);
    } else {
        println!("skipped: becoming an ordinary user, for this is one already");
    }
    let daemon = Daemon(command.spawn().unwrap());
    place.hear("READY=1");
    for name in ["state", "run"] {
        for (path, mode, owner) in everything(&place.path(name)) {
            // Copies of programs that everybody may run anyway, in a directory that nobody else can enter.
            let is_program = path.is_file() && path.starts_with(place.path("state/programs"));
            let closed = if is_program { 0o022 } else { 0o077 };
            assert_eq!((mode & closed, owner), (0, user), "{} {mode:o}", path.display());
        }
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.0.id())).unwrap();
    if rustix::process::geteuid().is_root() {
        for none in ["CapPrm:\t0000000000000000", "CapEff:\t0000000000000000"] {
            assert!(status.contains(none), "{status}");
        }
        // Not even to root, who could do anything anyway: a daemon has one user.
        let mut stream = UnixStream::connect(place.path("run/infinijupd.sock")).unwrap();
        let _ = stream.write_all(b"GET /v1/version HTTP/1.1\r\nhost: x\r\n\r\n");
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        assert_eq!(text, b"");
    }
    daemon.signal(Signal::TERM);
    let (status, log) = daemon.end();
    assert!(status.success(), "{log}");
}

#[test]
fn a_directory_that_others_could_have_prepared_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("run")).unwrap();
    std::fs::set_permissions(place.path("run"), PermissionsExt::from_mode(0o777)).unwrap();
    let (status, said) = Daemon(place.command().spawn().unwrap()).end();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("others may write there (mode 777)") && said.contains("INFINIJUP_RUN"), "{said}");
}

#[test]
fn it_ends_by_itself_when_nobody_needs_it() {
    let place = Place::new();
    let daemon = Daemon(place.command().args(["--idle-end", "0.3"]).spawn().unwrap());
    place.hear("STOPPING=1");
    let (status, log) = daemon.end();
    assert!(status.success() && log.contains("nobody has needed it for a while"), "{log}");
    assert!(!place.path("run/infinijupd.sock").exists());
}

#[test]
fn a_stop_takes_no_longer_for_connections_that_hang() {
    let place = Place::new();
    let daemon = place.start();
    let connect = || UnixStream::connect(place.path("run/infinijupd.sock")).unwrap();
    let silent: Vec<_> = (0..50).map(|_| connect()).collect();
    let hung: Vec<_> = [
        "GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n",
        "POST /v1/gc HTTP/1.1\r\ncontent-length: 9\r\n\r\n",
        "GET /v",
    ]
    .iter()
    .map(|text| {
        let mut stream = connect();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    })
    .collect();
    assert_eq!(place.send("GET", "/v1/version", "").0, 200);
    let told = Instant::now();
    daemon.signal(Signal::TERM);
    let (status, log) = daemon.end();
    assert!(status.success() && told.elapsed() < Duration::from_secs(10), "{:?}: {log}", told.elapsed());
    drop((silent, hung));
}

#[test]
fn the_service_manager_may_hold_the_socket() {
    let place = Place::new();
    std::fs::create_dir(place.path("run")).unwrap();
    std::fs::set_permissions(place.path("run"), PermissionsExt::from_mode(0o700)).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(place.path("run/infinijupd.sock")).unwrap();
    let start = || {
        // A shell puts the socket where a service manager would, and has the number that the daemon will have.
        let mut command = Command::new("/bin/sh");
        let script = "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\"";
        command.args(["-c", script, env!("CARGO_BIN_EXE_infinijupd")]);
        place.set_up(&mut command);
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener.try_clone().unwrap())));
        let daemon = Daemon(command.spawn().unwrap());
        place.hear("READY=1");
        daemon
    };
    let first = start();
    let (_, view) = place.send("GET", "/v1/daemon", "");
    assert_eq!((&view["socket_passed"], &view["pid"]), (&Value::Bool(true), &first.0.id().into()));
    first.signal(Signal::TERM);
    assert!(first.end().0.success());
    // Whoever connects in between waits for the next one instead of being refused.
    let mut waiting = UnixStream::connect(place.path("run/infinijupd.sock")).unwrap();
    waiting.write_all(b"GET /v1/version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let _second = start();
    let mut text = String::new();
    waiting.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}
