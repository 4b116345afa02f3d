//! What a notebook asks: `%infinijup …`, as a message that its kernel publishes.
//!
//! The content is `{"id", "do", …}` with the arguments of the REST body of the same thing; the answer is `{"id", "ok", "result"}`
//! or `{"id", "ok", "error"}`. What swaps or ends the kernel is answered only if it fails: otherwise nobody is there who asked.

use api::{ErrorBody, SessionPatch, SessionState, StopRequest, TagRequest};
use lifecycle::Asked;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::backend::{Outcome, ask};
use crate::checks::{self, bad};
use crate::error::DaemonError;
use crate::fields::understood;
use crate::operation::{Operation, ToSession};
use crate::server::App;

/// The most snapshots that are listed.
const LOG: usize = 1000;

/// Branches of a kernel that are not needed any more.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Removal {
    /// By id.
    branches: Vec<String>,
}

/// Does what is asked; what the kernel is told, if anything.
pub(super) async fn answer(app: &App, asked: &Asked) -> Option<Value> {
    let silent = matches!(asked.what.as_str(), "restore" | "suspend");
    match run(app, asked).await {
        Ok(_) if silent => None,
        Ok(result) => Some(json!({ "id": asked.id, "ok": true, "result": result })),
        Err(failure) => {
            let ErrorBody { code, message, causes, hint, .. } = *failure.body;
            let error = json!({ "code": code, "message": message, "causes": causes, "hint": hint });
            Some(json!({ "id": asked.id, "ok": false, "error": error }))
        }
    }
}

async fn run(app: &App, asked: &Asked) -> Outcome<Value> {
    let (session, arguments) = (asked.session.to_string(), &asked.arguments);
    let what = match asked.what.as_str() {
        "status" => return said(&ask(&app.backend, move |engine| engine.session(&session)).await?),
        "mark" => {
            let patch: SessionPatch = read(arguments)?;
            checks::patch(&patch)?;
            return said(&ask(&app.backend, move |engine| engine.change(&session, patch)).await?);
        }
        "log" => {
            let limit = arguments.get("limit").and_then(Value::as_u64);
            let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LOG).min(LOG);
            let history =
                move |engine: &dyn crate::Backend| engine.history(Some(&session), false, Some(limit));
            return said(&ask(&app.backend, history).await?);
        }
        "tag" => return said(&tag(app, session, arguments.clone()).await?),
        "remove" => {
            let Removal { branches } = read(arguments)?;
            for branch in branches {
                remove(app, &session, branch).await?;
            }
            return Ok(Value::Null);
        }
        "snapshot" => ToSession::Snapshot(read(arguments)?),
        "restore" => ToSession::Rollback(read(arguments)?),
        "branch" => ToSession::Branch(read(arguments)?),
        "suspend" => ToSession::Suspend(read(arguments)?),
        other => {
            let what = format!("`{}` is nothing that a kernel can ask for", other.escape_debug());
            return Err(bad(what).into());
        }
    };
    let job = app.jobs.submit(Operation::ToSession(session, Box::new(what))).await?.wait().await?;
    said(&job.result)
}

/// Ends a branch of the session and removes it; one that is gone already needs nothing. A kernel has no say in other sessions.
async fn remove(app: &App, session: &str, branch: String) -> Outcome<()> {
    let all = ask(&app.backend, |engine| engine.sessions()).await?;
    let Some(view) = all.into_iter().find(|view| view.id == branch) else { return Ok(()) };
    if view.parent.is_none_or(|parent| parent.session != session) {
        let what = format!("`{}` is no branch of this session", branch.escape_debug());
        return Err(bad(what).into());
    }
    let mut steps = vec![ToSession::Remove { discard_files: false }];
    if matches!(view.state, SessionState::Running | SessionState::Starting) {
        steps.insert(0, ToSession::Stop(StopRequest { grace_ms: Some(0) }));
    }
    for step in steps {
        app.jobs.submit(Operation::ToSession(branch.clone(), Box::new(step))).await?.wait().await?;
    }
    Ok(())
}

/// Tags a snapshot; the session's newest if none is named.
async fn tag(app: &App, session: String, mut arguments: Map<String, Value>) -> Outcome<api::CommitView> {
    if !arguments.contains_key("commit") {
        let head = ask(&app.backend, move |engine| engine.session(&session)).await?.head;
        let head = head.ok_or_else(|| bad("this session has no snapshot yet"))?;
        arguments.insert("commit".to_owned(), head.into());
    }
    let request: TagRequest = read(&arguments)?;
    checks::tag(&request)?;
    ask(&app.backend, move |engine| engine.tag(request)).await
}

/// The arguments as the body of a request.
fn read<T: DeserializeOwned>(arguments: &Map<String, Value>) -> Outcome<T> {
    let bytes = serde_json::to_vec(arguments).map_err(|error| bug(&error))?;
    Ok(understood(&bytes)?)
}

/// An answer as the kernel gets it.
fn said(answer: &impl Serialize) -> Outcome<Value> {
    Ok(serde_json::to_value(answer).map_err(|error| bug(&error))?)
}

fn bug(error: &serde_json::Error) -> DaemonError {
    DaemonError::Bug { detail: format!("what a kernel asks: {error}") }
}
