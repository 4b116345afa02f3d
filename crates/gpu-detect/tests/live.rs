//! Live processes. No GPU is needed: in a private mount namespace a sparse file stands in for `/dev/nvidia-uvm`, and mapped at
//! the offset of its own address it looks in `/proc` as managed memory does.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests fail by panicking, and say what they skip"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use gpu_detect::{Confidence, Detector, Kind, Strategy};

/// Maps the file as `argv[1]` says, then waits for its standard input to end.
const PROGRAM: &str = r#"
import ctypes, os, sys
how = sys.argv[1]
fd = os.open("/dev/nvidia-uvm", os.O_RDWR | os.O_CREAT, 0o666)
os.truncate("/dev/nvidia-uvm", 1 << 47)
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
address, length = 0x7EA03A000000, 0x200000
SHARED_FIXED = 0x11
if how != "open":
    got = libc.mmap(address, length, 3, SHARED_FIXED, fd, address if how == "managed" else 0)
    assert got == address, ctypes.get_errno()
if how == "fork" and os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print("ready", flush=True)
sys.stdin.read()
"#;

fn skip(why: &str) {
    assert!(std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{why}");
    eprintln!("skipped: live processes because {why}");
}

struct Live {
    child: Child,
    _answers: BufReader<ChildStdout>,
}

impl Live {
    fn start(how: &str) -> Option<Self> {
        if !rustix::process::getuid().is_root() {
            skip("a private mount namespace needs root");
            return None;
        }
        let script = "mount -t tmpfs tmpfs /dev && exec python3 -c \"$0\" \"$1\"";
        let mut child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script, PROGRAM, how])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "python3 could not map the file: {:?}", child.wait());
        Some(Self { child, _answers: answers })
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn detector() -> Detector {
    Detector::new(Path::new("/proc"), None)
}

#[test]
fn managed_memory_is_found() {
    let Some(live) = Live::start("managed") else { return };
    let report = detector().process(live.pid()).unwrap();
    assert!(report.uses_gpu);
    let uvm = report.findings.iter().find(|finding| finding.kind == Kind::Uvm).unwrap();
    assert_eq!(uvm.confidence, Confidence::Certain);
    assert_eq!(uvm.evidence, ["7ea03a000000-7ea03a200000 rw-s 7ea03a000000 /dev/nvidia-uvm"]);
    let managed = report.findings.iter().find(|finding| finding.kind == Kind::Managed).unwrap();
    assert!(managed.blocks && managed.confidence == Confidence::Likely);
    assert!(matches!(report.strategy, Strategy::Refuse { .. }));
    assert!(report.comm.starts_with("python"), "{}", report.comm);

    let tree = detector().tree(live.pid()).unwrap();
    assert_eq!(tree.processes, std::slice::from_ref(&report));
    let all = detector().all().unwrap();
    assert!(all.processes.contains(&report), "{all:?}");
    assert!(all.looked_at > 1);
}

#[test]
fn another_offset_is_not_managed_memory() {
    let Some(live) = Live::start("elsewhere") else { return };
    let report = detector().process(live.pid()).unwrap();
    let kinds: Vec<Kind> = report.findings.iter().map(|finding| finding.kind).collect();
    assert!(kinds.contains(&Kind::Uvm) && !kinds.contains(&Kind::Managed), "{report:?}");
}

#[test]
fn an_open_descriptor_is_not_managed_memory() {
    let Some(live) = Live::start("open") else { return };
    let report = detector().process(live.pid()).unwrap();
    assert!(report.uses_gpu);
    assert!(
        report.findings.iter().all(|finding| !matches!(finding.kind, Kind::Uvm | Kind::Managed)),
        "{report:?}"
    );
}

#[test]
fn a_forked_child_is_found_in_the_tree() {
    let Some(live) = Live::start("fork") else { return };
    let report = detector().tree(live.pid()).unwrap();
    assert_eq!(report.processes.len(), 2, "{report:?}");
    let child = &report.processes[1];
    let inherited = child.findings.iter().find(|finding| finding.kind == Kind::InheritedDescriptors).unwrap();
    assert!(inherited.blocks && inherited.confidence == Confidence::Certain, "{inherited:?}");
    assert!(matches!(report.strategy, Strategy::Refuse { .. }));
}

#[test]
fn this_process_has_nothing() {
    let pid = i32::try_from(std::process::id()).unwrap();
    let report = detector().process(pid).unwrap();
    assert!(!report.uses_gpu && report.findings.is_empty(), "{report:?}");
    assert_eq!(report.strategy, Strategy::Skip);
}

#[test]
fn a_machine_without_a_driver_says_so() {
    match gpu_detect::host(std::time::Duration::from_secs(20)) {
        Ok(host) => assert!(!host.driver_version.is_empty()),
        Err(error) => assert!(matches!(error.code(), "IJ-P001" | "IJ-P003"), "{error}"),
    }
}
