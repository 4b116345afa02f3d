//! `branch`

use anyhow::Result;
use api::{BranchOutcome, BranchRequest, JobResult};
use serde::Serialize;

use super::attach::adopted;
use super::client::session_path;
use super::job::expect_result;
use super::{Message, OfSession, Online, show};
use crate::args::{BranchArgs, Named};
use crate::error::DaemonError;
use crate::format;

#[derive(Serialize)]
struct Branches<'a> {
    branches: &'a [BranchOutcome],
}

/// What the daemon answers if there is no session, or no snapshot, of a name.
const NO_SESSION: &str = "IJ-L010";
const NO_SNAPSHOT: &str = "IJ-L061";

fn says(error: &anyhow::Error, code: &str) -> bool {
    error.downcast_ref::<DaemonError>().is_some_and(|DaemonError(body)| body.code == code)
}

pub(super) fn run(online: &Online<'_>, args: BranchArgs) -> Result<()> {
    let (session, container) = match args.which.named() {
        Named::Session(session) => (session, None),
        // A snapshot may be of another one: then this one only says what the branch is made as.
        Named::Container(container) if args.from.is_some() => (container.which.clone(), Some(container)),
        Named::Container(container) => (adopted(online, container)?, None),
    };
    let request = BranchRequest {
        container,
        from: args.from,
        name: args.name,
        count: args.count,
        gpus: args.gpus,
        notebook: None,
        force: args.force,
        map: args.map,
    };
    let path = match &request.container {
        Some(_) => "/v1/branches".to_owned(),
        None => format!("{}/branch", session_path(&session)),
    };
    let result = match online.post_job(path, &request) {
        Err(error) if request.from.is_none() && says(&error, NO_SESSION) => {
            let request = BranchRequest { from: Some(session.clone()), ..request };
            match online.post_job("/v1/branches".to_owned(), &request) {
                // It is neither, and sessions are what the command is about.
                Err(other) if says(&other, NO_SNAPSHOT) => Err(error),
                made => made,
            }
        }
        made => made,
    }?;
    let branches = expect_result!(result, JobResult::Branch { branches } => branches);
    let mut rows = Vec::new();
    for branch in &branches {
        let name = format::safe(&branch.session.name);
        if !online.printer().is_json() {
            for path in &branch.shared {
                let path = show::text(path);
                online.printer().warning(&format!("{name} shares `{path}` with the original"));
            }
            for warning in &branch.warnings {
                online.printer().warning(&format!("{name}: {}", format::safe(warning)));
            }
        }
        online.tell_steps(&branch.steps);
        let place = match (&branch.session.kernel, &branch.session.workspace) {
            (Some(kernel), _) => show::text(&kernel.connection_file),
            (None, Some(workspace)) => show::text(workspace),
            (None, None) => String::new(),
        };
        rows.push(vec![name, branch.session.state.as_str().to_owned(), place]);
    }
    let content = OfSession { session: &session, content: Branches { branches: &branches } };
    let lines = format::table(&rows, &[]);
    Ok(online.printer().data(&Message { message_type: "branched", content }, &lines)?)
}
