//! Starting a box, seen from the daemon: hand the plan to the helper, read its report.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};
use crate::process::{self, Identity};
use crate::program::Program;
use crate::spec::{BoxSpec, EXIT_FILE, Launched, Plan, ROOT_PID};

/// What the launching helper says in the end, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The box is up, and this is its holder.
    Up(Identity),
    /// It is not, and nothing is left of it.
    Failed(String),
}

/// Starts a box. When this returns, its commands have been started inside, if it has any.
///
/// The box is nobody's child in particular: its holder falls to the nearest subreaper above the caller, and it does not end with
/// the caller.
pub fn launch(program: &Program, spec: &BoxSpec<'_>) -> Result<Launched> {
    let failed = |detail: String| SandboxError::Launch { id: spec.id.clone(), detail };
    let plan = serde_json::to_vec(&Plan::new(spec)?).map_err(|error| failed(error.to_string()))?;
    let mut helper = program.role("launch").spawn().map_err(SandboxError::io("run", program.path()))?;
    if let Some(mut stdin) = helper.stdin.take() {
        // A helper that died early says why below.
        let _ = stdin.write_all(&plan);
    }
    let output = helper.wait_with_output().map_err(SandboxError::io("wait for", program.path()))?;
    let holder = match serde_json::from_slice(&output.stdout) {
        Ok(Report::Up(holder)) => holder,
        Ok(Report::Failed(detail)) => return Err(failed(detail)),
        Err(_) => {
            let detail = format!("the helper ended early ({}): {}", output.status, last_line(&output.stderr));
            return Err(failed(detail));
        }
    };
    let root = match spec.commands {
        // A root that has ended by now takes the holder with it, which then stands for it.
        Some(_) => Some(root_of(holder)?.unwrap_or(holder)),
        None => None,
    };
    Ok(Launched { holder, root })
}

/// The first process of the tree in the box of this holder, as the machine numbers it.
pub fn root_of(holder: Identity) -> Result<Option<Identity>> {
    // The tree's root is the holder's own child, after a start and, when CRIU has ended, after a restore.
    let is_root =
        |one: &process::ProcessInfo| one.namespace_pids.last() == Some(&ROOT_PID) && one.ppid == holder.pid;
    if !holder.is_alive() {
        return Ok(None);
    }
    Ok(process::children(holder.pid)?.iter().find(|one| is_root(one)).map(process::ProcessInfo::identity))
}

/// The holders of boxes on this directory: mostly one, or none. A daemon that was killed in the middle of a start finds by this
/// what it had made and not yet written down.
pub fn holders_of(box_dir: &Path) -> Result<Vec<Identity>> {
    use std::os::unix::ffi::OsStrExt;
    let own = rustix::process::geteuid().as_raw();
    let mut found = Vec::new();
    for one in process::all()? {
        if one.uid != own || one.namespace_pids.last() != Some(&1) || one.namespace_pids.len() < 2 {
            continue;
        }
        let words = std::fs::read(format!("/proc/{}/cmdline", one.pid)).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0).skip(1);
        if words.next() == Some(b"holder") && words.next() == Some(box_dir.as_os_str().as_bytes()) {
            found.push(one.identity());
        }
    }
    Ok(found)
}

/// The exit status that the box's first process has recorded: as a shell would give it, 128 and more for a signal.
///
/// The session can write to that directory, so the file is opened without waiting for anybody, and believed only as far as it
/// is a small number.
pub fn recorded_exit(box_dir: &Path) -> Option<i32> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(box_dir.join(EXIT_FILE), flags, Mode::empty()).ok()?;
    let mut text = [0; 16];
    let length = rustix::io::read(&fd, &mut text).ok()?;
    let status = std::str::from_utf8(text.get(..length)?).ok()?.trim().parse().ok();
    status.filter(|status| (0..=255).contains(status))
}

/// Forgets the exit status of an earlier command, before another one runs in the same box.
pub fn forget_exit(box_dir: &Path) -> Result<()> {
    let path = box_dir.join(EXIT_FILE);
    match std::fs::remove_file(&path) {
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
