//! The worker program itself, with libraries made for the purpose: what it can tell of a driver, and that it never leaves a
//! call in the middle.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use checkpoint_cuda::{Backend, Driver, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;

const WORKER: &str = env!("CARGO_BIN_EXE_infinijup-gpu");

/// Compiles the driver; `None`, and loudly, without a compiler.
fn driver(directory: &Path, options: &[&str]) -> Option<PathBuf> {
    let library = directory.join("libcuda.so.1");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/driver.c");
    let compiled = Command::new("gcc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(&library)
        .args(options)
        .arg(source)
        .output();
    match compiled {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(library)
        }
        Err(error) => {
            let required = env::var_os("INFINIJUP_TESTS_REQUIRED").is_some_and(|value| value == "1");
            assert!(!required, "gcc: {error}");
            println!("skipped: a test of the worker because gcc cannot be run: {error}");
            None
        }
    }
}

struct Worker {
    directory: TempDir,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start(options: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let library = driver(directory.path(), options)?;
        let mut process = Command::new(WORKER)
            .arg("--library")
            .arg(library)
            .env("FAKE_GO", directory.path().join("go"))
            .env("FAKE_DONE", directory.path().join("done"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        Some(Self { directory, process, input, output })
    }

    fn say(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, ask: &Value) -> Value {
        self.say(&json!({ "id": 7, "ask": ask }).to_string());
        let reply = self.hear();
        assert_eq!(reply["id"], 7);
        reply["answer"].clone()
    }

    /// A lock that hangs, and has begun: the answer to a question behind it has come.
    fn hang(&mut self) {
        self.say(r#"{"id":1,"ask":{"lock":{"pid":1,"timeout_ms":12345}}}"#);
        assert_eq!(self.ask(&json!({"state": {"pid": 1}})), json!({"number": 4}));
    }

    fn go(&self) {
        fs::write(self.directory.path().join("go"), "").unwrap();
    }

    fn is_done(&self) -> bool {
        self.directory.path().join("done").exists()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// It lives, also after a while.
    fn lives(&mut self) {
        thread::sleep(Duration::from_millis(300));
        assert_eq!(self.process.try_wait().unwrap(), None);
        assert!(!self.is_done());
    }

    fn ends(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.process.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn calls_reach_the_library_and_come_back() {
    let Some(mut worker) = Worker::start(&["-DVERSION=13000"]) else { return };
    assert_eq!(
        worker.ask(&json!("hello")),
        json!({"hello": {"backend": "api", "cuda_version": 13000, "pairs": true, "custom_storage": false}})
    );
    assert_eq!(worker.ask(&json!({"thread": {"pid": 41}})), json!({"number": 42}));
    assert_eq!(worker.ask(&json!({"lock": {"pid": 1, "timeout_ms": 500}})), json!("done"));
    // The driver names one number, and does not know the other; we do.
    assert_eq!(
        worker.ask(&json!({"checkpoint": {"pid": 1, "storage": null}})),
        json!({"code": {"code": 401, "name": "CUDA_ERROR_ILLEGAL_STATE"}})
    );
    assert_eq!(
        worker.ask(&json!({"unlock": {"pid": 1}})),
        json!({"code": {"code": 999, "name": "CUDA_ERROR_UNKNOWN"}})
    );
    let (one, two) = ("GPU-01010101-0101-0101-0101-010101010101", "GPU-02020202-0202-0202-0202-020202020202");
    let pairs = json!([[one, two], [two, one]]);
    assert_eq!(worker.ask(&json!({"restore": {"pid": 1, "pairs": pairs, "storage": null}})), json!("done"));
    // No pairs are null and zero.
    let answer = worker.ask(&json!({"restore": {"pid": 1, "pairs": [], "storage": null}}));
    assert_eq!(answer["code"]["code"], 2001);
    let answer = worker.ask(&json!({"checkpoint": {"pid": 1, "storage": "/tmp"}}));
    assert_eq!(answer["code"]["code"], 801);
}

#[test]
fn an_older_driver_is_given_no_pairs() {
    let Some(mut worker) = Worker::start(&["-DVERSION=12090"]) else { return };
    assert_eq!(worker.ask(&json!("hello"))["hello"]["pairs"], false);
    let one = "GPU-01010101-0101-0101-0101-010101010101";
    let answer = worker.ask(&json!({"restore": {"pid": 1, "pairs": [[one, one]], "storage": null}}));
    assert_eq!(answer["code"]["code"], 801);
}

#[test]
fn the_end_of_input_waits_for_calls() {
    let Some(mut worker) = Worker::start(&["-DVERSION=13000"]) else { return };
    worker.hang();
    // As when the daemon is killed: nobody asks, nobody listens.
    worker.input = None;
    worker.lives();
    worker.go();
    worker.ends();
    assert!(worker.is_done());
}

#[test]
fn nobody_to_hear_the_answer_is_no_trouble() {
    let Some(mut worker) = Worker::start(&["-DVERSION=13000"]) else { return };
    worker.hang();
    worker.input = None;
    // The reading end of its output goes away too.
    let mut other = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    worker.output = BufReader::new(other.stdout.take().unwrap());
    other.wait().unwrap();
    worker.lives();
    worker.go();
    worker.ends();
    assert!(worker.is_done());
}

#[test]
fn signals_wait_for_calls() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let Some(mut worker) = Worker::start(&["-DVERSION=13000"]) else { return };
        worker.hang();
        worker.signal(signal);
        worker.lives();
        worker.go();
        worker.ends();
        assert!(worker.is_done());
    }
}

#[test]
fn a_signal_ends_an_idle_worker() {
    let Some(mut worker) = Worker::start(&["-DVERSION=13000"]) else { return };
    worker.ask(&json!("hello"));
    worker.signal("-TERM");
    worker.ends();
}

#[test]
fn nonsense_ends_the_service_but_not_the_calls() {
    let Some(mut worker) = Worker::start(&["-DVERSION=13000"]) else { return };
    worker.hang();
    worker.say("{nonsense");
    worker.lives();
    worker.go();
    assert_eq!(worker.hear(), json!({"id": 1, "answer": "done"}));
    assert_eq!(worker.process.wait().unwrap().code(), Some(2));
}

const ONE: &str = "GPU-01010101-0101-0101-0101-010101010101";
const TWO: &str = "GPU-02020202-0202-0202-0202-020202020202";

#[test]
fn device_memory_goes_to_files_and_comes_back() {
    for pairs in [json!([]), json!([[ONE, TWO], [TWO, ONE]])] {
        let Some(mut worker) = Worker::start(&["-DVERSION=13040"]) else { return };
        assert_eq!(worker.ask(&json!("hello"))["hello"]["custom_storage"], true);
        let storage = tempfile::tempdir().unwrap();
        let path = storage.path();
        assert_eq!(worker.ask(&json!({"checkpoint": {"pid": 1, "storage": path}})), json!("done"));
        assert_eq!(worker.ask(&json!({"state": {"pid": 1}})), json!({"number": 2}));
        for uuid in [ONE, TWO] {
            assert_eq!(fs::metadata(path.join(format!("{uuid}.vram"))).unwrap().len(), (9 << 20) + 5);
        }
        let restored = worker.ask(&json!({"restore": {"pid": 1, "pairs": pairs, "storage": path}}));
        assert_eq!(restored, json!("done"));
        // The library compares the bytes.
        assert_eq!(worker.ask(&json!({"unlock": {"pid": 1}})), json!("done"));
    }
}

#[test]
fn a_file_that_cannot_be_written_loses_nothing() {
    for uuid in [ONE, TWO] {
        let Some(mut worker) = Worker::start(&["-DVERSION=13040"]) else { return };
        let storage = tempfile::tempdir().unwrap();
        // Something is in the way.
        fs::create_dir(storage.path().join(format!("{uuid}.vram"))).unwrap();
        let answer = worker.ask(&json!({"checkpoint": {"pid": 1, "storage": storage.path()}}));
        let detail = answer["failed"]["detail"].as_str().unwrap();
        assert!(detail.contains(uuid) && !detail.contains("could not be restored"), "{detail}");
        assert_eq!(worker.ask(&json!({"state": {"pid": 1}})), json!({"number": 1}));
        assert_eq!(worker.ask(&json!({"unlock": {"pid": 1}})), json!("done"));
    }
}

#[test]
fn files_that_are_not_there_are_told() {
    let Some(mut worker) = Worker::start(&["-DVERSION=13040"]) else { return };
    let storage = tempfile::tempdir().unwrap();
    assert_eq!(worker.ask(&json!({"checkpoint": {"pid": 1, "storage": storage.path()}})), json!("done"));
    fs::write(storage.path().join(format!("{TWO}.vram")), "short").unwrap();
    let restore = json!({"restore": {"pid": 1, "pairs": [], "storage": storage.path()}});
    let answer = worker.ask(&restore);
    assert!(answer["failed"]["detail"].as_str().unwrap().contains("has 5 of 9437189 bytes"), "{answer}");
    assert_eq!(worker.ask(&json!({"state": {"pid": 1}})), json!({"number": 2}), "nothing was begun");
    // With nothing that says how many there should be, it is found in the middle.
    fs::remove_file(storage.path().join("parts")).unwrap();
    let answer = worker.ask(&restore);
    assert!(answer["failed"]["detail"].as_str().unwrap().contains("has 5 bytes"), "{answer}");
    // The operation was completed, with the wrong bytes.
    assert_eq!(worker.ask(&json!({"state": {"pid": 1}})), json!({"number": 1}));
    assert_eq!(worker.ask(&json!({"unlock": {"pid": 1}}))["code"]["code"], 999);
}

fn open(library: Option<&Path>, tool: &Path) -> Result<Driver, checkpoint_cuda::CudaError> {
    let mut settings = Settings::new(WORKER);
    settings.library = library.map(Into::into);
    settings.tool = Some(tool.to_path_buf());
    Driver::open(settings)
}

const NO_TOOL: &str = "/nowhere/cuda-checkpoint";

#[test]
fn a_machine_without_a_driver_says_so() {
    let error = open(Some(Path::new("/nowhere/libcuda.so.1")), Path::new(NO_TOOL)).unwrap_err();
    assert_eq!(error.code(), "IJ-G002");
    assert!(error.to_string().contains("/nowhere/libcuda.so.1"), "{error}");
}

#[test]
fn a_driver_without_the_calls_is_too_old() {
    let directory = tempfile::tempdir().unwrap();
    let Some(library) = driver(directory.path(), &["-DVERSION=12050"]) else { return };
    let error = open(Some(&library), Path::new(NO_TOOL)).unwrap_err();
    assert_eq!(error.code(), "IJ-G003");
    assert!(
        error.to_string().starts_with("the NVIDIA driver (CUDA 12.5) has no cuCheckpointProcess"),
        "{error}"
    );
}

#[test]
fn a_stub_for_the_linker_is_no_driver() {
    let directory = tempfile::tempdir().unwrap();
    let Some(library) = driver(directory.path(), &["-DVERSION=13000", "-DSTUB"]) else { return };
    let error = open(Some(&library), Path::new(NO_TOOL)).unwrap_err();
    assert_eq!(error.code(), "IJ-G002");
    assert!(error.to_string().contains("stub"), "{error}");
}

#[test]
fn the_program_stands_in_for_a_library_without_the_calls() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let tool = directory.path().join("cuda-checkpoint");
    let script = "#!/bin/sh\ncase \"$*\" in\n--help) echo '--action --device-map';;\n\
                  '--get-restore-tid --pid '*) echo 77;;\n--get-state*) echo checkpointed;;\n\
                  *) echo 'Error: \"initialization error\"' >&2; exit 1;;\nesac\n";
    fs::write(&tool, script).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let driver = open(Some(Path::new("libc.so.6")), &tool).unwrap();
    assert_eq!(driver.capabilities().backend, Backend::Tool);
    assert!(driver.capabilities().pairs && !driver.capabilities().custom_storage);
    let own = i32::try_from(std::process::id()).unwrap();
    let found = driver.find(&[own]).unwrap();
    assert_eq!((found[0].pid, found[0].restore_tid), (own, 77));
    assert_eq!(found[0].state, checkpoint_cuda::State::Checkpointed);
}
