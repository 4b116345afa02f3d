//! `snapshot`

use anyhow::Result;
use api::{JobResult, SnapshotRequest, Text};

use super::attach::session_of;
use super::client::session_path;
use super::job::expect_result;
use super::start::policy;
use super::steps::duration;
use super::{Message, OfSession, Online, show};
use crate::args::SnapshotArgs;
use crate::format;

pub(super) fn run(online: &Online<'_>, args: SnapshotArgs) -> Result<()> {
    let session = session_of(online, args.which)?;
    let shell = |command| vec![Text::from("/bin/sh"), Text::from("-c"), Text::from(command)];
    let request = SnapshotRequest {
        message: args.message,
        tag: args.tag,
        files: policy(args.files)?,
        quiesce: args.quiesce.map(shell),
        thaw: args.thaw,
        ..SnapshotRequest::default()
    };
    let result = online.post_job(format!("{}/snapshot", session_path(&session)), &request)?;
    let outcome = expect_result!(result, JobResult::Snapshot(outcome) => outcome);
    online.warn(&outcome.not_captured, &outcome.warnings);
    online.tell_steps(&outcome.steps);
    let mut line = format!("snapshot {} of {}: ", show::short(&outcome.commit), format::safe(&session));
    line.push_str(&format!("{} of memory", format::size(outcome.memory_bytes)));
    if outcome.vram_bytes > 0 {
        line.push_str(&format!(", {} of it from the GPU", format::size(outcome.vram_bytes)));
    }
    line.push_str(&format!(", {} new in the store", format::size(outcome.new_bytes)));
    line.push_str(&format!(", frozen for {}", duration(outcome.frozen_us)));
    if outcome.gpu_paused_us > 0 {
        line.push_str(&format!(", the GPU paused for {}", duration(outcome.gpu_paused_us)));
    }
    let content = OfSession { session: &session, content: &outcome };
    Ok(online.printer().data(&Message { message_type: "snapshot_taken", content }, &[line])?)
}
