//! The machine, the daemon itself, and the store.

use std::sync::Arc;

use api::{DaemonView, Doctor, Nothing, StoreView, Version};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::ask;
use crate::backend::{Backend, Failure, Outcome};
use crate::error::DaemonError;
use crate::home::Home;
use crate::idle::sessions_running;
use crate::metrics::CONTENT_TYPE;
use crate::server::App;

/// Versions, and whether anything can be done here.
#[utoipa::path(get, path = "/v1/version", tag = "system", responses((status = 200, body = Version)))]
pub(crate) async fn version(State(app): State<App>) -> Outcome<Json<Version>> {
    Ok(Json(ask(&app, |backend| Ok(backend.version())).await?))
}

/// What this machine can and cannot do.
#[utoipa::path(get, path = "/v1/doctor", tag = "system", responses((status = 200, body = Doctor)))]
pub(crate) async fn doctor(State(app): State<App>) -> Outcome<Json<Doctor>> {
    let _turn = app.examination.lock().await;
    let home = Arc::clone(&app.home);
    let examined = move |backend: &dyn Backend| {
        let mut found = backend.doctor()?;
        found.findings.extend(home.remote.as_ref().map(|policy| policy.finding(backend)));
        Ok(found)
    };
    Ok(Json(ask(&app, examined).await?))
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "system", responses((status = 200)))]
pub(crate) async fn openapi() -> Response {
    ([("content-type", "application/json")], crate::openapi::document()).into_response()
}

/// The daemon itself: where its things are, and who needs it.
#[utoipa::path(get, path = "/v1/daemon", tag = "system", responses((status = 200, body = DaemonView)))]
pub(crate) async fn daemon(State(app): State<App>) -> Json<DaemonView> {
    let Home { places, store_encrypted, socket_passed, idle_end, started, remote: _ } = &*app.home;
    Json(DaemonView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started: started.clone(),
        state: places.state.as_path().into(),
        run: places.run.as_path().into(),
        socket: places.socket.as_path().into(),
        settings: places.settings.as_path().into(),
        store_encrypted: *store_encrypted,
        socket_passed: *socket_passed,
        idle_end_s: idle_end.map(|limit| limit.as_secs_f64()),
        sessions_running: sessions_running(&app).await,
        jobs_running: app.jobs_running(),
        streams: app.need.streams(),
    })
}

/// Ends the daemon as soon as what it has begun is done. Sessions go on.
#[utoipa::path(post, path = "/v1/daemon/stop", tag = "system", responses((status = 200, body = Nothing)))]
pub(crate) async fn stop(State(app): State<App>) -> Json<Nothing> {
    app.ask_to_stop();
    Json(Nothing {})
}

/// Where the store is, and how large.
#[utoipa::path(get, path = "/v1/store", tag = "system", responses((status = 200, body = StoreView)))]
pub(crate) async fn store(State(app): State<App>) -> Outcome<Json<StoreView>> {
    let home = Arc::clone(&app.home);
    let looked = move |backend: &dyn Backend| {
        let remote = home.remote.as_ref().map(|policy| policy.view(backend)).transpose()?;
        Ok(StoreView { remote, ..backend.store()? })
    };
    Ok(Json(ask(&app, looked).await?))
}

/// What was counted, in the text form of OpenMetrics.
#[utoipa::path(get, path = "/metrics", tag = "system", responses((status = 200, content_type = "text/plain", body = String)))]
pub(crate) async fn metrics(State(app): State<App>) -> Outcome<Response> {
    let sessions = ask(&app, |backend| backend.sessions()).await?;
    let text = app.metrics.render(&sessions).map_err(|error| {
        Failure::from(DaemonError::Bug { detail: format!("metrics cannot be written: {error}") })
    })?;
    Ok(([("content-type", CONTENT_TYPE)], text).into_response())
}
