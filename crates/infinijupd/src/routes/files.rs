//! Files: those of a session, and those of a snapshot.

use std::path::Path;

use api::{CopyOutRequest, ErrorBody, FileText, Job, SessionFiles, SnapshotFiles};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::history::Which;
use super::sessions::job;
use super::{Body, Id, Params, Wait, ask};
use crate::backend::Outcome;
use crate::operation::Operation;
use crate::server::App;

/// The most files that are listed.
const LISTED: usize = 10_000;

/// How much of a list.
#[derive(Clone, Copy, Deserialize, utoipa::IntoParams)]
pub(crate) struct Limit {
    /// No more than so many.
    #[serde(default)]
    limit: Option<usize>,
}

/// Where a session's files are, and those of a branch that would be lost with it.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/files", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = SessionFiles), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn of_session(State(app): State<App>, Id(id): Id) -> Outcome<Json<SessionFiles>> {
    Ok(Json(ask(&app, move |backend| backend.loose_files(&id)).await?))
}

/// The files of a snapshot.
#[utoipa::path(
    get, path = "/v1/commits/{id}/files", tag = "snapshots", params(("id" = String, Path), Limit),
    responses((status = 200, body = SnapshotFiles), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn of_snapshot(
    State(app): State<App>,
    Which(which): Which,
    Params(Limit { limit }): Params<Limit>,
) -> Outcome<Json<SnapshotFiles>> {
    let limit = limit.unwrap_or(LISTED).min(LISTED);
    Ok(Json(ask(&app, move |backend| backend.snapshot_files(&which, limit)).await?))
}

/// Which file.
#[derive(Clone, Deserialize, utoipa::IntoParams)]
pub(crate) struct OneFile {
    /// Its path inside the session; one that does not begin at `/` is below the workspace.
    path: String,
}

/// The text of a file of a snapshot.
#[utoipa::path(
    get, path = "/v1/commits/{id}/file", tag = "snapshots", params(("id" = String, Path), OneFile),
    responses((status = 200, body = FileText), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn text(
    State(app): State<App>,
    Which(which): Which,
    Params(OneFile { path }): Params<OneFile>,
) -> Outcome<Json<FileText>> {
    Ok(Json(ask(&app, move |backend| backend.file_text(&which, Path::new(&path))).await?))
}

/// Copies files of a snapshot into a directory.
#[utoipa::path(
    post, path = "/v1/commits/{id}/files", tag = "snapshots", params(("id" = String, Path), Wait),
    request_body = CopyOutRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn copy_out(
    State(app): State<App>,
    Which(which): Which,
    Params(wait): Params<Wait>,
    Body(request): Body<CopyOutRequest>,
) -> Outcome<Response> {
    job(&app, wait, Operation::CopyOut(which, request)).await
}
