//! Starting a box, seen from the daemon: hand the plan to the helper, read its report.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};
use crate::program::Program;
use crate::spec::{BoxSpec, EXIT_FILE, Launched, Plan};
use crate::user::{User, as_user};

/// What the launching helper says in the end, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The box is up.
    Up(Launched),
    /// It is not, and nothing is left of it.
    Failed(String),
}

/// Starts a box. When this returns, the main command and the sidecars have been started inside.
///
/// The box is nobody's child in particular: it falls to the nearest subreaper above the caller, and it does not end with the
/// caller. The [`Root`](crate::Root) is no longer needed afterwards.
pub fn launch(program: &Program, spec: &BoxSpec<'_>) -> Result<Launched> {
    let failed = |detail: String| SandboxError::Launch { id: spec.id.clone(), detail };
    let plan = serde_json::to_vec(&Plan::new(spec)?).map_err(|error| failed(error.to_string()))?;
    let mut helper = program.role("launch").spawn().map_err(SandboxError::io("run", program.path()))?;
    if let Some(mut stdin) = helper.stdin.take() {
        // A helper that died early says why below.
        let _ = stdin.write_all(&plan);
    }
    let output = helper.wait_with_output().map_err(SandboxError::io("wait for", program.path()))?;
    match serde_json::from_slice(&output.stdout) {
        Ok(Report::Up(launched)) => Ok(launched),
        Ok(Report::Failed(detail)) => Err(failed(detail)),
        Err(_) => {
            Err(failed(format!("the helper ended early ({}): {}", output.status, last_line(&output.stderr))))
        }
    }
}

/// The exit status that the box's init has recorded: as a shell would give it, 128 and more for a signal.
///
/// The directory is the user's to write to, so the file is read with the user's rights and believed only as far as it is a
/// small number.
pub fn recorded_exit(user: &User, box_dir: &Path) -> Result<Option<i32>> {
    use rustix::fs::{Mode, OFlags};
    let path = box_dir.join(EXIT_FILE);
    as_user(user, || {
        let fd = rustix::fs::open(
            &path,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        let mut text = [0; 16];
        let length = rustix::io::read(&fd, &mut text).ok()?;
        std::str::from_utf8(text.get(..length)?)
            .ok()?
            .trim()
            .parse()
            .ok()
            .filter(|status| (0..=255).contains(status))
    })
}

/// Forgets the exit status of an earlier command, before another one runs in the same box.
pub fn forget_exit(user: &User, box_dir: &Path) -> Result<()> {
    let path = box_dir.join(EXIT_FILE);
    match as_user(user, || std::fs::remove_file(&path))? {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SandboxError::io("remove", &path)(error))
        }
        _ => Ok(()),
    }
}

/// The last line that a helper wrote to stderr, for messages.
pub(crate) fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned()
}
