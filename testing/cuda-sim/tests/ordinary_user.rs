//! A user without any right runs the device server, a program with GPU memory, and the calls, and root-only drivers refuse them.
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cuda-sim");
const USER: u32 = 61_003;
const TARGET: &str = "
import ctypes, sys
cuda, buffer, context = ctypes.CDLL('libcuda.so.1'), ctypes.c_uint64(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(buffer), ctypes.c_size_t(1 << 20)) == 0
assert cuda.cuMemcpyHtoD_v2(buffer, b'x' * (1 << 20), ctypes.c_size_t(1 << 20)) == 0
print('ready', flush=True)
sys.stdin.read()
";

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The rest of a command line as an ordinary user, in the world of `home`.
fn as_user(home: &Path) -> Command {
    let mut command = Command::new("setpriv");
    let id = USER.to_string();
    command.args([
        "--reuid",
        &id,
        "--regid",
        &id,
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]);
    command.env("CUDA_SIM_DIR", home.join("server")).env("CUDA_SIM_DEV", home.join("dev"));
    command.env("LD_LIBRARY_PATH", home.join("lib")).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn start(mut command: Command) -> Running {
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line}");
    Running(child)
}

#[test]
fn everything_is_possible_without_root() {
    if !nix::unistd::geteuid().is_root() {
        assert!(std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"));
        println!("skipped: only root can be another user for a while");
        return;
    }
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = directory.path();
    chown(home, Some(USER), Some(USER)).unwrap();
    let run = |words: &[&str]| {
        let output = as_user(home).arg(PROGRAM).args(words).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).trim().to_owned())
    };
    let path = |name: &str| home.join(name).to_str().unwrap().to_owned();
    assert_eq!(run(&["install", "--dir", &path("lib")]), (true, String::new()));
    assert!(as_user(home).args(["mkdir"]).arg(home.join("dev")).status().unwrap().success());
    let mut server = as_user(home);
    server.args([PROGRAM, "serve", "--gpus", "1", "--memory", "64MiB", "--dir"]).arg(home.join("server"));
    server.arg("--devices").arg(home.join("dev"));
    let _server = start(server);
    let mut target = as_user(home);
    target.args(["/usr/bin/python3", "-c", TARGET]);
    let target = start(target);
    let pid = target.0.id().to_string();
    let state = || run(&["cuda-checkpoint", "--get-state", "--pid", &pid]);
    for (action, after) in
        [("lock", "locked"), ("checkpoint", "checkpointed"), ("restore", "locked"), ("unlock", "running")]
    {
        assert_eq!(run(&["cuda-checkpoint", "--action", action, "--pid", &pid]), (true, String::new()));
        assert_eq!(state(), (true, after.to_owned()));
    }

    let control = |command: &str| assert!(run(&["ctl", "--dir", &path("server"), command]).0);
    control(r#"{"do":"root-only"}"#);
    let (done, said) = state();
    assert!(!done && said.contains("\"operation not permitted\""), "{said}");
    // Root of a namespace of one's own is still that user.
    let mut inside = as_user(home);
    inside.args([
        "unshare",
        "--user",
        "--map-root-user",
        PROGRAM,
        "cuda-checkpoint",
        "--get-state",
        "--pid",
        &pid,
    ]);
    assert!(!inside.output().unwrap().status.success());
    let mut root = Command::new(PROGRAM);
    root.args(["cuda-checkpoint", "--get-state", "--pid", &pid]).env("CUDA_SIM_DIR", home.join("server"));
    assert_eq!(root.output().unwrap().stdout, b"running\n");
    control(r#"{"do":"root-only","on":false}"#);
    assert_eq!(state(), (true, "running".to_owned()));
}
