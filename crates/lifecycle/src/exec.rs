//! A command inside a running session, beside its own.

use std::ffi::OsString;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};

/// How a command inside ended.
#[derive(Clone, Debug)]
pub struct ExecOutcome {
    /// Its exit status, or 128 + the signal that ended it.
    pub status: i32,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What it complained about.
    pub stderr: Vec<u8>,
}

impl Engine {
    /// Runs a command in the namespaces of a session as its owner. It is not part of the session: a snapshot that is taken
    /// meanwhile does not contain it.
    pub fn exec(
        &self,
        which: &str,
        command: &[OsString],
        env: &[(OsString, OsString)],
    ) -> Result<ExecOutcome> {
        let record = self.find(which)?;
        record.living_init("run a command")?;
        if command.is_empty() {
            return Err(LifecycleError::BadRequest { detail: "there is no command to run".to_owned() });
        }
        let output = self.habitat(&record).exec(&record, command, env, "run a command")?;
        Ok(ExecOutcome { status: exit_code(&output.status), stdout: output.stdout, stderr: output.stderr })
    }
}

/// As a shell would say it.
pub(crate) fn exit_code(status: &std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
