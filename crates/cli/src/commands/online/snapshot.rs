//! `snapshot`

use anyhow::Result;
use api::{JobResult, SnapshotRequest, Text};

use super::client::session_path;
use super::job::expect_result;
use super::start::policy;
use super::steps::duration;
use super::{Message, OfSession, Online, show};
use crate::args::SnapshotArgs;
use crate::format;

pub(super) fn run(online: &Online<'_>, args: SnapshotArgs) -> Result<()> {
    let session = args.which.session;
    let shell = |command| vec![Text::from("/bin/sh"), Text::from("-c"), Text::from(command)];
    let request = SnapshotRequest {
        message: args.message,
        tag: args.tag,
        files: policy(args.files)?,
        quiesce: args.quiesce.map(shell),
    };
    let result = online.post_job(format!("{}/snapshot", session_path(&session)), &request)?;
    let outcome = expect_result!(result, JobResult::Snapshot(outcome) => outcome);
    online.warn(&outcome.not_captured, &outcome.warnings);
    online.tell_steps(&outcome.steps);
    let line = format!(
        "snapshot {} of {}: {} of memory, {} new in the store, frozen for {}",
        show::short(&outcome.commit),
        format::safe(&session),
        format::size(outcome.memory_bytes),
        format::size(outcome.new_bytes),
        duration(outcome.frozen_us)
    );
    let content = OfSession { session: &session, content: &outcome };
    Ok(online.printer().data(&Message { message_type: "snapshot_taken", content }, &[line])?)
}
