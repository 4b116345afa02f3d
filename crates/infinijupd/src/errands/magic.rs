//! What a notebook asks: `%infinijup …`, as a message that its kernel publishes.
//!
//! The content is `{"id", "do", …}` with the arguments of the REST body of the same thing; the answer is `{"id", "ok", "result"}`
//! or `{"id", "ok", "error"}`. What swaps or ends the kernel is answered only if it fails: otherwise nobody is there who asked.

use api::ErrorBody;
use axum::http::Method;
use lifecycle::Asked;
use serde_json::{Map, Value, json};

use super::local::Local;
use crate::error::DaemonError;
use crate::operations::Failure;

/// The most snapshots that are listed.
const LOG: u64 = 1000;

/// Does what is asked; what the kernel is told, if anything.
pub(super) async fn answer(local: &Local, asked: &Asked) -> Option<Value> {
    let silent = matches!(asked.what.as_str(), "restore" | "suspend");
    match run(local, asked).await {
        Ok(_) if silent => None,
        Ok(result) => Some(json!({ "id": asked.id, "ok": true, "result": result })),
        Err(error) => {
            let ErrorBody { code, message, causes, hint, .. } = *error;
            let error = json!({ "code": code, "message": message, "causes": causes, "hint": hint });
            Some(json!({ "id": asked.id, "ok": false, "error": error }))
        }
    }
}

async fn run(local: &Local, asked: &Asked) -> Result<Value, Box<ErrorBody>> {
    let session = format!("/v1/sessions/{}", asked.session);
    let mut arguments = asked.arguments.clone();
    match asked.what.as_str() {
        "status" => local.ask(Method::GET, &session, None).await,
        "mark" => local.ask(Method::PATCH, &session, Some(arguments.into())).await,
        "log" => {
            let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(LOG).min(LOG);
            local.ask(Method::GET, &format!("{session}/history?limit={limit}"), None).await
        }
        "snapshot" => local.job(&format!("{session}/snapshot"), arguments.into()).await,
        "restore" => local.job(&format!("{session}/rollback"), arguments.into()).await,
        "branch" => local.job(&format!("{session}/branch"), arguments.into()).await,
        "suspend" => local.job(&format!("{session}/suspend"), arguments.into()).await,
        "tag" => {
            if !arguments.contains_key("commit") {
                head(local, &session, &mut arguments).await?;
            }
            local.ask(Method::POST, "/v1/tags", Some(arguments.into())).await
        }
        other => {
            let what = format!("`{}` is nothing that a kernel can ask for", other.escape_debug());
            Err(Failure::from(DaemonError::BadRequest { what, field: None }).body)
        }
    }
}

/// The session's newest snapshot is what is meant.
async fn head(
    local: &Local,
    session: &str,
    arguments: &mut Map<String, Value>,
) -> Result<(), Box<ErrorBody>> {
    let view = local.ask(Method::GET, session, None).await?;
    match view.get("head") {
        Some(Value::String(head)) => {
            arguments.insert("commit".to_owned(), head.as_str().into());
            Ok(())
        }
        _ => {
            let what = "this session has no snapshot yet".to_owned();
            Err(Failure::from(DaemonError::BadRequest { what, field: None }).body)
        }
    }
}
