//! `install`: from nothing to a first snapshot, as an ordinary user does it, each step timed.
//!
//! The wheels are those that `INFINIJUP_WHEEL` and `INFINIJUP_CRIU_WHEEL` name; `bench/run` builds them if they are not given. What comes from
//! the Python index is downloaded first and timed apart: that depends on the line, not on us.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::live::{Unable, User, output};
use crate::measure::{Timed, timed, tree_size};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

/// What is there when somebody begins: Debian's own.
const PYTHON: &str = "/usr/bin/python3";

/// Seconds from an empty home to a session that went back to its first snapshot, without the download.
const BAR_S: f64 = 120.0;

/// Installs, asks the doctor, takes the first snapshot.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let wheels = Wheels::given()?;
    let user = User::make()?;
    has_no_privilege(&user)?;
    let mut steps = Steps { run, done: Vec::new() };
    let venv = user.home().join("lab");

    steps.time("virtual environment", user.command(PYTHON).args(["-m", "venv"]).arg(&venv))?;
    let store = wheels.copy_for(&user)?;
    let packages = ["infinijup[criu]", "jupyterlab"];
    let pip = |verb: &str| {
        let mut command = user.command(venv.join("bin/pip"));
        command.args(["--disable-pip-version-check", "--no-input", verb, "--quiet", "--find-links"]);
        command.arg(&store);
        command
    };
    let download = steps.apart(pip("download").arg("--dest").arg(&store).args(packages))?;
    steps.time("pip install", pip("install").arg("--no-index").args(packages))?;
    let said = steps.time("infinijup --version", infinijup(&user, &venv).arg("--version"))?;
    ensure!(said.starts_with("infinijup "), "`infinijup --version` said {said:?}");
    let first_use = first_use(&mut steps, &user, &venv)?;

    let total: f64 = steps.done.iter().map(|(_, took)| took.wall_s).sum();
    let privileged = privileged_files(&venv)?;
    Ok(Report {
        name: "install",
        bars: vec![
            Bar::at_most(Kind::Speed, "from nothing to a first snapshot", total, "s", BAR_S),
            Bar::at_most(
                Kind::Count,
                "files that give a privilege",
                f64::from(u32::try_from(privileged.len())?),
                "files",
                0.0,
            ),
        ],
        compared_with: json!({
            "steps": steps.json(), "download": download, "first_use": first_use, "privileged_files": privileged,
        }),
        sizes: json!({ "wheels": wheels.sizes()?, "installed": tree_size(&venv)? }),
    })
}

/// Nothing that is timed here may have worked by a right that the user does not have.
fn has_no_privilege(user: &User) -> Result<()> {
    let status = output(user.command("cat").arg("/proc/self/status"))?;
    for (field, value) in
        [("CapPrm", "0000000000000000"), ("CapEff", "0000000000000000"), ("NoNewPrivs", "1")]
    {
        let found = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"));
        ensure!(found == Some(value), "{field} of the user's programs is {found:?}, not {value}");
    }
    Ok(())
}

/// What comes after the install: the doctor's word, a kernel, a snapshot of it and the way back. Tells what was done.
///
/// A command that cannot start a daemon has to be given one, which is no part of an install: then there is nothing to time.
fn first_use(steps: &mut Steps<'_>, user: &User, venv: &Path) -> Result<Value> {
    let can_start = infinijup(user, venv).args(["daemon", "--help"]).output()?.status.success();
    if !can_start {
        return Ok(json!("not timed: this command does not start a daemon by itself"));
    }
    let said = steps.time("infinijup doctor", infinijup(user, venv).arg("doctor"))?;
    let verdict = said.lines().next().unwrap_or_default().to_owned();
    steps.time("first kernel", infinijup(user, venv).args(["kernel", "start", "--name", "first"]))?;
    steps.time("first snapshot", infinijup(user, venv).args(["snapshot", "first"]))?;
    steps.time("back to it", infinijup(user, venv).args(["rollback", "first", "first"]))?;
    Ok(json!(verdict))
}

fn infinijup(user: &User, venv: &Path) -> Command {
    let mut command = user.command(venv.join("bin/infinijup"));
    // As in an environment that was activated: kernels are looked for beside the Python that is found first.
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", venv.join("bin").display()));
    command.env("VIRTUAL_ENV", venv);
    command
}

struct Steps<'a> {
    run: &'a Run,
    done: Vec<(&'static str, Timed)>,
}

impl Steps<'_> {
    /// Runs a step to its end; what it printed.
    fn time(&mut self, name: &'static str, command: &mut Command) -> Result<String> {
        let (said, took) = timed(|| output(command))?;
        self.run.say(&format!("install: {name}: {} s", round(took.wall_s)));
        self.done.push((name, took));
        Ok(said)
    }

    /// One that is not part of the sum.
    fn apart(&self, command: &mut Command) -> Result<Timed> {
        let (_, took) = timed(|| output(command))?;
        self.run.say(&format!("install: download, timed apart: {} s", round(took.wall_s)));
        Ok(took)
    }

    /// In their order.
    fn json(&self) -> Value {
        let step = |(name, took): &(&str, Timed)| json!({ "step": name, "wall_s": round(took.wall_s), "cpu_s": round(took.cpu_s) });
        self.done.iter().map(step).collect()
    }
}

/// The wheels to install.
struct Wheels(Vec<PathBuf>);

impl Wheels {
    fn given() -> Result<Self> {
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

    fn sizes(&self) -> Result<Value> {
        let size = |path: &PathBuf| {
            let name = path.file_name().context("a wheel without a name")?.to_string_lossy().into_owned();
            Ok((name, json!(fs::metadata(path)?.len())))
        };
        self.0.iter().map(size).collect()
    }
}

/// Everything below a directory, but not what links lead to.
fn below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                todo.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Files that make who runs them somebody else, or give them capabilities.
fn privileged_files(dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in below(dir)? {
        let data = fs::symlink_metadata(&path)?;
        let by_mode = data.is_file() && data.mode() & 0o6000 != 0;
        let by_capability = rustix::fs::lgetxattr(&path, "security.capability", &mut [0_u8; 64]).is_ok();
        if by_mode || by_capability {
            found.push(path.display().to_string());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setuid_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        for (name, mode) in [("plain", 0o755), ("bin/setuid", 0o4755), ("bin/setgid", 0o2755)] {
            fs::write(dir.path().join(name), "").unwrap();
            fs::set_permissions(dir.path().join(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        let found = privileged_files(dir.path()).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|path| path.contains("/bin/set")), "{found:?}");
    }
}
