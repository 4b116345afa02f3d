//! Sessions, and what can be done with them.

use std::sync::Arc;

use api::{
    AttachRequest, BranchRequest, CheckpointRequest, Commits, ErrorBody, ExecRequest, Job, JobKind,
    JobResult, RestoreRequest, ResumeRequest, RollbackRequest, SessionView, Sessions, SnapshotRequest,
    StartRequest, StopRequest, SuspendRequest,
};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::{Body, Id, Params, Wait, ask, bad_field, expression, resolve, session_name, tag_name};
use crate::error::DaemonError;
use crate::operations::{Failure, Operations, Outcome, Progress};
use crate::server::App;

/// The most branches that one request can make.
const BRANCHES: u32 = 64;

/// All sessions.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", responses((status = 200, body = Sessions)))]
pub(crate) async fn list(State(app): State<App>) -> Outcome<Json<Sessions>> {
    Ok(Json(Sessions { sessions: ask(&app, |operations| operations.sessions()).await? }))
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
    Ok(Json(ask(&app, move |operations| operations.history(Some(&which), family, limit)).await?))
}

/// Begins a job, and answers now or when it has ended.
pub(super) async fn job(
    app: &App,
    kind: JobKind,
    session: Option<String>,
    wait: Wait,
    work: impl FnOnce(&dyn Operations, &dyn Progress) -> Outcome<JobResult> + Send + 'static,
) -> Outcome<Response> {
    if app.is_stopping() {
        return Err(DaemonError::Stopping.into());
    }
    let operations = Arc::clone(&app.operations);
    let cell = app.jobs.begin(kind, session, move |progress| work(&*operations, progress))?;
    if wait.wait {
        return Ok(Json(cell.wait().await?).into_response());
    }
    let job = cell.view();
    let location = [("location", format!("/v1/jobs/{}", job.id))];
    Ok((StatusCode::ACCEPTED, location, Json(job)).into_response())
}

/// The same, for a session that must be there.
pub(super) async fn session_job(
    app: App,
    id: String,
    kind: JobKind,
    wait: Wait,
    work: impl FnOnce(&dyn Operations, &str, &dyn Progress) -> Outcome<JobResult> + Send + 'static,
) -> Outcome<Response> {
    let session = resolve(&app, id).await?.id;
    let named = Some(session.clone());
    job(&app, kind, named, wait, move |operations, progress| work(operations, &session, progress)).await
}

pub(super) fn view(session: SessionView) -> JobResult {
    JobResult::Session(Box::new(session))
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
    new_name(request.name.as_deref())?;
    absolute("cwd", &request.cwd)?;
    if let Some(workspace) = &request.workspace {
        absolute("workspace", workspace)?;
    }
    if let Some(notebook) = &request.notebook {
        absolute("notebook", notebook)?;
    }
    what_to_run(&request.start)?;
    for sidecar in &request.sidecars {
        command("sidecars", sidecar)?;
    }
    environment(&request.env)?;
    job(&app, JobKind::Start, None, wait, move |operations, progress| {
        operations.start(request, progress).map(view)
    })
    .await
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
    if let Some(hook) = &request.quiesce {
        command("quiesce", hook)?;
    }
    request.tag.as_deref().map_or(Ok(()), |tag| tag_name("tag", tag))?;
    session_job(app, id, JobKind::Snapshot, wait, move |operations, session, progress| {
        operations.snapshot(session, request, progress).map(JobResult::Snapshot)
    })
    .await
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
    expression("to", &request.to)?;
    session_job(app, id, JobKind::Rollback, wait, move |operations, session, progress| {
        operations.rollback(session, request, progress).map(JobResult::Rollback)
    })
    .await
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
    new_name(request.name.as_deref())?;
    if let Some(from) = &request.from {
        expression("from", from)?;
    }
    if request.count.is_some_and(|count| !(1..=BRANCHES).contains(&count)) {
        return Err(bad_field("count", format_args!("must be from 1 to {BRANCHES}")));
    }
    session_job(app, id, JobKind::Branch, wait, move |operations, session, progress| {
        operations.branch(session, request, progress).map(|branches| JobResult::Branch { branches })
    })
    .await
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
    session_job(app, id, JobKind::Suspend, wait, move |operations, session, progress| {
        operations.suspend(session, request, progress).map(JobResult::Suspend)
    })
    .await
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
    session_job(app, id, JobKind::Resume, wait, move |operations, session, progress| {
        operations.resume(session, request, progress).map(view)
    })
    .await
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
    session_job(app, id, JobKind::Stop, wait, move |operations, session, progress| {
        operations.stop(session, request, progress).map(view)
    })
    .await
}

