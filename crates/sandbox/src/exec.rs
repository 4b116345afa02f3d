//! Running something in a box that is up, and the words that run CRIU with a user's real ids.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::Output;

use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroup;
use crate::error::{Result, SandboxError};
use crate::launch::last_line;
use crate::program::Program;
use crate::user::User;

/// How much of each stream [`exec_in`] keeps; the rest is read and dropped.
pub const OUTPUT_LIMIT: u64 = 16 << 20;

/// The helper ends so when it could not even start the command, as `docker exec` does.
pub(crate) const ENTER_FAILED: u8 = 125;

/// What the entering helper reads from stdin.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) command: Vec<OsString>,
    pub(crate) cwd: OsString,
    pub(crate) env: Vec<(OsString, OsString)>,
}

/// Runs a command inside the box whose first process is `init`, as the user, and waits for it.
///
/// It gets no stdin. Its output goes through pipes to us, so CRIU cannot dump the box while it runs. The status is the
/// command's, as a shell would give it. There is no time limit: a caller who needs one wraps the command in `timeout`.
pub fn exec_in(
    program: &Program,
    init: i32,
    user: &User,
    command: &[OsString],
    cwd: &Path,
    env: &[(OsString, OsString)],
) -> Result<Output> {
    let failed = |detail: String| SandboxError::Enter { pid: init, detail };
    let entry = Entry {
        pid: init,
        uid: user.uid,
        gid: user.gid,
        groups: user.groups.clone(),
        command: command.to_vec(),
        cwd: cwd.as_os_str().to_owned(),
        env: env.to_vec(),
    };
    if entry.command.is_empty() {
        return Err(failed("the command has no words".to_owned()));
    }
    let entry = serde_json::to_vec(&entry).map_err(|error| failed(error.to_string()))?;
    let mut helper = program.role("enter").spawn().map_err(SandboxError::io("run", program.path()))?;
    if let Some(mut stdin) = helper.stdin.take() {
        // A helper that died early says why below.
        let _ = std::io::Write::write_all(&mut stdin, &entry);
    }
    let (stdout, stderr) = (helper.stdout.take(), helper.stderr.take());
    let (stdout, stderr) = std::thread::scope(|scope| {
        let other = scope.spawn(|| drain(stderr));
        (drain(stdout), other.join().unwrap_or_default())
    });
    let status = helper.wait().map_err(SandboxError::io("wait for", program.path()))?;
    if status.code() == Some(i32::from(ENTER_FAILED)) && stderr.starts_with(FAILURE_MARK.as_bytes()) {
        return Err(failed(last_line(&stderr).trim_start_matches(FAILURE_MARK).to_owned()));
    }
    Ok(Output { status, stdout, stderr })
}

/// How the helper's own complaints begin.
pub(crate) const FAILURE_MARK: &str = "infinijup-box: ";

fn drain(stream: Option<impl Read>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut stream) = stream {
        // A stream that breaks off ends the output, nothing more.
        let _ = stream.by_ref().take(OUTPUT_LIMIT).read_to_end(&mut kept);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
    kept
}

/// The words to put before `criu …` so that it may dump and restore this user's processes.
///
/// Without `CAP_SYS_RESOURCE` the kernel lets a process read or set another's limits only if their real ids are equal. So
/// the helper takes the user's *real* ids and keeps root's effective and saved ones, with all capabilities. It also
/// * joins the box's control group first, so that restored processes are born in it;
/// * lends `kdat`, CRIU's notes about the kernel, as `/run/criu.kdat`: CRIU would otherwise probe the kernel each time, and one of
///   its probes (libnftables) ends a process whose real and effective ids differ.
pub fn real_ids_runner(
    program: &Program,
    user: &User,
    kdat: &Path,
    cgroup: Option<&Cgroup>,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![program.path().into(), "real-ids".into()];
    words.extend(["--uid".into(), user.uid.to_string().into(), "--gid".into(), user.gid.to_string().into()]);
    words.extend(["--kdat".into(), kdat.into()]);
    for path in cgroup.map(Cgroup::paths).unwrap_or_default() {
        words.extend(["--cgroup".into(), path.into()]);
    }
    words.push("--".into());
    words
}
