//! Snapshots: one by one, their names, and their end.

use api::{
    CheckRequest, CommitView, Commits, Diff, ErrorBody, ForgetRequest, Job, Nothing, SnapshotCheck,
    TagRequest, Variables,
};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::sessions::job;
use super::{Body, Params, Wait, ask};
use crate::backend::{Failure, Outcome};
use crate::checks::{self, bad, expression, is_expression};
use crate::operation::Operation;
use crate::server::App;

/// How much of a history.
#[derive(Clone, Copy, Default, Deserialize, utoipa::IntoParams)]
pub(crate) struct Part {
    /// No more than so many, the newest.
    pub(super) limit: Option<usize>,
}

/// All snapshots, newest first.
#[utoipa::path(
    get, path = "/v1/history", tag = "snapshots", params(Part),
    responses((status = 200, body = Commits)),
)]
pub(crate) async fn history(State(app): State<App>, Params(part): Params<Part>) -> Outcome<Json<Commits>> {
    Ok(Json(ask(&app, move |backend| backend.history(None, false, part.limit)).await?))
}

/// Two snapshots.
#[derive(Deserialize, utoipa::IntoParams)]
pub(crate) struct Two {
    /// The first: an id or the beginning of one, a tag, a thread; `~N` for the Nth before it.
    a: String,
    /// The second.
    b: String,
}

/// What changed between two snapshots.
#[utoipa::path(
    get, path = "/v1/diff", tag = "snapshots", params(Two),
    responses((status = 200, body = Diff), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn diff(State(app): State<App>, Params(Two { a, b }): Params<Two>) -> Outcome<Json<Diff>> {
    expression("a", &a)?;
    expression("b", &b)?;
    Ok(Json(ask(&app, move |backend| backend.diff(&a, &b)).await?))
}

/// A snapshot in a path.
pub(crate) struct Which(pub(super) String);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for Which {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, state: &S) -> Result<Self, Failure> {
        let Path(which) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| bad("the snapshot in its path is not UTF-8"))?;
        if is_expression(&which) {
            Ok(Self(which))
        } else {
            Err(bad("what is in its path cannot name a snapshot").into())
        }
    }
}

/// One snapshot.
#[utoipa::path(
    get, path = "/v1/commits/{id}", tag = "snapshots",
    params(("id" = String, Path, description = "an id or the beginning of one, a tag, a thread; `~N` for the Nth before it")),
    responses((status = 200, body = CommitView), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn commit(State(app): State<App>, Which(which): Which) -> Outcome<Json<CommitView>> {
    Ok(Json(ask(&app, move |backend| backend.commit(&which)).await?))
}

/// Whether a snapshot would come up on this machine: what is missing, what differs, and what to do.
#[utoipa::path(
    get, path = "/v1/commits/{id}/check", tag = "snapshots", params(("id" = String, Path)),
    responses((status = 200, body = SnapshotCheck), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn check(State(app): State<App>, Which(which): Which) -> Outcome<Json<SnapshotCheck>> {
    Ok(Json(ask(&app, move |backend| backend.check(&which, &CheckRequest::default())).await?))
}

/// The same, if directories lie at other places here.
#[utoipa::path(
    post, path = "/v1/commits/{id}/check", tag = "snapshots", params(("id" = String, Path)), request_body = CheckRequest,
    responses((status = 200, body = SnapshotCheck), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn check_mapped(
    State(app): State<App>,
    Which(which): Which,
    Body(request): Body<CheckRequest>,
) -> Outcome<Json<SnapshotCheck>> {
    Ok(Json(ask(&app, move |backend| backend.check(&which, &request)).await?))
}

/// Takes a snapshot that was made elsewhere for one of this installation's own, because somebody knows who made it.
#[utoipa::path(
    post, path = "/v1/commits/{id}/trust", tag = "snapshots", params(("id" = String, Path)),
    responses((status = 200, body = CommitView), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn trust(State(app): State<App>, Which(which): Which) -> Outcome<Json<CommitView>> {
    Ok(Json(ask(&app, move |backend| backend.trust(&which)).await?))
}

/// The document that went with a snapshot, byte for byte.
#[utoipa::path(
    get, path = "/v1/commits/{id}/notebook", tag = "snapshots", params(("id" = String, Path)),
    responses((status = 200, content_type = "application/x-ipynb+json", body = Vec<u8>), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn notebook(State(app): State<App>, Which(which): Which) -> Outcome<Response> {
    let content = ask(&app, move |backend| backend.notebook(&which)).await?;
    Ok(([("content-type", "application/x-ipynb+json")], content).into_response())
}

/// The variables that the kernel had at a snapshot.
#[utoipa::path(
    get, path = "/v1/commits/{id}/variables", tag = "snapshots", params(("id" = String, Path)),
    responses((status = 200, body = Variables), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn variables(State(app): State<App>, Which(which): Which) -> Outcome<Json<Variables>> {
    let variables = ask(&app, move |backend| backend.variables(&which)).await?;
    Ok(Json(Variables { variables }))
}

/// Gives a snapshot a name that stays.
#[utoipa::path(
    post, path = "/v1/tags", tag = "snapshots", request_body = TagRequest,
    responses((status = 200, body = CommitView), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn tag(
    State(app): State<App>,
    Body(request): Body<TagRequest>,
) -> Outcome<Json<CommitView>> {
    checks::tag(&request)?;
    Ok(Json(ask(&app, move |backend| backend.tag(request)).await?))
}

/// Takes such a name away. The snapshot stays as long as something else leads to it.
#[utoipa::path(
    delete, path = "/v1/tags/{name}", tag = "snapshots", params(("name" = String, Path)),
    responses((status = 200, body = Nothing), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn untag(State(app): State<App>, Which(name): Which) -> Outcome<Json<Nothing>> {
    ask(&app, move |backend| backend.untag(&name)).await?;
    Ok(Json(Nothing {}))
}

/// Leaves snapshots out of history. Their room is freed by the next gc.
#[utoipa::path(
    post, path = "/v1/forget", tag = "snapshots", params(Wait), request_body = ForgetRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn forget(
    State(app): State<App>,
    Params(wait): Params<Wait>,
    Body(request): Body<ForgetRequest>,
) -> Outcome<Response> {
    job(&app, wait, Operation::Forget(request)).await
}

/// Frees what no snapshot needs any more.
#[utoipa::path(
    post, path = "/v1/gc", tag = "snapshots", params(Wait),
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn gc(State(app): State<App>, Params(wait): Params<Wait>) -> Outcome<Response> {
    job(&app, wait, Operation::Gc).await
}
