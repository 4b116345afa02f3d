//! What a job does, with all that it needs to know.
//!
//! Clients ask for it over the socket, kernels in their own words, and some of it is due by itself. All of them say it with an
//! [`Operation`] and hand it to `Jobs::submit`: the same checks hold, the same jobs run and are seen in the events.

use api::{
    AttachRequest, BranchRequest, CheckpointRequest, CopyOutRequest, ExecRequest, ForgetRequest, JobKind,
    JobResult, RestartRequest, RestoreRequest, ResumeRequest, RollbackRequest, SessionView, SnapshotRequest,
    StartRequest, StopRequest, SuspendRequest,
};

use crate::backend::{Backend, Outcome, Progress};
use crate::checks::{
    Checked, absolute, bad_field, command, container, environment, expression, new_name, process, tag_name,
    what_to_run,
};

/// The most branches that one request can make.
const BRANCHES: u32 = 64;
/// The most snapshots that one request forgets.
const FORGET_LIMIT: usize = 10_000;

/// The most files that one request names.
const FILES_LIMIT: usize = 10_000;

/// Something that takes its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// Start a session.
    Start(Box<StartRequest>),
    /// Do something to a session: its id, its name or the beginning of its id.
    ToSession(String, Box<ToSession>),
    /// Adopt a process tree.
    Attach(AttachRequest),
    /// Write a process tree to a directory.
    Checkpoint(CheckpointRequest),
    /// Bring one back from a directory.
    Restore(RestoreRequest),
    /// Make new sessions of a snapshot, whether or not the one that it was taken of is there.
    Branch(BranchRequest),
    /// Forget snapshots.
    Forget(ForgetRequest),
    /// Free what nothing leads to any more.
    Gc,
    /// Copy files of a snapshot.
    CopyOut(String, CopyOutRequest),
    /// Send threads and tags to the remote of this name, all if none is named.
    Push(String, Vec<String>),
    /// Let go of data that the remote of this name has, until the store takes no more than so many bytes.
    FreeLocal(String, u64),
}

/// Something that is done to a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ToSession {
    /// Take a snapshot; the session goes on.
    Snapshot(SnapshotRequest),
    /// Roll it back.
    Rollback(RollbackRequest),
    /// Make new sessions of it.
    Branch(BranchRequest),
    /// Put it to sleep.
    Suspend(SuspendRequest),
    /// Wake it.
    Resume(ResumeRequest),
    /// End its processes.
    Stop(StopRequest),
    /// End its processes and run its command anew.
    Restart(RestartRequest),
    /// Forget it, with files of its own that no snapshot has if that is said.
    Remove {
        /// They are not kept.
        discard_files: bool,
    },
    /// Run a command in it.
    Exec(ExecRequest),
}

impl Operation {
    /// What kind of job it is.
    pub(crate) fn kind(&self) -> JobKind {
        match self {
            Self::Start(_) => JobKind::Start,
            Self::ToSession(_, what) => what.kind(),
            Self::Attach(_) => JobKind::Attach,
            Self::Checkpoint(_) => JobKind::Checkpoint,
            Self::Restore(_) => JobKind::Restore,
            Self::Branch(_) => JobKind::Branch,
            Self::Forget(_) => JobKind::Forget,
            Self::Gc => JobKind::Gc,
            Self::CopyOut(..) => JobKind::CopyOut,
            Self::Push(..) => JobKind::Push,
            Self::FreeLocal(..) => JobKind::FreeLocal,
        }
    }

    /// Refuses what makes no sense, before anything is done for it.
    pub(crate) fn check(&self) -> Checked {
        match self {
            Self::Start(request) => check_start(request),
            Self::ToSession(_, what) => what.check(),
            Self::Attach(request) => {
                new_name(request.name.as_deref())?;
                match (request.pid, &request.container) {
                    (Some(pid), None) => process(pid),
                    (None, Some(which)) => container(&which.which),
                    _ => Err(bad_field("pid", "or `container` must be given, and not both")),
                }
            }
            Self::Checkpoint(request) => {
                process(request.pid)?;
                absolute("directory", &request.directory)
            }
            Self::Restore(request) => absolute("directory", &request.directory),
            Self::Branch(request) if request.from.is_none() => Err(bad_field("from", "names no snapshot")),
            Self::Branch(request) => check_branch(request),
            Self::Forget(request) if request.commits.len() > FORGET_LIMIT => {
                Err(bad_field("commits", format_args!("has more than {FORGET_LIMIT} snapshots")))
            }
            Self::Forget(request) => {
                request.commits.iter().try_for_each(|commit| expression("commits", commit))
            }
            // The last two are only ever due by themselves.
            Self::Gc | Self::Push(..) | Self::FreeLocal(..) => Ok(()),
            Self::CopyOut(_, request) if request.paths.len() > FILES_LIMIT => {
                Err(bad_field("paths", format_args!("has more than {FILES_LIMIT} files")))
            }
            Self::CopyOut(_, request) => absolute("to", &request.to),
        }
    }

