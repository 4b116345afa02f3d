//! A machine with two GPUs that are not there: the stand-in's device server and library, and a `/dev` of our own.
//!
//! Each test runs once more in a mount namespace of its own, where `/dev` has the nodes that the stand-in needs, so that nothing
//! appears in the `/dev` of the real machine and tests do not meet.

use std::cell::RefCell;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use checkpoint_cuda::{Driver, Limits, Settings, Target};
use serde_json::{Value, json};

pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_infinijup-gpu");
/// Not the first in somebody's path, which may be in a home that others cannot enter.
pub(crate) const PYTHON: &str = "/usr/bin/python3";
/// Two ordinary users. They need no names.
pub(crate) const USER: u32 = 61_001;
pub(crate) const OTHER_USER: u32 = 61_002;
pub(crate) const HOME: &str = "INFINIJUP_TEST_MACHINE";

/// Of calls in tests; long enough for a busy machine, short enough to wait for.
pub(crate) const LIMIT: Duration = Duration::from_secs(3);

const DEV: &str = r#"
set -e
mount --make-rprivate /
mkdir "$INFINIJUP_TEST_MACHINE/dev"
mount -t tmpfs -o mode=755 dev "$INFINIJUP_TEST_MACHINE/dev"
cd "$INFINIJUP_TEST_MACHINE/dev"
mknod -m 666 null c 1 3; mknod -m 666 zero c 1 5; mknod -m 666 full c 1 7
mknod -m 666 random c 1 8; mknod -m 666 urandom c 1 9; mknod -m 666 tty c 5 0
mkdir -m 1777 shm
for name in nvidiactl nvidia-uvm nvidia0 nvidia1; do mknod -m 666 $name c 10 237; done
mount --move "$INFINIJUP_TEST_MACHINE/dev" /dev
cd /
exec "$@"
"#;

pub(crate) struct Machine {
    pub(crate) home: PathBuf,
    /// `None` if it is another process's.
    server: Option<Child>,
}

/// How a machine is to be.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Of the driver.
    pub(crate) level: u32,
    /// Who runs the device server.
    pub(crate) user: u32,
    /// Does the driver serve nobody but root?
    pub(crate) root_only: bool,
}

impl Machine {
    /// The machine, with a driver of `level`; `None` if the test has run elsewhere, or cannot run here.
    pub(crate) fn new(level: u32) -> Option<Self> {
        Self::of(Kind { level, user: 0, root_only: false })
    }

