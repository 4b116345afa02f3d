//! `exec`

use anyhow::Result;
use api::{ExecRequest, JobResult, Text};

use super::client::session_path;
use super::job::expect_result;
use super::start::environment;
use super::{Message, OfSession, Online, show};
use crate::args::ExecArgs;

pub(super) fn run(online: &Online<'_>, args: ExecArgs) -> Result<u8> {
    let session = args.which.session;
    let request =
        ExecRequest { argv: args.command.into_iter().map(Text::from).collect(), env: environment() };
    let result = online.post_job(format!("{}/exec", session_path(&session)), &request)?;
    let outcome = expect_result!(result, JobResult::Exec(outcome) => outcome);
    if online.printer().is_json() {
        let content = OfSession { session: &session, content: &outcome };
        online.printer().json(&Message { message_type: "exec_result", content })?;
    } else {
        online.printer().bytes(outcome.stdout.as_bytes())?;
        online.printer().flush()?;
        online.printer().error_bytes(outcome.stderr.as_bytes());
    }
    Ok(show::exit_code(outcome.status))
}
