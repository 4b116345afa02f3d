//! JupyterLab in a browser, driven by a Python process in the words of tests/e2e.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::live::{Daemon, Unable, User, able};

/// Where scripts/lab-python.sh puts JupyterLab.
pub(crate) const LAB: &str = "/opt/infinijup/lab-venv";
const PROGRAM: &str = include_str!("browser.py");
const DEMO: &str = include_str!("demo.py");

/// Ends, with its server, with this value.
pub(crate) struct Browser {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Browser {
    /// A server of the user's that asks `daemon`, and a tab with a notebook.
    pub(crate) fn start(user: &User, daemon: &Daemon) -> Result<Self> {
        Self::drive(PROGRAM, daemon.socket(), user)
    }

    /// The user's `infinijup demo`, of the installation in a virtual environment, and a tab with its notebook.
    pub(crate) fn of_demo(user: &User, venv: &Path) -> Result<Self> {
        Self::drive(DEMO, venv, user)
    }

    fn drive(program: &str, whose: &Path, user: &User) -> Result<Self> {
        able()?;
        let python = Path::new(LAB).join("bin/python");
        if !python.exists() || !Path::new("/usr/bin/chromium").exists() {
            bail!(Unable("it needs JupyterLab and Chromium: run scripts/lab-python.sh".to_owned()));
        }
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("tests");
        let paths = format!("{}:{}", tests.join("e2e").display(), tests.join("sessions").display());
        let mut child = Command::new(python)
            .args(["-c", program])
            .arg(whose)
            .arg(user.name())
            .env("PYTHONPATH", paths)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the browser's driver")?;
        let asks = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("the driver has no stdout")?);
        Ok(Self { child, asks, answers })
    }

    /// One thing to do; the answer. browser.py says what there is.
    pub(crate) fn ask(&mut self, what: &Value) -> Result<Value> {
        let asks = self.asks.as_mut().context("the driver is closed")?;
        writeln!(asks, "{what}").context("the browser's driver has ended")?;
        asks.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("no answer from the browser to {what}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // At the end of its input it stops its server and its browser.
        self.asks.take();
        let _ = self.child.wait();
    }
}
