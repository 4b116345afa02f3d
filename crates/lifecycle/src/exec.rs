//! A command inside a running session, beside its own.

use api::{ExecOutcome, ExecRequest};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::words;

impl Engine {
    /// Runs a command in the namespaces of a session as its owner. It is not part of the session: a snapshot that is taken
    /// meanwhile does not contain it.
    pub fn exec(&self, which: &str, request: &ExecRequest) -> Result<ExecOutcome> {
        let record = self.find(which)?;
        record.living_init("run a command")?;
        if request.argv.is_empty() {
            return Err(LifecycleError::BadRequest { detail: "there is no command to run".to_owned() });
        }
        let (command, env) = (words::argv(&request.argv), words::environment(&request.env));
        let output = self.habitat(&record).exec(&record, &command, &env, "run a command")?;
        let (stdout, stderr) = (output.stdout.into(), output.stderr.into());
        Ok(ExecOutcome { status: exit_code(&output.status), stdout, stderr })
    }
}

/// As a shell would say it.
pub(crate) fn exit_code(status: &std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
