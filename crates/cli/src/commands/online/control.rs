//! `restart`, `signal`

use anyhow::Result;
use api::{JobResult, Nothing, RestartRequest, SessionView, SignalRequest, Start, Text};
use serde::Serialize;

use super::client::session_path;
use super::job::expect_result;
use super::ps::One;
use super::{Message, Online, show, start};
use crate::args::{RestartArgs, SignalArgs};
use crate::error::CliError;
use crate::format;

pub(super) fn restart(online: &Online<'_>, args: RestartArgs) -> Result<()> {
    let path = session_path(&args.which.session);
    let request = RestartRequest {
        start: if args.command.is_empty() {
            let session: SessionView = online.get(path.clone())?;
            kernel(session, args.spec)?
        } else {
            Start::Command { argv: args.command.into_iter().map(Text::from).collect() }
        },
        env: start::environment(),
        cwd: None,
        grace_ms: Some(args.grace.saturating_mul(1000)),
        snapshot: args.snapshot,
    };
    let result = online.post_job(format!("{path}/restart"), &request)?;
    let session = expect_result!(result, JobResult::Session(session) => session);
    let line = format!("{} is {}", format::safe(&session.name), show::state(&session));
    let message = Message { message_type: "restarted", content: One { session: &session } };
    Ok(online.printer().data(&message, &[line])?)
}

/// The kernelspec that a session was started from, or another.
fn kernel(session: SessionView, spec: Option<String>) -> Result<Start> {
    let Some(kernel) = session.kernel else {
        let what = format!("{} is no kernel: say which command to run, after `--`", session.name);
        return Err(CliError::Usage { what }.into());
    };
    Ok(Start::kernel(spec.or(kernel.kernel_name)))
}

#[derive(Serialize)]
struct Signalled<'a> {
    session: &'a str,
}

pub(super) fn signal(online: &Online<'_>, args: &SignalArgs) -> Result<()> {
    let request = SignalRequest { signal: args.signal, group: !args.alone };
    let path = format!("{}/signal", session_path(&args.which.session));
    let _sent: Nothing = online.post(path, &request)?;
    let message = Message { message_type: "signalled", content: Signalled { session: &args.which.session } };
    Ok(online.printer().data(&message, &[])?)
}