    /// The same, of any kind.
    pub(crate) fn of(kind: Kind) -> Option<Self> {
        let Some(home) = env::var_os(HOME).map(PathBuf::from) else {
            run_elsewhere();
            return None;
        };
        let level = kind.level.to_string();
        let (server, library) = (home.join("server"), home.join("lib"));
        fs::create_dir(&server).unwrap();
        chown(&server, Some(kind.user), Some(kind.user)).unwrap();
        let installed = sim().args(["install", "--level", &level, "--dir"]).arg(&library).output().unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let root_only = if kind.root_only { "yes" } else { "no" };
        let mut server = as_user(kind.user)
            .arg(beside("cuda-sim"))
            .args(["serve", "--gpus", "2", "--memory", "1GiB", "--level", &level, "--root-only", root_only])
            .arg("--dir")
            .arg(&server)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("ready"), "{ready}");
        Some(Self { home, server: Some(server) })
    }

    /// The machine of the process that started this one.
    pub(crate) fn joined() -> Option<Self> {
        Some(Self { home: env::var_os(HOME)?.into(), server: None })
    }

    /// Runs another test of this program, one that is a part of the one that runs, as an ordinary user.
    pub(crate) fn run_as_user(&self, part: &str) {
        let mut command = as_user(USER);
        command.arg(env::current_exe().unwrap()).args(["--exact", part, "--nocapture", "--ignored"]);
        has_passed(&command.output().unwrap());
    }

    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(WORKER);
        settings.library = Some(self.home.join("lib/libcuda.so.1"));
        settings.tool = Some(PathBuf::from("/nowhere/cuda-checkpoint"));
        settings.limits = Limits { question: LIMIT, lock: LIMIT, step: LIMIT, unlock: LIMIT };
        settings
    }

    pub(crate) fn driver(&self) -> Driver {
        Driver::open(self.settings()).unwrap()
    }

    /// Asks the server.
    pub(crate) fn control(&self, request: &Value) -> Value {
        let mut stream = UnixStream::connect(self.home.join("server/control")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer.get("error").is_none(), "{request}: {answer}");
        answer
    }

    pub(crate) fn fault(&self, call: &str, phase: &str, pid: i32, action: &Value) {
        self.control(&json!({
            "do": "fault", "call": call, "phase": phase, "nth": 1, "pid": pid, "action": action,
        }));
    }

    pub(crate) fn clear(&self) {
        self.control(&json!({"do": "clear"}));
    }

    pub(crate) fn status(&self) -> Value {
        self.control(&json!({"do": "status"}))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.status()["bytes"].as_u64().unwrap()
    }

    /// How often a call was made.
    pub(crate) fn calls(&self, call: &str) -> u64 {
        self.status()["calls"][call].as_u64().unwrap_or(0)
    }

    pub(crate) fn uuid(&self, gpu: usize) -> checkpoint_cuda::GpuUuid {
        self.status()["gpus"][gpu]["uuid"].as_str().unwrap().parse().unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Waits for something that has to come.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A child that is told lines and answers lines. It ends with this value.
pub(crate) struct Dialogue {
    child: Child,
    input: RefCell<ChildStdin>,
    output: RefCell<BufReader<ChildStdout>>,
}

impl Dialogue {
    pub(crate) fn begin(program: &mut Command) -> Self {
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = RefCell::new(child.stdin.take().unwrap());
        let output = RefCell::new(BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    pub(crate) fn say(&self, line: &str) {
        self.input.borrow_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn hear(&self) -> String {
        let mut line = String::new();
        self.output.borrow_mut().read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn hear_value(&self) -> Value {
        serde_json::from_str(&self.hear()).unwrap()
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process with memory on GPUs.
pub(crate) struct Process {
    dialogue: Dialogue,
    pid: i32,
    pub(crate) vram_bytes: u64,
    has: RefCell<Value>,
}

impl Process {
    /// Starts one with `mib` on each of `gpus`.
    pub(crate) fn new(machine: &Machine, mib: u64, gpus: &[usize]) -> Self {
        Self::by(Command::new("env"), machine, mib, gpus)
    }

    /// Starts one by a program that is given the words to execute, in its own place or in a child's.
    pub(crate) fn by(mut program: Command, machine: &Machine, mib: u64, gpus: &[usize]) -> Self {
        program
            .args([PYTHON, &script("target.py")])
            .arg(mib.to_string())
            .args(gpus.iter().map(ToString::to_string))
            .env("LD_LIBRARY_PATH", machine.home.join("lib"));
        let dialogue = Dialogue::begin(&mut program);
        let vram_bytes = (mib << 20) * u64::try_from(gpus.len()).unwrap();
        let pid = i32::try_from(dialogue.child.id()).unwrap();
        let mut process = Self { dialogue, pid, vram_bytes, has: RefCell::default() };
        process.get_ready();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        process.pid = children.split_whitespace().next().map_or(pid, |child| child.parse().unwrap());
        process
    }

    fn get_ready(&self) {
        assert_eq!(self.dialogue.hear(), "ready\n");
        let has = self.ask();
        *self.has.borrow_mut() = has;
    }

    /// Another program takes its place, and does the same.
    pub(crate) fn execute(&self, words: &str) {
        self.dialogue.say(words);
        self.get_ready();
    }

    fn ask(&self) -> Value {
        self.dialogue.say("");
        self.dialogue.hear_value()
    }

    /// It runs, and has on its GPUs what it had at the start, at the same addresses.
    #[track_caller]
    pub(crate) fn is_whole(&self) {
        let (before, now) = (self.has.borrow(), self.ask());
        assert_eq!(before["hashes"], now["hashes"]);
        assert_eq!(before["pointers"], now["pointers"]);
        assert!(now["rounds"].as_u64() > before["rounds"].as_u64());
    }

    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn target(&self) -> Target {
        Target { pid: self.pid(), vram_bytes: self.vram_bytes }
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.pid().to_string()]).status().unwrap().success());
    }

    /// Is it stopped by a signal?
    pub(crate) fn is_stopped(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        status.lines().any(|line| line.starts_with("State:\tT"))
    }

    pub(crate) fn join(&self, cgroup: &Path) {
        fs::write(cgroup.join("cgroup.procs"), self.pid().to_string()).unwrap();
    }
}

/// The start of a command line that runs the rest of it as this user, with no capability and no group.
pub(crate) fn as_user(user: u32) -> Command {
    if user == 0 {
        return Command::new("env");
    }
    let id = user.to_string();
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        &id,
        "--regid",
        &id,
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]);
    command
}

/// A file beside this one.
pub(crate) fn script(name: &str) -> String {
    format!("{}/tests/real_sim/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// `cuda-sim`, which is built beside this test.
pub(crate) fn sim() -> Command {
    Command::new(beside("cuda-sim"))
}

pub(crate) fn beside(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join(name)
}

/// The test that runs: its thread bears its name, unless tests run one by one, and then nextest has named it.
fn test_name() -> String {
    let current = thread::current();
    match current.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => env::args().skip(1).find(|word| word.contains("::")).unwrap(),
    }
}

/// Runs the test that this thread is once more, in a mount namespace with a `/dev` of its own.
fn run_elsewhere() {
    let missing = ["cuda-sim", "libcuda_sim.so"].iter().find(|name| !beside(name).exists());
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let why = match missing {
        Some(name) => Some(format!("{} is not built (cargo build -p cuda-sim)", beside(name).display())),
        None if !root => Some("it needs root".to_owned()),
        None => None,
    };
    if let Some(why) = why {
        let required = env::var_os("INFINIJUP_TESTS_REQUIRED").is_some_and(|value| value == "1");
        assert!(!required, "{why}");
        println!("skipped: a test with the stand-in driver because {why}");
        return;
    }
    let name = test_name();
    // On the file system of `/`, short, because sockets have short names.
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", DEV, "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--include-ignored"])
        .env(HOME, home.path())
        .env("CUDA_SIM_DIR", home.path().join("server"))
        // Never a helper that is installed here.
        .env("INFINIJUP_GPU_HELPER", home.path().join("helper.sock"))
        .env_remove("CUDA_SIM_FAULTS")
        .output()
        .unwrap();
    has_passed(&output);
}

/// One test has run, and passed.
#[track_caller]
fn has_passed(output: &Output) {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
