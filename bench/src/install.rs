//! `install`: from nothing to a first snapshot, as an ordinary user does it, each step timed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::installation::{Steps, Wheels, infinijup, install};
use crate::live::{User, output};
use crate::measure::tree_size;
use crate::report::{Bar, Kind, Report};
use crate::run::Run;

/// Seconds from an empty home to a session that went back to its first snapshot, without the download.
const BAR_S: f64 = 120.0;

/// Installs, asks the doctor, takes the first snapshot.
pub(crate) fn run(run: &Run) -> Result<Report> {
    let wheels = Wheels::given()?;
    let user = User::make()?;
    has_no_privilege(&user)?;
    let mut steps = Steps::of("install", run);
    let (venv, download) = install(&mut steps, &user, &wheels)?;
    let said = steps.time("infinijup --version", infinijup(&user, &venv).arg("--version"))?;
    ensure!(said.starts_with("infinijup "), "`infinijup --version` said {said:?}");
    let first_use = first_use(&mut steps, &user, &venv)?;

    let privileged = privileged_files(&venv)?;
    Ok(Report {
        name: "install",
        bars: vec![
            Bar::at_most(Kind::Speed, "from nothing to a first snapshot", steps.total(), "s", BAR_S),
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
    use std::os::unix::fs::PermissionsExt;

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
