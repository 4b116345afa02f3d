//! A machine's GPUs, for a while: the stand-in's server and libraries, and a caller of the driver's checkpoint functions.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::live::{PYTHON, Place, Unable, User, must, programs};

const CALLER: &str = include_str!("cuda_caller.py");
/// A program with state on GPUs, the same that the tests use.
pub(crate) const TARGET: &str = include_str!("../../../tests/sessions/harness/cuda_target.py");

/// Ends with this value; what was on the GPUs is gone then.
pub(crate) struct Gpus {
    child: Child,
    place: Place,
    nodes: Vec<String>,
}

impl Gpus {
    /// One GPU with 16 GiB, and a driver that copies device memory into its processes.
    pub(crate) fn start() -> Result<Self> {
        Self::start_with("580", None)
    }

    /// The same with a driver of this version, and a link of so many bytes a second.
    pub(crate) fn start_with(level: &str, link: Option<u64>) -> Result<Self> {
        if Path::new("/dev/nvidiactl").exists() {
            bail!(Unable("there is a driver here already, and this benchmark brings its own".to_owned()));
        }
        let place = Place::new("gpus")?;
        let program = programs()?.join("cuda-sim");
        ensure!(program.exists(), "there is no {}: build cuda-sim", program.display());
        let libraries = place.dir.join("lib");
        let server = place.dir.join("server");
        must(Command::new(&program).args(["install", "--level", level, "--dir"]).arg(&libraries))?;
        fs::create_dir(&server)?;
        let mut child = Command::new(&program)
            .args([
                "serve",
                "--gpus",
                "1",
                "--memory",
                "16GiB",
                "--level",
                level,
                "--devices",
                "/dev",
                "--dir",
            ])
            .arg(&server)
            .args(link.map(|link| [String::from("--pcie"), link.to_string()]).into_iter().flatten())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut ready = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut ready)?;
        ensure!(!ready.is_empty(), "the stand-in did not start");
        let mut gpus = Self { child, place, nodes: Vec::new() };
        for item in fs::read_dir("/dev")? {
            let item = item?;
            let name = item.file_name().to_string_lossy().into_owned();
            if name.starts_with("nvidia") && item.file_type()?.is_char_device() {
                // As NVIDIA's are: for everybody.
                fs::set_permissions(item.path(), PermissionsExt::from_mode(0o666))?;
                gpus.nodes.push(name);
            }
        }
        Ok(gpus)
    }

    /// What a process needs to find the driver.
    pub(crate) fn env(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_LIBRARY_PATH", self.place.dir.join("lib")), ("CUDA_SIM_DIR", self.place.dir.join("server"))]
    }

    /// The names of its device nodes.
    pub(crate) fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The program with state, where every process can read it.
    pub(crate) fn target(&self) -> Result<PathBuf> {
        let path = self.place.dir.join("target.py");
        fs::write(&path, TARGET)?;
        Ok(path)
    }
}

impl Drop for Gpus {
    fn drop(&mut self) {
        // By SIGTERM: it takes its nodes with it.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// Makes the driver's calls in one long-lived process, as bare as they can be made.
pub(crate) struct Caller {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Caller {
    /// As the user whose processes it will be asked about.
    pub(crate) fn start(user: &User, gpus: &Gpus) -> Result<Self> {
        let mut child = user
            .command(PYTHON)
            .args(["-c", CALLER])
            .envs(gpus.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a caller")?;
        let asks = child.stdin.take().context("the caller has no stdin")?;
        let answers = BufReader::new(child.stdout.take().context("the caller has no stdout")?);
        Ok(Self { child, asks, answers })
    }

    /// One call.
    pub(crate) fn call(&mut self, name: &str, pid: i32) -> Result<()> {
        writeln!(self.asks, "{name} {pid}").context("the caller has ended")?;
        self.asks.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let code = line.trim();
        ensure!(code == "0", "{name} of {pid} answered `{code}`");
        Ok(())
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program with state below a first process, wherever it runs.
pub(crate) struct Target {
    log: PathBuf,
    pid: i32,
}

impl Target {
    /// Finds the program below `init`, which writes to `log`, and waits until its buffers are filled.
    pub(crate) fn find(init: i32, log: PathBuf) -> Result<Self> {
        let begun = Instant::now();
        loop {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if text.contains("\"ready\"") {
                break;
            }
            ensure!(begun.elapsed() < Duration::from_secs(120), "the program did not get ready: {text}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut pid = init;
        // It is the last of its line: a holder or a first process, perhaps a shell, and then itself.
        while let Some(child) = only_child(pid) {
            pid = child;
        }
        Ok(Self { log, pid })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// What it says of itself now.
    pub(crate) fn ask(&self) -> Result<Value> {
        self.answer(Signal::USR1, "report")
    }

    /// Waits until it has made its next round.
    pub(crate) fn next_round(&self) -> Result<()> {
        self.answer(Signal::USR2, "round").map(drop)
    }

    /// Its next line with this key.
    fn answer(&self, signal: Signal, key: &str) -> Result<Value> {
        let before = self.lines(key)?.len();
        let pid = Pid::from_raw(self.pid).context("no pid")?;
        kill_process(pid, signal)?;
        let begun = Instant::now();
        loop {
            if let Some(new) = self.lines(key)?.get(before) {
                return Ok(new.clone());
            }
            ensure!(begun.elapsed() < Duration::from_secs(60), "the program does not answer");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn lines(&self, key: &str) -> Result<Vec<Value>> {
        let text = fs::read_to_string(&self.log)?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(lines.filter(|line| line[key].is_number()).collect())
    }
}

fn only_child(pid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}
