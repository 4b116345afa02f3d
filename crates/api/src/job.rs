//! Jobs: operations that take their time.
//!
//! A request that starts one is answered with 202 and the job as it is at that moment; with `?wait=true` the answer comes
//! when the job has ended, with 200 and the job, or with the error's own status and body.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    BranchOutcome, CheckpointOutcome, CopyOutOutcome, ErrorBody, ExecOutcome, ForgetOutcome,
    FreeLocalOutcome, GcOutcome, PushOutcome, RestoredOutcome, RollbackOutcome, SessionView, SnapshotOutcome,
    SnapshotSkipped, SuspendOutcome,
};

/// What a job does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Start a session.
    Start,
    /// Take a snapshot.
    Snapshot,
    /// Roll a session back.
    Rollback,
    /// Branch a session.
    Branch,
    /// Put a session to sleep.
    Suspend,
    /// Wake a session.
    Resume,
    /// End a session's processes.
    Stop,
    /// End a session's processes and run its command anew.
    Restart,
    /// Forget a session that has none.
    Remove,
    /// Run a command in a session.
    Exec,
    /// Adopt a process tree.
    Attach,
    /// Write a process tree to a directory.
    Checkpoint,
    /// Bring one back from a directory.
    Restore,
    /// Forget snapshots.
    Forget,
    /// Free what nothing leads to any more.
    Gc,
    /// Copy files of a snapshot.
    CopyOut,
    /// Send snapshots to a remote.
    Push,
    /// Let go of data that a remote has, too.
    FreeLocal,
}

impl JobKind {
    /// As on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Snapshot => "snapshot",
            Self::Rollback => "rollback",
            Self::Branch => "branch",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Remove => "remove",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::Checkpoint => "checkpoint",
            Self::Restore => "restore",
            Self::Forget => "forget",
            Self::Gc => "gc",
            Self::CopyOut => "copy_out",
            Self::Push => "push",
            Self::FreeLocal => "free_local",
        }
    }
}

/// How far a job is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// At work.
    Running,
    /// Ended well; `result` says with what.
    Done,
    /// Ended badly; `error` says why.
    Failed,
}

/// A step of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Its name, which is stable.
    pub name: String,
    /// How long it took; `null` while it runs.
    #[serde(default)]
    pub micros: Option<u64>,
    /// How much of it is done, if that can be counted.
    #[serde(default)]
    pub done: Option<u64>,
    /// How much there is to do in it.
    #[serde(default)]
    pub total: Option<u64>,
}

/// What came of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum JobResult {
    /// The session as it is now: after `start`, `resume`, `stop`, `restart`, `remove` and `attach`.
    Session(Box<SessionView>),
    /// After `snapshot`.
    Snapshot(SnapshotOutcome),
    /// After `snapshot`, if it was left out.
    Skipped(SnapshotSkipped),
    /// After `rollback`.
    Rollback(RollbackOutcome),
    /// After `branch`.
    Branch {
        /// In the order of their names.
        branches: Vec<BranchOutcome>,
    },
    /// After `suspend`.
    Suspend(SuspendOutcome),
    /// After `exec`.
    Exec(ExecOutcome),
    /// After `checkpoint`.
    Checkpoint(CheckpointOutcome),
    /// After `restore`.
    Restore(RestoredOutcome),
    /// After `forget`.
    Forget(ForgetOutcome),
    /// After `gc`.
    Gc(GcOutcome),
    /// After `copy_out`.
    CopyOut(CopyOutOutcome),
    /// After `push`.
    Push(PushOutcome),
    /// After `free_local`.
    FreeLocal(FreeLocalOutcome),
}

/// A job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// What it does.
    pub kind: JobKind,
    /// The session it was asked of, as the request named it; the new one's id once `start` or `attach` is done.
    #[serde(default)]
    pub session: Option<String>,
    /// How far it is.
    pub state: JobState,
    /// When it began.
    pub began: String,
    /// When it ended.
    #[serde(default)]
    pub ended: Option<String>,
    /// Its steps so far, in order.
    pub steps: Vec<Step>,
    /// What came of it.
    #[serde(default)]
    pub result: Option<JobResult>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<ErrorBody>,
}

/// The answer of `GET /v1/jobs`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// The caller's jobs that run, and the last that ended; oldest first.
    pub jobs: Vec<Job>,
}
