//! The kernels that run the day: one with nothing, one with each of the other tools, and a session of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::live::{Client, Daemon, Place, User};
use crate::measure::{timed, tree_size};

/// Where scripts/peers-python.sh puts it.
pub(crate) const PYTHON: &str = "/opt/infinijup/peers-venv/bin/python";
const PROBE: &str = include_str!("probe.py");
const SAVING: &str = include_str!("saving.py");
/// An empty notebook, which Kishu wants to be in.
const NOTEBOOK: &str = r#"{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"#;

/// A kernel with one of the tools.
pub(crate) trait Contender {
    /// Runs the next cell of the day; seconds until the one after it could run, with the state after this one kept.
    fn cell(&mut self, code: &str) -> Result<f64>;
    /// Goes back to after a cell of the day, counted from 1; seconds until the kernel has answered. None if the tool cannot.
    fn back_to(&mut self, cell: usize) -> Result<Option<f64>>;
    /// What its last way back was made of, if it tells.
    fn steps(&self) -> Value {
        Value::Null
    }
    /// What it takes on disk.
    fn disk(&self) -> Result<u64>;
    /// What the objects of the day say.
    fn told(&mut self) -> Result<Value>;
}

/// Which tool a kernel outside of any session has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tool {
    Nothing,
    Kishu,
    Dill,
}

/// A kernel as Jupyter starts it. Ends with this value.
pub(crate) struct Plain {
    tool: Tool,
    child: Child,
    client: Client,
    file: PathBuf,
    place: Place,
}

impl Plain {
    /// Starts it, with its tool at work.
    pub(crate) fn start(user: &User, tool: Tool) -> Result<Self> {
        let place = Place::of(user, &format!("{tool:?}").to_lowercase())?;
        lay_out(user, &place.dir)?;
        let file = place.dir.join("connection.json");
        let child = user
            .command(PYTHON)
            .args(["-m", "ipykernel_launcher", "-f"])
            .arg(&file)
            .current_dir(&place.dir)
            // Kishu's own tests use these: it does not look for a page, and does not wait for one to save the notebook.
            .envs([("ENV_KISHU_TEST_MODE", "1"), ("KISHU_PATH_ROOT", ".")])
            .env("TEST_NOTEBOOK_PATH", place.dir.join("day.ipynb"))
            .stdin(Stdio::null())
            .stdout(fs::File::create(place.dir.join("log"))?)
            .stderr(fs::File::create(place.dir.join("errors"))?)
            .spawn()
            .context("cannot start a kernel")?;
        let mut kernel = Self { tool, child, client: Client::start()?, file, place };
        let begun = Instant::now();
        while fs::read_to_string(&kernel.file).unwrap_or_default().is_empty() {
            ensure!(begun.elapsed() < Duration::from_secs(60), "a kernel did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        match tool {
            Tool::Nothing => (),
            Tool::Kishu => drop(kernel.cell("import kishu; kishu.init_kishu('day.ipynb')")?),
            Tool::Dill => drop(kernel.look("__import__('saving').install(get_ipython())")?),
        }
        Ok(kernel)
    }

    /// The value of an expression; no tool takes notice.
    fn look(&mut self, value: &str) -> Result<String> {
        self.client.ask(&self.file, "", value)
    }
}

impl Contender for Plain {
    /// The tools work before the reply.
    fn cell(&mut self, code: &str) -> Result<f64> {
        self.client.time(&self.file, code)
    }

    fn back_to(&mut self, cell: usize) -> Result<Option<f64>> {
        let undo = match self.tool {
            Tool::Nothing => return Ok(None),
            Tool::Kishu => format!("_kishu.checkout('1:0:{cell}')"),
            Tool::Dill => format!("__import__('saving').undo(globals(), {cell})"),
        };
        // A state that it could not keep cannot be gone back to: the kernel says so.
        let (done, took) = timed(|| Ok(self.look(&undo)))?;
        Ok(done.is_ok().then_some(took.wall_s))
    }

    fn disk(&self) -> Result<u64> {
        let kept = match self.tool {
            Tool::Nothing => return Ok(0),
            Tool::Kishu => return Ok(fs::metadata(self.place.dir.join("day.kishudb"))?.len()),
            Tool::Dill => self.place.dir.join("saved"),
        };
        Ok(tree_size(&kept)?.allocated)
    }

