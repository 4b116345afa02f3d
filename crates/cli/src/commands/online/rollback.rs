//! `rollback`

use anyhow::Result;
use api::{JobResult, RollbackOutcome, RollbackRequest};

use super::attach::session_of;
use super::client::session_path;
use super::job::expect_result;
use super::{Message, OfSession, Online, ask, show};
use crate::args::RollbackArgs;
use crate::format;

pub(super) fn run(online: &Online<'_>, args: RollbackArgs) -> Result<()> {
    let session = session_of(online, args.which)?;
    let request = |force| RollbackRequest {
        to: args.to.clone(),
        force,
        files: !args.no_files,
        note: None,
        notebook: None,
    };
    let outcome =
        ask::before_overwriting(online, args.force, |force| roll_back(online, &session, &request(force)))?;
    let before = outcome.automatic.as_deref().map(show::short);
    if !online.printer().is_json() {
        for path in &outcome.changed_by_others {
            let kept = before.as_ref().map(|id| format!("; that is kept in {id}")).unwrap_or_default();
            online.printer().warning(&format!("`{}` was changed by somebody else{kept}", show::text(path)));
        }
        for connection in &outcome.closed_connections {
            online.printer().warning(&format!("closed: {}", format::safe(connection)));
        }
    }
    online.warn(&[], &outcome.warnings);
    online.tell_steps(&outcome.steps);
    let before = before.map(|id| format!("; how it was before is {id}")).unwrap_or_default();
    let line = format!("{} is at snapshot {}{before}", format::safe(&session), show::short(&outcome.commit));
    let content = OfSession { session: &session, content: &outcome };
    Ok(online.printer().data(&Message { message_type: "rolled_back", content }, &[line])?)
}

fn roll_back(online: &Online<'_>, session: &str, request: &RollbackRequest) -> Result<RollbackOutcome> {
    let result = online.post_job(format!("{}/rollback", session_path(session)), request)?;
    Ok(expect_result!(result, JobResult::Rollback(outcome) => outcome))
}
