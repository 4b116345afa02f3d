//! A kernel in a box that the user has made with system calls alone (box.py), dumped and restored by `criu` command lines.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::live::{CRIU, PYTHON, Place, User};

const PROGRAM: &str = include_str!("box.py");
/// Where a box sees its own directory.
const SEEN_AT: &str = "/run/box";
/// The first process of a tree, as CRIU sees it.
const ROOT: &str = "300";

/// One box; what runs in it ends with this value. It outlives the trees in it, so a restore finds one that is ready.
pub(crate) struct BareBox {
    driver: Child,
    errands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    holder: i32,
    environment: Vec<(String, String)>,
    place: Place,
}

impl BareBox {
    /// A box with nothing in it.
    pub(crate) fn new(user: &User, name: &str) -> Result<Self> {
        Self::with_nodes(user, name, &[])
    }

    /// The same, with further devices of the machine's in its `/dev`.
    pub(crate) fn with_nodes(user: &User, name: &str, nodes: &[String]) -> Result<Self> {
        let place = Place::of(user, name)?;
        let mut driver = user
            .command(PYTHON)
            .args(["-I", "-S", "-c", PROGRAM])
            .arg(&place.dir)
            .args(nodes)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the driver of a bare box")?;
        let errands = driver.stdin.take();
        let answers = BufReader::new(driver.stdout.take().context("the driver has no stdout")?);
        let environment =
            user.environment().map(|(name, value)| (name.to_owned(), value.display().to_string()));
        let mut new = Self { driver, errands, answers, holder: 0, environment: environment.into(), place };
        new.holder = i32::try_from(new.answer()?).context("the holder has no number")?;
        // So that no dump and no restore has to find out what this kernel can do; a daemon has found out at its start.
        new.criu(&["check"], None)?;
        Ok(new)
    }

    /// Starts a kernel in it.
    pub(crate) fn launch_kernel(&mut self) -> Result<()> {
        let ports = [51001, 51002, 51003, 51004, 51005];
        let connection = json!({
            "ip": "127.0.0.1", "transport": "tcp", "key": "bench", "signature_scheme": "hmac-sha256", "kernel_name": "",
            "shell_port": ports[0], "iopub_port": ports[1], "stdin_port": ports[2], "control_port": ports[3],
            "hb_port": ports[4],
        });
        fs::write(self.connection_file(), connection.to_string())?;
        let mut kernel = Command::new(PYTHON);
        kernel.args(["-m", "ipykernel_launcher", "--HistoryManager.enabled=False", "-f"]);
        kernel.arg(Path::new(SEEN_AT).join("c.json"));
        self.launch(&kernel)
    }

    /// Starts a command in it, with the command's environment on top of the user's.
    pub(crate) fn launch(&mut self, command: &Command) -> Result<()> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let argv: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let own = command.get_envs().filter_map(|(name, value)| {
            Some((name.to_string_lossy().into_owned(), value?.to_string_lossy().into_owned()))
        });
        let env: serde_json::Map<String, Value> = self
            .environment
            .iter()
            .cloned()
            .chain(own)
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        self.errand(&json!({ "do": "launch", "argv": argv, "env": env }))
    }

    /// Its process 1, as the machine numbers it.
    pub(crate) fn holder(&self) -> i32 {
        self.holder
    }

    /// What runs in it writes its output here.
    pub(crate) fn log(&self) -> PathBuf {
        self.place.dir.join("log")
    }

    /// Where clients in its network find the kernel.
    pub(crate) fn connection_file(&self) -> PathBuf {
        self.place.dir.join("c.json")
    }

    /// `criu dump` into a directory, which is made.
    pub(crate) fn dump(&mut self, images: &Path, leave_running: bool) -> Result<()> {
        let mut words = vec!["dump", "--tree", ROOT, "--log-file", "dump.log"];
        words.extend(["--tcp-close", "--skip-in-flight", "--network-lock", "skip", "--file-locks"]);
        words.extend(["--manage-cgroups=ignore", "--link-remap", "--ghost-limit", "1G"]);
        if leave_running {
            words.push("--leave-running");
        }
        self.criu(&words, Some(images)).with_context(|| errors_in(&images.join("dump.log")))?;
        if leave_running { Ok(()) } else { self.empty() }
    }

    /// `criu restore` into this box, which is empty.
    pub(crate) fn restore(&mut self, images: &Path) -> Result<()> {
        let log = Path::new(SEEN_AT).join("restore.log").display().to_string();
        let mut words = vec!["restore", "--restore-detached", "--log-file", &log];
        words.extend(["--tcp-close", "--network-lock", "skip", "--manage-cgroups=ignore", "--link-remap"]);
        words.push("--skip-file-rwx-check");
        self.criu(&words, Some(images)).with_context(|| errors_in(&self.place.dir.join("restore.log")))
    }

    /// Takes over what a restore in another box needs: the connection file and the log that is open.
    pub(crate) fn share(&self, user: &User, with: &Self) -> Result<()> {
        for name in ["c.json", "log"] {
            let copy = with.place.dir.join(name);
            fs::copy(self.place.dir.join(name), &copy)?;
            user.give(&copy)?;
        }
        Ok(())
    }

    /// Ends what runs in it and waits until that is gone. The box is there for the next.
    pub(crate) fn empty(&mut self) -> Result<()> {
        self.errand(&json!({ "do": "empty" }))
    }

    fn criu(&mut self, words: &[&str], images: Option<&Path>) -> Result<()> {
        self.errand(&json!({ "do": "criu", "program": CRIU, "words": words, "images": images })).with_context(
            || {
                let complaints = fs::read_to_string(self.place.dir.join("criu.stderr")).unwrap_or_default();
                format!("criu {}: {}", words.join(" "), complaints.trim())
            },
        )
    }

    fn errand(&mut self, what: &Value) -> Result<()> {
        let errands = self.errands.as_mut().context("the driver of a bare box is closed")?;
        writeln!(errands, "{what}").context("the driver of a bare box has ended")?;
        errands.flush()?;
        let code = self.answer()?;
        ensure!(code == 0, "`{}` in a bare box ended with {code}", what["do"]);
        Ok(())
    }

    fn answer(&mut self) -> Result<i64> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        line.trim().parse().context("no answer from the driver of a bare box")
    }
}

fn errors_in(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| line.contains("Error")).collect::<Vec<_>>().join("; ")
}

impl Drop for BareBox {
    fn drop(&mut self) {
        // At the end of its input it ends the box.
        self.errands.take();
        let _ = self.driver.wait();
    }
}