    /// Does it.
    pub(crate) fn run(self, backend: &dyn Backend, progress: &dyn Progress) -> Outcome<JobResult> {
        match self {
            Self::Start(request) => backend.start(*request, progress).map(view),
            Self::ToSession(session, what) => (*what).run(&session, backend, progress),
            Self::Attach(request) => backend.attach(request, progress).map(view),
            Self::Checkpoint(request) => backend.checkpoint(request, progress).map(JobResult::Checkpoint),
            Self::Restore(request) => backend.restore(request, progress).map(JobResult::Restore),
            Self::Branch(request) => {
                backend.branch(None, request, progress).map(|branches| JobResult::Branch { branches })
            }
            Self::Forget(request) => backend.forget(request, progress).map(JobResult::Forget),
            Self::Gc => backend.gc(progress).map(JobResult::Gc),
            Self::CopyOut(which, request) => {
                backend.copy_out(&which, request, progress).map(JobResult::CopyOut)
            }
            Self::Push(remote, names) => backend.push(&remote, &names, progress).map(JobResult::Push),
            Self::FreeLocal(remote, keep) => {
                backend.free_local(&remote, keep, progress).map(JobResult::FreeLocal)
            }
        }
    }
}

impl ToSession {
    fn kind(&self) -> JobKind {
        match self {
            Self::Snapshot(_) => JobKind::Snapshot,
            Self::Rollback(_) => JobKind::Rollback,
            Self::Branch(_) => JobKind::Branch,
            Self::Suspend(_) => JobKind::Suspend,
            Self::Resume(_) => JobKind::Resume,
            Self::Stop(_) => JobKind::Stop,
            Self::Restart(_) => JobKind::Restart,
            Self::Remove { .. } => JobKind::Remove,
            Self::Exec(_) => JobKind::Exec,
        }
    }

    fn check(&self) -> Checked {
        match self {
            Self::Snapshot(request) => {
                request.quiesce.as_ref().map_or(Ok(()), |hook| command("quiesce", hook))?;
                request.tag.as_deref().map_or(Ok(()), |tag| tag_name("tag", tag))
            }
            Self::Rollback(request) => expression("to", &request.to),
            Self::Branch(request) => check_branch(request),
            Self::Restart(request) => {
                request.cwd.as_ref().map_or(Ok(()), |cwd| absolute("cwd", cwd))?;
                what_to_run(&request.start)?;
                environment(&request.env)
            }
            Self::Exec(request) => {
                command("argv", &request.argv)?;
                environment(&request.env)
            }
            Self::Suspend(_) | Self::Resume(_) | Self::Stop(_) | Self::Remove { .. } => Ok(()),
        }
    }

    fn run(self, session: &str, to: &dyn Backend, progress: &dyn Progress) -> Outcome<JobResult> {
        match self {
            Self::Snapshot(request) => to.snapshot(session, request, progress),
            Self::Rollback(request) => to.rollback(session, request, progress).map(JobResult::Rollback),
            Self::Branch(request) => {
                to.branch(Some(session), request, progress).map(|branches| JobResult::Branch { branches })
            }
            Self::Suspend(request) => to.suspend(session, request, progress).map(JobResult::Suspend),
            Self::Resume(request) => to.resume(session, request, progress).map(view),
            Self::Stop(request) => to.stop(session, request, progress).map(view),
            Self::Restart(request) => to.restart(session, request, progress).map(view),
            Self::Remove { discard_files } => to.remove(session, discard_files, progress).map(view),
            Self::Exec(request) => to.exec(session, request, progress).map(JobResult::Exec),
        }
    }
}

fn check_branch(request: &BranchRequest) -> Checked {
    new_name(request.name.as_deref())?;
    request.from.as_deref().map_or(Ok(()), |from| expression("from", from))?;
    if request.count.is_some_and(|count| !(1..=BRANCHES).contains(&count)) {
        return Err(bad_field("count", format_args!("must be from 1 to {BRANCHES}")));
    }
    Ok(())
}

fn check_start(request: &StartRequest) -> Checked {
    new_name(request.name.as_deref())?;
    absolute("cwd", &request.cwd)?;
    request.workspace.as_ref().map_or(Ok(()), |workspace| absolute("workspace", workspace))?;
    request.notebook.as_ref().map_or(Ok(()), |notebook| absolute("notebook", notebook))?;
    what_to_run(&request.start)?;
    request.sidecars.iter().try_for_each(|sidecar| command("sidecars", sidecar))?;
    environment(&request.env)
}

fn view(session: SessionView) -> JobResult {
    JobResult::Session(Box::new(session))
}
