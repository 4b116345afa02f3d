//! `stop`

use anyhow::Result;
use api::{JobResult, StopRequest};

use super::client::session_path;
use super::job::expect_result;
use super::ps::One;
use super::{Message, Online, show};
use crate::args::StopArgs;
use crate::format;

/// One after the other; the first that cannot be stopped ends it, and those before it are stopped.
pub(super) fn run(online: &Online<'_>, args: &StopArgs) -> Result<()> {
    let request = StopRequest { grace_ms: Some(args.grace.saturating_mul(1000)) };
    for session in &args.sessions {
        let result = online.post_job(format!("{}/stop", session_path(session)), &request)?;
        let session = expect_result!(result, JobResult::Session(session) => session);
        let line = format!("{} is {}", format::safe(&session.name), show::state(&session));
        let message = Message { message_type: "stopped", content: One { session: &session } };
        online.printer().data(&message, &[line])?;
    }
    Ok(())
}
