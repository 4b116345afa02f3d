//! Sessions, and what can be done with them.

use api::{
    AttachRequest, BranchRequest, CheckpointRequest, Commits, ErrorBody, ExecRequest, Job, RestoreRequest,
    ResumeRequest, RollbackRequest, Servers, SessionView, Sessions, SnapshotRequest, StartRequest,
    StopRequest, SuspendRequest,
};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::{Body, Id, Params, Wait, ask, resolve};
use crate::backend::Outcome;
use crate::operation::{Operation, ToSession};
use crate::server::App;

/// All sessions.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", responses((status = 200, body = Sessions)))]
pub(crate) async fn list(State(app): State<App>) -> Outcome<Json<Sessions>> {
    Ok(Json(Sessions { sessions: ask(&app, |backend| backend.sessions()).await? }))
}

/// One session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "id, name or beginning of an id")),
    responses((status = 200, body = SessionView), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn show(State(app): State<App>, Id(id): Id) -> Outcome<Json<SessionView>> {
    Ok(Json(resolve(&app, id).await?))
}

/// The servers that its processes run. Each has a port on the machine's loopback from then on, for as long as it listens.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/servers", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = Servers), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn servers(State(app): State<App>, Id(id): Id) -> Outcome<Json<Servers>> {
    Ok(Json(Servers { servers: ask(&app, move |backend| backend.servers(&id)).await? }))
}

/// How much of a session's history.
#[derive(Clone, Copy, Default, Deserialize, utoipa::IntoParams)]
pub(crate) struct Family {
    /// Also the snapshots of what it was branched off and of all their branches, and the threads of all of them.
    #[serde(default)]
    family: bool,
    /// No more than so many, the newest.
    limit: Option<usize>,
}

/// The snapshots of a session, newest first.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/history", tag = "sessions",
    params(("id" = String, Path), Family),
    responses((status = 200, body = Commits), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn history(
    State(app): State<App>,
    Id(id): Id,
    Params(Family { family, limit }): Params<Family>,
) -> Outcome<Json<Commits>> {
    let session = resolve(&app, id).await?;
    let which = session.id;
    Ok(Json(ask(&app, move |backend| backend.history(Some(&which), family, limit)).await?))
}

/// Begins a job, and answers now or when it has ended.
pub(super) async fn job(app: &App, wait: Wait, operation: Operation) -> Outcome<Response> {
    let cell = app.jobs.submit(operation).await?;
    if wait.wait {
        return Ok(Json(cell.wait().await?).into_response());
    }
    let job = cell.view();
    let location = [("location", format!("/v1/jobs/{}", job.id))];
    Ok((StatusCode::ACCEPTED, location, Json(job)).into_response())
}

/// The same, for what is done to a session.
pub(super) async fn to_session(app: &App, id: String, wait: Wait, what: ToSession) -> Outcome<Response> {
    job(app, wait, Operation::ToSession(id, Box::new(what))).await
}

/// Starts a session.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", params(Wait), request_body = StartRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn start(
    State(app): State<App>,
    Params(wait): Params<Wait>,
    Body(request): Body<StartRequest>,
) -> Outcome<Response> {
    job(&app, wait, Operation::Start(Box::new(request))).await
}

/// Takes a snapshot; the session goes on.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/snapshot", tag = "sessions", params(("id" = String, Path), Wait),
    request_body = SnapshotRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn snapshot(
    State(app): State<App>,
    Id(id): Id,
    Params(wait): Params<Wait>,
    Body(request): Body<SnapshotRequest>,
) -> Outcome<Response> {
    to_session(&app, id, wait, ToSession::Snapshot(request)).await
}

/// Rolls a session back to one of its snapshots.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/rollback", tag = "sessions", params(("id" = String, Path), Wait),
    request_body = RollbackRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn rollback(
    State(app): State<App>,
    Id(id): Id,
    Params(wait): Params<Wait>,
    Body(request): Body<RollbackRequest>,
) -> Outcome<Response> {
    to_session(&app, id, wait, ToSession::Rollback(request)).await
}

