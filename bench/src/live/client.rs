//! A client of live kernels: a Python process that talks to them as a notebook does.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::live::{BareBox, PYTHON};

const PROGRAM: &str = include_str!("client.py");

/// Ends with this value.
pub(crate) struct Client {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Client {
    /// A client of ours.
    pub(crate) fn start() -> Result<Self> {
        Self::spawn(Command::new(PYTHON))
    }

    /// One in the network of a bare box.
    pub(crate) fn start_in(bare: &BareBox) -> Result<Self> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", bare.holder())).arg(PYTHON);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Result<Self> {
        let mut child = command
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a client")?;
        let asks = child.stdin.take().context("the client has no stdin")?;
        let answers = BufReader::new(child.stdout.take().context("the client has no stdout")?);
        Ok(Self { child, asks, answers })
    }

    /// Connects, runs a cell and returns the value of an expression after it. Without a cell, nothing in the kernel takes notice.
    pub(crate) fn ask(&mut self, connection_file: &Path, cell: &str, value: &str) -> Result<String> {
        self.run(connection_file, cell, value, false).map(|answer| answer.value)
    }

    /// Seconds from sending a cell until its reply. The connection stays for the next.
    pub(crate) fn time(&mut self, connection_file: &Path, cell: &str) -> Result<f64> {
        self.run(connection_file, cell, "None", true).map(|answer| answer.took)
    }

    fn run(&mut self, connection_file: &Path, cell: &str, value: &str, keep: bool) -> Result<Answer> {
        let ask = json!({
            "connection_file": connection_file, "cell": cell, "value": value, "keep": keep, "seconds": 300,
        });
        writeln!(self.asks, "{ask}").context("the client has ended")?;
        self.asks.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("no answer from the kernel to `{cell}`"))?;
        match (answer["value"].as_str(), answer["took"].as_f64()) {
            (Some(value), Some(took)) => Ok(Answer { value: value.to_owned(), took }),
            _ => bail!("the kernel failed at `{cell}`: {}", answer["error"]),
        }
    }
}

/// What a kernel has answered.
struct Answer {
    value: String,
    took: f64,
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
