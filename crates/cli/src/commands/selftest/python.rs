//! The Python that runs in the sessions, and the directory that they run in.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// What runs in a session.
const PROGRAM: &str = include_str!("program.py");

/// Says which of the packages that matter are there.
const VERSIONS: &str = r#"
import importlib.metadata, json, sys
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
names = ["cuda-bindings", "cuda-core", "nvidia-cuda-nvrtc", "torch", "numpy"]
print(json.dumps({"python": sys.version.split()[0], **{name: version(name) for name in names}}))
"#;

/// Where a Python with NVIDIA's packages is looked for when none is named, before the one in the path.
const USUAL: &str = "/opt/infinijup/gpu-venv/bin/python";

/// A directory for the sessions: the program, and questions and answers.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
}

impl Place {
    /// Makes it. A session sees the machine's `/tmp`, but not its `/run`.
    pub(super) fn make() -> Result<Self> {
        let base = std::env::temp_dir();
        let path = base.join(format!("infinijup-selftest-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make `{}`", path.display()))?;
        let place = Self { path };
        fs::set_permissions(&place.path, fs::Permissions::from_mode(0o700)).context("cannot set its mode")?;
        Ok(place)
    }

    /// A directory for one session, with the program in it.
    pub(super) fn for_session(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir(&path).with_context(|| format!("cannot make `{}`", path.display()))?;
        let program = path.join("program.py");
        fs::write(&program, PROGRAM).with_context(|| format!("cannot write `{}`", program.display()))?;
        Ok(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nothing is ever mounted here: branches have their copies in the daemon's own directories.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The Python to use: the one that was named, the usual one, or the first in the path.
pub(super) fn find(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        // Not canonical: the link in a virtual environment says which environment it is.
        return std::path::absolute(path).context("cannot tell where the Python is");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join("python3"));
    std::iter::once(PathBuf::from(USUAL))
        .chain(in_path)
        .find(|path| path.is_file())
        .context("there is no python3; name one with --python")
}

/// Versions of what is in it, by name; `None` for what is not there.
pub(super) fn versions(python: &Path) -> Result<BTreeMap<String, Option<String>>> {
    let output = Command::new(python)
        .args(["-c", VERSIONS])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{}`", python.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed: {}", python.display(), said.lines().last().unwrap_or("it said nothing"));
    }
    serde_json::from_slice(&output.stdout).context("it said nothing that makes sense")
}
