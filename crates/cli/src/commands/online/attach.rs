//! `attach`, `checkpoint`, `restore`: processes that were not started here.

use std::path::Path;

use anyhow::{Context as _, Result};
use api::{AttachRequest, CheckpointRequest, ContainerName, JobResult, RestoreRequest, Text};

use super::job::expect_result;
use super::ps::One;
use super::steps::duration;
use super::{Message, Online, show};
use crate::args::{AttachArgs, CheckpointArgs, Named, RestoreArgs, WhichOrContainer};
use crate::format;

pub(super) fn attach(online: &Online<'_>, args: AttachArgs) -> Result<()> {
    let request = AttachRequest { pid: Some(args.pid), container: None, name: args.name };
    let result = online.post_job("/v1/attach".to_owned(), &request)?;
    let session = expect_result!(result, JobResult::Session(session) => session);
    let message = Message { message_type: "attached", content: One { session: &session } };
    Ok(online.printer().data(&message, &[format::safe(&session.name)])?)
}

/// The session that was named, or that a container is. It becomes one by this, if it is none.
pub(super) fn session_of(online: &Online<'_>, which: WhichOrContainer) -> Result<String> {
    match which.named() {
        Named::Session(session) => Ok(session),
        Named::Container(container) => adopted(online, container),
    }
}

/// The session that a container is.
pub(super) fn adopted(online: &Online<'_>, container: ContainerName) -> Result<String> {
    let request = AttachRequest { pid: None, container: Some(container), name: None };
    let result = online.post_job("/v1/attach".to_owned(), &request)?;
    let session = expect_result!(result, JobResult::Session(session) => session);
    Ok(session.name)
}

pub(super) fn checkpoint(online: &Online<'_>, args: &CheckpointArgs) -> Result<()> {
    let directory = absolute(&args.directory)?;
    let request = CheckpointRequest { pid: args.pid, directory, leave_running: !args.end };
    let result = online.post_job("/v1/checkpoint".to_owned(), &request)?;
    let outcome = expect_result!(result, JobResult::Checkpoint(outcome) => outcome);
    let line = format!(
        "wrote {} to {}, frozen for {}",
        format::size(outcome.bytes),
        show::text(&outcome.directory),
        duration(outcome.frozen_us)
    );
    Ok(online.printer().data(&Message { message_type: "checkpointed", content: &outcome }, &[line])?)
}

pub(super) fn restore(online: &Online<'_>, args: &RestoreArgs) -> Result<()> {
    let request = RestoreRequest { directory: absolute(&args.directory)? };
    let result = online.post_job("/v1/restore".to_owned(), &request)?;
    let outcome = expect_result!(result, JobResult::Restore(outcome) => outcome);
    let line = outcome.pid.to_string();
    Ok(online.printer().data(&Message { message_type: "restored", content: &outcome }, &[line])?)
}

/// The daemon is in another directory.
fn absolute(path: &Path) -> Result<Text> {
    let path =
        std::path::absolute(path).with_context(|| format!("cannot tell where `{}` is", path.display()))?;
    Ok(path.into())
}
