//! The machine, the daemon itself, and the stores.

use api::{Doctor, ErrorBody, StoreView, Version};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::{Params, ask};
use crate::caller::Caller;
use crate::error::DaemonError;
use crate::metrics::CONTENT_TYPE;
use crate::operations::{Failure, Outcome};
use crate::server::App;

/// Versions, and whether anything can be done here.
#[utoipa::path(get, path = "/v1/version", tag = "system", responses((status = 200, body = Version)))]
pub(crate) async fn version(State(app): State<App>) -> Outcome<Json<Version>> {
    Ok(Json(ask(&app, |operations| Ok(operations.version())).await?))
}

/// What this machine can and cannot do.
#[utoipa::path(get, path = "/v1/doctor", tag = "system", responses((status = 200, body = Doctor)))]
pub(crate) async fn doctor(State(app): State<App>, caller: Caller) -> Outcome<Json<Doctor>> {
    let _turn = app.examination.lock().await;
    Ok(Json(ask(&app, move |operations| operations.doctor(&caller)).await?))
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "system", responses((status = 200)))]
pub(crate) async fn openapi() -> Response {
    ([("content-type", "application/json")], crate::openapi::document()).into_response()
}

/// Whose store.
#[derive(Deserialize, utoipa::IntoParams)]
pub(crate) struct Whose {
    /// The user's number; the caller's if not given.
    uid: Option<u32>,
}

/// Where a user's store is. For root only: nobody else could open it.
#[utoipa::path(
    get, path = "/v1/store", tag = "system", params(Whose),
    responses((status = 200, body = StoreView), (status = 403, body = ErrorBody)),
)]
pub(crate) async fn store(
    State(app): State<App>,
    caller: Caller,
    Params(Whose { uid }): Params<Whose>,
) -> Outcome<Json<StoreView>> {
    if caller.uid != 0 {
        return Err(DaemonError::RootOnly { what: "the place of a store" }.into());
    }
    let path = ask(&app, move |operations| operations.store(uid.unwrap_or_default())).await?;
    Ok(Json(StoreView { path: path.into() }))
}

/// What was counted, in the text form of OpenMetrics.
#[utoipa::path(get, path = "/metrics", tag = "system", responses((status = 200, content_type = "text/plain", body = String)))]
pub(crate) async fn metrics(State(app): State<App>) -> Outcome<Response> {
    let sessions = ask(&app, |operations| operations.sessions(&Caller::root())).await?;
    let text = app.metrics.render(&sessions).map_err(|error| {
        Failure::from(DaemonError::Bug { detail: format!("metrics cannot be written: {error}") })
    })?;
    Ok(([("content-type", CONTENT_TYPE)], text).into_response())
}
