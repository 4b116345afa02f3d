//! A command inside a running session, beside its own.

use api::{ExecOutcome, ExecRequest};
use sandbox::process::as_shell;

use crate::engine::Engine;
use crate::error::Result;
use crate::words;

impl Engine {
    /// Runs a command in the namespaces of a session as its owner. It is not part of the session: a snapshot that is taken
    /// meanwhile does not contain it.
    pub fn exec(&self, which: &str, request: &ExecRequest) -> Result<ExecOutcome> {
        let record = self.find(which)?;
        record.living_init("run a command")?;
        let (command, env) = (words::argv(&request.argv), words::environment(&request.env));
        let output = self.habitat(&record).exec(&record, &command, &env, "run a command")?;
        let (stdout, stderr) = (output.stdout.into(), output.stderr.into());
        Ok(ExecOutcome { status: as_shell(output.status), stdout, stderr })
    }
}
