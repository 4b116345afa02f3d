//! An installation as an ordinary user makes it, step by step: a virtual environment, and pip.
//!
//! The wheels are those that `INFINIJUP_WHEEL` and `INFINIJUP_CRIU_WHEEL` name; `bench/run` builds them if they are not given. What comes from
//! the Python index is downloaded first and timed apart: that depends on the line, not on us.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::live::{Unable, User, output};
use crate::measure::{Timed, timed};
use crate::report::round;
use crate::run::Run;

/// What is there when somebody begins: Debian's own.
const PYTHON: &str = "/usr/bin/python3";

/// Makes a virtual environment in the user's home and installs both wheels and JupyterLab there. Where it is, and how long pip downloaded.
pub(crate) fn install(steps: &mut Steps<'_>, user: &User, wheels: &Wheels) -> Result<(PathBuf, Timed)> {
    let venv = user.home().join("lab");
    steps.time("virtual environment", user.command(PYTHON).args(["-m", "venv"]).arg(&venv))?;
    let store = wheels.copy_for(user)?;
    let packages = ["infinijup[criu]", "jupyterlab"];
    let pip = |verb: &str| {
        let mut command = user.command(venv.join("bin/pip"));
        command.args(["--disable-pip-version-check", "--no-input", verb, "--quiet", "--find-links"]);
        command.arg(&store);
        command
    };
    let download = steps.apart(pip("download").arg("--dest").arg(&store).args(packages))?;
    steps.time("pip install", pip("install").arg("--no-index").args(packages))?;
    Ok((venv, download))
}

/// The command of an installation.
pub(crate) fn infinijup(user: &User, venv: &Path) -> Command {
    let mut command = user.command(venv.join("bin/infinijup"));
    // As in an environment that was activated: kernels are looked for beside the Python that is found first.
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", venv.join("bin").display()));
    command.env("VIRTUAL_ENV", venv);
    command
}

/// What was done, and how long each step took.
pub(crate) struct Steps<'a> {
    name: &'static str,
    run: &'a Run,
    done: Vec<(&'static str, Timed)>,
}

impl<'a> Steps<'a> {
    /// Of a benchmark of this name.
    pub(crate) const fn of(name: &'static str, run: &'a Run) -> Self {
        Self { name, run, done: Vec::new() }
    }

    /// Does a step that is no command.
    pub(crate) fn act<T>(&mut self, step: &'static str, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let (done, took) = timed(act)?;
        self.run.say(&format!("{}: {step}: {} s", self.name, round(took.wall_s)));
        self.done.push((step, took));
        Ok(done)
    }

    /// Of all steps together, in seconds.
    pub(crate) fn total(&self) -> f64 {
        self.done.iter().map(|(_, took)| took.wall_s).sum()
    }

    /// Runs a step to its end; what it printed.
    pub(crate) fn time(&mut self, step: &'static str, command: &mut Command) -> Result<String> {
        self.act(step, || output(command))
    }

    /// One that is not part of the sum.
    fn apart(&self, command: &mut Command) -> Result<Timed> {
        let (_, took) = timed(|| output(command))?;
        self.run.say(&format!("{}: download, timed apart: {} s", self.name, round(took.wall_s)));
        Ok(took)
    }

    /// In their order.
    pub(crate) fn json(&self) -> Value {
        let step = |(name, took): &(&str, Timed)| json!({ "step": name, "wall_s": round(took.wall_s), "cpu_s": round(took.cpu_s) });
        self.done.iter().map(step).collect()
    }
}

/// The wheels to install.
pub(crate) struct Wheels(Vec<PathBuf>);

impl Wheels {
    pub(crate) fn given() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!(Unable("it needs root, to make an ordinary user".to_owned()));
        }
        let named = |variable: &str| {
            let path = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_file());
            path.ok_or_else(|| {
                Unable(format!("it needs a wheel named by {variable}: scripts/build-wheel.sh --criu"))
            })
        };
        Ok(Self(vec![named("INFINIJUP_WHEEL")?, named("INFINIJUP_CRIU_WHEEL")?]))
    }

    /// In a directory of the user's, where pip finds them and puts the others.
    fn copy_for(&self, user: &User) -> Result<PathBuf> {
        let store = user.home().join("wheels");
        crate::live::must(user.command("mkdir").arg(&store))?;
        for wheel in &self.0 {
            let copy = store.join(wheel.file_name().context("a wheel without a name")?);
            fs::copy(wheel, &copy)?;
            fs::set_permissions(&copy, PermissionsExt::from_mode(0o644))?;
        }
        Ok(store)
    }

    pub(crate) fn sizes(&self) -> Result<Value> {
        let size = |path: &PathBuf| {
            let name = path.file_name().context("a wheel without a name")?.to_string_lossy().into_owned();
            Ok((name, json!(fs::metadata(path)?.len())))
        };
        self.0.iter().map(size).collect()
    }
}