/// Makes new sessions that begin where this one is, or was.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/branch", tag = "sessions", params(("id" = String, Path), Wait),
    request_body = BranchRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn branch(
    State(app): State<App>,
    Id(id): Id,
    Params(wait): Params<Wait>,
    Body(request): Body<BranchRequest>,
) -> Outcome<Response> {
    to_session(&app, id, wait, ToSession::Branch(request)).await
}

/// Makes new sessions of a snapshot, also if the session that it was taken of is gone or was on another machine.
#[utoipa::path(
    post, path = "/v1/branches", tag = "sessions", params(Wait), request_body = BranchRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn branch_snapshot(
    State(app): State<App>,
    Params(wait): Params<Wait>,
    Body(request): Body<BranchRequest>,
) -> Outcome<Response> {
    job(&app, wait, Operation::Branch(request)).await
}

/// Takes a snapshot and ends the processes.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/suspend", tag = "sessions", params(("id" = String, Path), Wait),
    request_body = SuspendRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn suspend(
    State(app): State<App>,
    Id(id): Id,
    Params(wait): Params<Wait>,
    Body(request): Body<SuspendRequest>,
) -> Outcome<Response> {
    to_session(&app, id, wait, ToSession::Suspend(request)).await
}

/// Brings the processes of a suspended session back.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/resume", tag = "sessions", params(("id" = String, Path), Wait),
    request_body = ResumeRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn resume(
    State(app): State<App>,
    Id(id): Id,
    Params(wait): Params<Wait>,
    Body(request): Body<ResumeRequest>,
) -> Outcome<Response> {
    to_session(&app, id, wait, ToSession::Resume(request)).await
}

/// Ends the processes of a session.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/stop", tag = "sessions", params(("id" = String, Path), Wait),
    request_body = StopRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn stop(
    State(app): State<App>,
    Id(id): Id,
    Params(wait): Params<Wait>,
    Body(request): Body<StopRequest>,
) -> Outcome<Response> {
    to_session(&app, id, wait, ToSession::Stop(request)).await
}

/// What becomes of files of its own.
#[derive(Clone, Copy, Deserialize, utoipa::IntoParams)]
pub(crate) struct Discard {
    /// Those that no snapshot has are lost; otherwise they are kept in a last one.
    #[serde(default)]
    discard_files: bool,
}

/// Forgets a session that has no processes. Its snapshots stay.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path), Wait, Discard),
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Id(id): Id,
    Params(wait): Params<Wait>,
    Params(Discard { discard_files }): Params<Discard>,
) -> Outcome<Response> {
    to_session(&app, id, wait, ToSession::Remove { discard_files }).await
}

/// Runs a command inside a session.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/exec", tag = "sessions", params(("id" = String, Path), Wait),
    request_body = ExecRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn exec(
    State(app): State<App>,
    Id(id): Id,
    Params(wait): Params<Wait>,
    Body(request): Body<ExecRequest>,
) -> Outcome<Response> {
    to_session(&app, id, wait, ToSession::Exec(request)).await
}

/// Makes a session of a process tree that is running already.
#[utoipa::path(
    post, path = "/v1/attach", tag = "sessions", params(Wait), request_body = AttachRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn attach(
    State(app): State<App>,
    Params(wait): Params<Wait>,
    Body(request): Body<AttachRequest>,
) -> Outcome<Response> {
    job(&app, wait, Operation::Attach(request)).await
}

/// Writes a process tree to a directory, without making a session of it.
#[utoipa::path(
    post, path = "/v1/checkpoint", tag = "one shot", params(Wait), request_body = CheckpointRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn checkpoint(
    State(app): State<App>,
    Params(wait): Params<Wait>,
    Body(request): Body<CheckpointRequest>,
) -> Outcome<Response> {
    job(&app, wait, Operation::Checkpoint(request)).await
}

/// Brings a process tree back from such a directory.
#[utoipa::path(
    post, path = "/v1/restore", tag = "one shot", params(Wait), request_body = RestoreRequest,
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn restore(
    State(app): State<App>,
    Params(wait): Params<Wait>,
    Body(request): Body<RestoreRequest>,
) -> Outcome<Response> {
    job(&app, wait, Operation::Restore(request)).await
}