    fn told(&mut self) -> Result<Value> {
        told(|value| self.look(value))
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session of ours. A snapshot is taken after each cell, however long the kernel stands still for it.
pub(crate) struct Ours {
    client: Client,
    file: PathBuf,
    id: String,
    commits: Vec<String>,
    storing: Option<String>,
    frozen_s: Vec<f64>,
    steps: Value,
    daemon: Daemon,
    _place: Place,
}

impl Ours {
    /// Starts it.
    pub(crate) fn start(user: &User) -> Result<Self> {
        let place = Place::of(user, "ours")?;
        lay_out(user, &place.dir)?;
        let daemon = Daemon::start_with(user, &[("INFINIJUP_STANDBY", "on".into())])?;
        let (id, file) = daemon.kernel_of("peers", &place.dir, Path::new(PYTHON))?;
        let client = Client::start()?;
        let (commits, storing, frozen_s, steps) = (Vec::new(), None, Vec::new(), Value::Null);
        Ok(Self { client, file, id, commits, storing, frozen_s, steps, daemon, _place: place })
    }

    /// For how long the kernel stood still for each snapshot, in seconds.
    pub(crate) fn frozen_s(&self) -> &[f64] {
        &self.frozen_s
    }

    /// Waits until the last snapshot is stored.
    fn stored(&mut self) -> Result<()> {
        let Some(job) = self.storing.take() else { return Ok(()) };
        let job = self.daemon.ended(&job)?;
        let commit = job["result"]["commit"].as_str().with_context(|| format!("no snapshot: {job}"))?;
        self.commits.push(commit.to_owned());
        let frozen = job["result"]["frozen_us"].as_f64().context("a snapshot without a time")?;
        self.frozen_s.push(frozen / 1e6);
        Ok(())
    }
}

impl Contender for Ours {
    /// As the Jupyter server does it: when the reply is there a snapshot is asked for, and the next cell may run as soon as the kernel does not stand
    /// still any more. It is stored beside the next cell; a cell that is over before has to wait for that.
    fn cell(&mut self, code: &str) -> Result<f64> {
        let (_, took) = timed(|| {
            self.client.time(&self.file, code)?;
            self.stored()?;
            let request = json!({ "reason": "after-cell", "variables": false });
            let job =
                self.daemon.call("POST", &format!("/v1/sessions/{}/snapshot", self.id), Some(&request))?;
            let job = job["id"].as_str().context("a job without id")?.to_owned();
            self.daemon.past_step(&job, "freeze and dump")?;
            self.storing = Some(job);
            Ok(())
        })?;
        Ok(took.wall_s)
    }

    fn back_to(&mut self, cell: usize) -> Result<Option<f64>> {
        self.stored()?;
        let to = self.commits.get(cell - 1).context("no snapshot after that cell")?;
        let (daemon, client, file) = (&self.daemon, &mut self.client, &self.file);
        let (outcome, took) = timed(|| {
            let outcome = daemon.job(&format!("/v1/sessions/{}/rollback", self.id), &json!({ "to": to }))?;
            client.ask(file, "", "None")?;
            Ok(outcome)
        })?;
        self.steps = outcome["steps"].clone();
        Ok(Some(took.wall_s))
    }

    fn steps(&self) -> Value {
        self.steps.clone()
    }

    /// All that the daemon keeps, not only its store.
    fn disk(&self) -> Result<u64> {
        Ok(tree_size(&self.daemon.state())?.allocated)
    }

    fn told(&mut self) -> Result<Value> {
        told(|value| self.client.ask(&self.file, "", value))
    }
}

fn told(mut look: impl FnMut(&str) -> Result<String>) -> Result<Value> {
    let said = look("__import__('probe').told(globals())")?;
    serde_json::from_str(said.trim_matches('\'')).with_context(|| format!("not to be read: {said}"))
}

/// The directory that a kernel works in.
fn lay_out(user: &User, dir: &Path) -> Result<()> {
    for (name, text) in [("probe.py", PROBE), ("saving.py", SAVING), ("day.ipynb", NOTEBOOK)] {
        fs::write(dir.join(name), text)?;
        user.give(&dir.join(name))?;
    }
    Ok(())
}
