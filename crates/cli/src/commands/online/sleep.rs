//! `suspend`, `resume`

use anyhow::Result;
use api::{JobResult, ResumeRequest, SuspendRequest};

use super::attach::session_of;
use super::client::session_path;
use super::job::expect_result;
use super::ps::One;
use super::start::policy;
use super::{Message, OfSession, Online, ask, show};
use crate::args::{ResumeArgs, SuspendArgs};
use crate::format;

pub(super) fn suspend(online: &Online<'_>, args: SuspendArgs) -> Result<()> {
    let session = session_of(online, args.which)?;
    let session = session.as_str();
    let request = SuspendRequest { files: policy(args.files)?, thaw: args.thaw, ..SuspendRequest::default() };
    let result = online.post_job(format!("{}/suspend", session_path(session)), &request)?;
    let outcome = expect_result!(result, JobResult::Suspend(outcome) => outcome);
    online.tell_steps(&outcome.steps);
    let mut freed = format!("{} of memory", format::size(outcome.freed_bytes));
    if outcome.freed_vram_bytes > 0 {
        freed.push_str(&format!(" and {} of GPU memory", format::size(outcome.freed_vram_bytes)));
    }
    let line = format!(
        "{} is suspended at snapshot {}; {freed} are free again",
        format::safe(session),
        show::short(&outcome.commit),
    );
    let content = OfSession { session, content: &outcome };
    Ok(online.printer().data(&Message { message_type: "suspended", content }, &[line])?)
}

pub(super) fn resume(online: &Online<'_>, args: ResumeArgs) -> Result<()> {
    let path = format!("{}/resume", session_path(&session_of(online, args.which)?));
    let result = ask::before_overwriting(online, args.force, |force| {
        online.post_job(path.clone(), &ResumeRequest { force, gpus: args.gpus.clone() })
    })?;
    let session = expect_result!(result, JobResult::Session(session) => session);
    let pid = session.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
    let line = format!("{} is {}{pid}", format::safe(&session.name), show::state(&session));
    let message = Message { message_type: "resumed", content: One { session: &session } };
    Ok(online.printer().data(&message, &[line])?)
}
