//! The paths of the interface.
//!
//! Handlers are short: take the request apart, find the session that it is about, begin a job or ask the engine. The
//! extractors here answer everything they refuse in the form of [`api::ErrorBody`], so that no answer of the daemon is in
//! another form.

pub(crate) mod body;
pub(crate) mod control;
pub(crate) mod files;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod log;
pub(crate) mod sessions;
pub(crate) mod system;

use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Router, middleware};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use body::Body;

use crate::backend::{self, Backend, Failure, Outcome};
use crate::checks::bad;
use crate::error::DaemonError;
use crate::server::App;

/// How many characters of a path that does not exist are repeated in the answer.
const SHOWN_PATH: usize = 128;

/// All paths.
pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/v1/version", get(system::version))
        .route("/v1/doctor", get(system::doctor))
        .route("/v1/openapi.json", get(system::openapi))
        .route("/v1/daemon", get(system::daemon))
        .route("/v1/daemon/stop", post(system::stop))
        .route("/v1/store", get(system::store))
        .route("/v1/diff", get(history::diff))
        .route("/v1/history", get(history::history))
        .route("/v1/commits/{id}", get(history::commit))
        .route("/v1/commits/{id}/check", get(history::check).post(history::check_mapped))
        .route("/v1/commits/{id}/trust", post(history::trust))
        .route("/v1/commits/{id}/notebook", get(history::notebook))
        .route("/v1/commits/{id}/variables", get(history::variables))
        .route("/v1/commits/{id}/file", get(files::text))
        .route("/v1/commits/{id}/files", get(files::of_snapshot).post(files::copy_out))
        .route("/v1/tags", post(history::tag))
        .route("/v1/tags/{*name}", delete(history::untag))
        .route("/v1/forget", post(history::forget))
        .route("/v1/gc", post(history::gc))
        .route("/metrics", get(system::metrics))
        .route("/v1/sessions", get(sessions::list).post(sessions::start))
        .route("/v1/sessions/{id}", get(sessions::show).patch(control::change).delete(sessions::remove))
        .route("/v1/sessions/{id}/history", get(sessions::history))
        .route("/v1/sessions/{id}/files", get(files::of_session))
        .route("/v1/sessions/{id}/servers", get(sessions::servers))
        .route("/v1/sessions/{id}/log", get(log::log))
        .route("/v1/sessions/{id}/snapshot", post(sessions::snapshot))
        .route("/v1/sessions/{id}/give-up", post(control::give_up))
        .route("/v1/sessions/{id}/rollback", post(sessions::rollback))
        .route("/v1/sessions/{id}/branch", post(sessions::branch))
        .route("/v1/sessions/{id}/suspend", post(sessions::suspend))
        .route("/v1/sessions/{id}/resume", post(sessions::resume))
        .route("/v1/sessions/{id}/stop", post(sessions::stop))
        .route("/v1/sessions/{id}/restart", post(control::restart))
        .route("/v1/sessions/{id}/signal", post(control::signal))
        .route("/v1/sessions/{id}/exec", post(sessions::exec))
        .route("/v1/branches", post(sessions::branch_snapshot))
        .route("/v1/attach", post(sessions::attach))
        .route("/v1/checkpoint", post(sessions::checkpoint))
        .route("/v1/restore", post(sessions::restore))
        .route("/v1/jobs", get(jobs::list))
        .route("/v1/jobs/{id}", get(jobs::show))
        .route("/v1/jobs/{id}/events", get(jobs::job_events))
        .route("/v1/events", get(jobs::events))
        .fallback(async |method: Method, uri: Uri| no_route(&method, &uri, false))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| no_route(&method, &uri, true))
        // All of them are bounded there.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(app.clone(), body::bound))
        .with_state(app)
}

fn no_route(method: &Method, uri: &Uri, other_method: bool) -> Failure {
    let path = uri.path().chars().take(SHOWN_PATH).collect();
    DaemonError::NoRoute { method: method.to_string(), path, other_method }.into()
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, axum::Json(self.body)).into_response()
    }
}

impl IntoResponse for DaemonError {
    fn into_response(self) -> Response {
        Failure::from(self).into_response()
    }
}

/// The `{id}` of a path: a session's id, name or beginning of an id, or a job's id.
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let Path(id) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| bad("the id in its path is not UTF-8"))?;
        base::names::check_session(&id)
            .map_err(|broken| bad(format!("the id in its path can be no name: {broken}")))?;
        Ok(Self(id))
    }
}

/// The query of a request.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => Err(bad(rejection.body_text()).into()),
        }
    }
}

/// `?wait=true`.
#[derive(Clone, Copy, Deserialize, utoipa::IntoParams)]
pub(crate) struct Wait {
    /// Answer when the job has ended: with the job, or with its error.
    #[serde(default)]
    wait: bool,
}

/// Asks the engine something that does not take long.
async fn ask<T: Send + 'static>(
    app: &App,
    question: impl FnOnce(&dyn Backend) -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    backend::ask(&app.backend, question).await
}

/// Finds a session.
async fn resolve(app: &App, which: String) -> Outcome<api::SessionView> {
    ask(app, move |backend| backend.session(&which)).await
}
