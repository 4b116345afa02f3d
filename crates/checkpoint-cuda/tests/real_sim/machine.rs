//! A machine with two GPUs that are not there: the stand-in's device server and library, and a `/dev` of our own.
//!
//! Each test runs once more in a mount namespace of its own, where `/dev` has the nodes that the stand-in needs, so that nothing
//! appears in the `/dev` of the real machine and tests do not meet.

use std::cell::RefCell;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use checkpoint_cuda::{Driver, Limits, Settings, Target};
use serde_json::{Value, json};

pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_infinijup-gpu");
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
    server: Child,
}

impl Machine {
    /// The machine, with a driver of `level`; `None` if the test has run elsewhere, or cannot run here.
    pub(crate) fn new(level: u32) -> Option<Self> {
        let Some(home) = env::var_os(HOME).map(PathBuf::from) else {
            run_elsewhere();
            return None;
        };
        let level = level.to_string();
        let (server, library) = (home.join("server"), home.join("lib"));
        fs::create_dir(&server).unwrap();
        let installed = sim().args(["install", "--level", &level, "--dir"]).arg(&library).output().unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let mut server = sim()
            .args(["serve", "--gpus", "2", "--memory", "1GiB", "--level", &level, "--dir"])
            .arg(&server)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("ready"), "{ready}");
        Some(Self { home, server })
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
        let _ = self.server.kill();
        let _ = self.server.wait();
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

/// A process with memory on GPUs.
pub(crate) struct Process {
    child: Child,
    input: RefCell<ChildStdin>,
    output: RefCell<BufReader<ChildStdout>>,
    pub(crate) vram_bytes: u64,
    has: RefCell<Value>,
}

impl Process {
    /// Starts one with `mib` on each of `gpus`.
    pub(crate) fn new(machine: &Machine, mib: u64, gpus: &[usize]) -> Self {
        let mut child = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real_sim/target.py"))
            .arg(mib.to_string())
            .args(gpus.iter().map(ToString::to_string))
            .env("LD_LIBRARY_PATH", machine.home.join("lib"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = RefCell::new(child.stdin.take().unwrap());
        let output = RefCell::new(BufReader::new(child.stdout.take().unwrap()));
        let vram_bytes = (mib << 20) * u64::try_from(gpus.len()).unwrap();
        let process = Self { child, input, output, vram_bytes, has: RefCell::default() };
        assert_eq!(process.hear(), "ready\n");
        let has = process.ask();
        *process.has.borrow_mut() = has;
        process
    }

    fn hear(&self) -> String {
        let mut line = String::new();
        self.output.borrow_mut().read_line(&mut line).unwrap();
        line
    }

    fn ask(&self) -> Value {
        self.input.borrow_mut().write_all(b"\n").unwrap();
        serde_json::from_str(&self.hear()).unwrap()
    }

    /// It runs, and has on its GPUs what it had at the start, at the same addresses.
    #[track_caller]
    pub(crate) fn is_whole(&self) {
        let (before, now) = (self.has.borrow(), self.ask());
        assert_eq!(before["hashes"], now["hashes"]);
        assert_eq!(before["pointers"], now["pointers"]);
        assert!(now["rounds"].as_u64() > before["rounds"].as_u64());
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
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

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        .env_remove("CUDA_SIM_FAULTS")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