/// Forgets a session that has no processes. Its snapshots stay.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path), Wait),
    responses((status = 202, body = Job), (status = 200, body = Job, description = "with `wait`"),
        (status = "default", body = ErrorBody)),
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Id(id): Id,
    Params(wait): Params<Wait>,
) -> Outcome<Response> {
    session_job(app, id, JobKind::Remove, wait, |operations, session, progress| {
        operations.remove(session, progress).map(view)
    })
    .await
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
    command("argv", &request.argv)?;
    environment(&request.env)?;
    session_job(app, id, JobKind::Exec, wait, move |operations, session, progress| {
        operations.exec(session, request, progress).map(JobResult::Exec)
    })
    .await
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
    new_name(request.name.as_deref())?;
    process(request.pid)?;
    job(&app, JobKind::Attach, None, wait, move |operations, progress| {
        operations.attach(request, progress).map(view)
    })
    .await
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
    process(request.pid)?;
    absolute("directory", &request.directory)?;
    job(&app, JobKind::Checkpoint, None, wait, move |operations, progress| {
        operations.checkpoint(request, progress).map(JobResult::Checkpoint)
    })
    .await
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
    absolute("directory", &request.directory)?;
    job(&app, JobKind::Restore, None, wait, move |operations, progress| {
        operations.restore(request, progress).map(JobResult::Restore)
    })
    .await
}

pub(super) fn new_name(wanted: Option<&str>) -> Result<(), Failure> {
    wanted.map_or(Ok(()), |wanted| session_name("name", wanted))
}

pub(super) fn what_to_run(start: &api::Start) -> Result<(), Failure> {
    match start {
        api::Start::Command { argv } => command("argv", argv),
        api::Start::Kernel { spec, argv, .. } => {
            spec.as_deref().map_or(Ok(()), |spec| {
                base::names::check_kernelspec(spec).map_err(|broken| {
                    bad_field("spec", format_args!("can be no kernelspec's name: {broken}"))
                })
            })?;
            argv.as_ref().map_or(Ok(()), |argv| command("argv", argv))
        }
    }
}

fn no_nul(field: &'static str, text: &api::Text) -> Result<(), Failure> {
    if text.as_bytes().contains(&0) { Err(bad_field(field, "has a NUL in it")) } else { Ok(()) }
}

pub(super) fn absolute(field: &'static str, path: &api::Text) -> Result<(), Failure> {
    no_nul(field, path)?;
    // PATH_MAX counts the NUL at the end.
    if !path.as_path().is_absolute() || path.as_bytes().len() >= 4096 {
        return Err(bad_field(field, "must be an absolute path of less than 4096 bytes"));
    }
    Ok(())
}

fn command(field: &'static str, argv: &[api::Text]) -> Result<(), Failure> {
    if argv.first().is_none_or(api::Text::is_empty) {
        return Err(bad_field(field, "names no program"));
    }
    argv.iter().try_for_each(|word| no_nul(field, word))
}

pub(super) fn environment(variables: &[api::EnvVar]) -> Result<(), Failure> {
    for variable in variables {
        no_nul("env", &variable.value)?;
        no_nul("env", &variable.name)?;
        if variable.name.is_empty() || variable.name.as_bytes().contains(&b'=') {
            return Err(bad_field("env", "has a variable whose name is empty or has a `=` in it"));
        }
    }
    Ok(())
}

fn process(pid: i32) -> Result<(), Failure> {
    // 1 is the machine's own init, below it are groups of processes.
    if pid > 1 { Ok(()) } else { Err(bad_field("pid", "is not the number of a process that can be taken")) }
}
