//! What a program that looks after a session needs: notes, signals, a restart.

use api::{ErrorBody, GaveUp, Job, Nothing, RestartRequest, SessionPatch, SessionView, SignalRequest};
use axum::Json;
use axum::extract::State;
use axum::response::Response;

use super::sessions::to_session;
use super::{Body, Id, Params, Wait, ask, resolve};
use crate::backend::Outcome;
use crate::checks;
use crate::operation::ToSession;
use crate::server::App;

/// Changes a session's name, labels, document, policy or mark, whatever it is doing.
#[utoipa::path(
    patch, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)), request_body = SessionPatch,
    responses((status = 200, body = SessionView), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn change(
    State(app): State<App>,
    Id(id): Id,
    Body(patch): Body<SessionPatch>,
) -> Outcome<Json<SessionView>> {
    checks::patch(&patch)?;
    let session = resolve(&app, id).await?.id;
    Ok(Json(ask(&app, move |backend| backend.change(&session, patch)).await?))
}

/// Gives up an automatic snapshot of a session, if none of its processes stands still for it yet.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/give-up", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = GaveUp), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn give_up(State(app): State<App>, Id(id): Id) -> Outcome<Json<GaveUp>> {
    let session = resolve(&app, id).await?.id;
    Ok(Json(GaveUp { given_up: ask(&app, move |backend| backend.give_up(&session)).await? }))
}

/// Sends a signal to a session's main command.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/signal", tag = "sessions", params(("id" = String, Path)),
    request_body = SignalRequest,
    responses((status = 200, body = Nothing), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn signal(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<SignalRequest>,
) -> Outcome<Json<Nothing>> {
    let session = resolve(&app, id).await?.id;
    ask(&app, move |backend| backend.signal(&session, request)).await?;
    Ok(Json(Nothing {}))
}

/// Ends a session's processes, if it has any, and runs a command in it anew.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/restart", tag = "sessions", params(("id" = String, Path), Wait),
    request_body = RestartRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn restart(
    State(app): State<App>,
    Id(id): Id,
    Params(wait): Params<Wait>,
    Body(request): Body<RestartRequest>,
) -> Outcome<Response> {
    to_session(&app, id, wait, ToSession::Restart(request)).await
}
