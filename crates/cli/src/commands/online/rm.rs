//! `rm`

use anyhow::Result;
use api::JobResult;

use super::client::{Call, session_path};
use super::job::expect_result;
use super::ps::One;
use super::{Message, Online};
use crate::args::RmArgs;
use crate::format;

/// One after the other; the first that cannot be removed ends it, and those before it are gone.
pub(super) fn run(online: &Online<'_>, args: &RmArgs) -> Result<()> {
    for session in &args.sessions {
        let result = online.job(&Call::delete(session_path(session)))?;
        let session = expect_result!(result, JobResult::Session(session) => session);
        let line = format!("removed {}; its snapshots stay", format::safe(&session.name));
        let message = Message { message_type: "removed", content: One { session: &session } };
        online.printer().data(&message, &[line])?;
    }
    Ok(())
}
