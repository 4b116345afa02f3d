//! Who does what the daemon is asked for: the trait between the wire and the engine. What is asked for, as a value, is an `Operation`.
//!
//! Every call may block for as long as the operation takes; the daemon makes each on a thread of its own. Whoever can
//! ask is the daemon's own user, so nothing here says who asks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use api::{
    Activity, AttachRequest, BranchOutcome, BranchRequest, CheckRequest, CheckpointOutcome,
    CheckpointRequest, CommitView, Commits, CopyOutOutcome, CopyOutRequest, Diff, Doctor, ErrorBody,
    EventKind, ExecOutcome, ExecRequest, FileText, ForgetOutcome, ForgetRequest, FreeLocalOutcome, GcOutcome,
    JobResult, PushOutcome, RestartRequest, RestoreRequest, RestoredOutcome, ResumeRequest, RollbackOutcome,
    RollbackRequest, Server, SessionFiles, SessionPatch, SessionState, SessionView, SignalRequest,
    SnapshotCheck, SnapshotFiles, SnapshotRequest, StartRequest, StopRequest, StoreView, SuspendOutcome,
    SuspendRequest, TagRequest, Variable, Version,
};

use lifecycle::{Asked, Did, Errand, SessionId};
use policy::pushing::Unsent;
use remote::{LastPush, RemoteError};
use serde_json::Value;

use crate::error::DaemonError;

/// Why something was not done, and the HTTP status that says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// 4xx if the caller is to change something, 5xx otherwise.
    pub status: u16,
    /// What the caller is told. In a box, for it is much larger than most of what could be answered instead.
    pub body: Box<ErrorBody>,
    /// Nothing is wrong: something else was being done to the session, or it had no processes just then. What is due by itself is tried
    /// another time.
    pub another_time: bool,
}

/// The result of an operation.
pub type Outcome<T> = Result<T, Failure>;

/// Told how an operation goes on. The names of steps are part of the interface.
pub trait Progress: Sync {
    /// A step has begun.
    fn begun(&self, step: &'static str);
    /// This much of it is done.
    fn progress(&self, step: &'static str, done: u64, total: Option<u64>);
    /// It is done, and took this long.
    fn done(&self, step: &'static str, micros: u64);
}

/// Something that happened to a session, whether or not somebody asked for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Happening {
    /// What happened.
    pub kind: EventKind,
    /// The state that the session has now, if that is what happened.
    pub state: Option<SessionState>,
    /// To which session.
    pub session: String,
    /// The snapshot in question.
    pub commit: Option<String>,
    /// What its kernel is doing, if that is what happened.
    pub activity: Option<Activity>,
}

/// How it stands between what is here and a remote.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Beyond {
    /// Threads and tags that are not there as they are here.
    pub unsent: Vec<(String, Unsent)>,
    /// How the last push went.
    pub last: Option<LastPush>,
    /// What the store takes here.
    pub stored: u64,
}

/// All that can be asked of the engine.
pub trait Backend: Send + Sync + 'static {
    /// Versions, and why nothing can be done here if so.
    fn version(&self) -> Version;
    /// What this machine can and cannot do.
    fn doctor(&self) -> Outcome<Doctor>;
    /// Whether a snapshot would come up here.
    fn check(&self, which: &str, request: &CheckRequest) -> Outcome<SnapshotCheck>;
    /// Takes a snapshot from elsewhere for one of this installation's own.
    fn trust(&self, which: &str) -> Outcome<CommitView>;
    /// All sessions, oldest first.
    fn sessions(&self) -> Outcome<Vec<SessionView>>;
    /// One of them, by id, name or the beginning of an id.
    fn session(&self, which: &str) -> Outcome<SessionView>;
    /// The servers that its processes run.
    fn servers(&self, which: &str) -> Outcome<Vec<Server>>;
    /// Where the session's log is.
    fn log(&self, which: &str) -> Outcome<PathBuf>;
    /// The snapshots of a session, of its whole family, or all there are; newest first.
    fn history(&self, which: Option<&str>, family: bool, limit: Option<usize>) -> Outcome<Commits>;
    /// One snapshot.
    fn commit(&self, which: &str) -> Outcome<CommitView>;
    /// The document that went with it.
    fn notebook(&self, which: &str) -> Outcome<Vec<u8>>;
    /// The variables that its kernel had.
    fn variables(&self, which: &str) -> Outcome<Vec<Variable>>;
    /// Gives a snapshot a name that stays.
    fn tag(&self, request: TagRequest) -> Outcome<CommitView>;
    /// Takes such a name away.
    fn untag(&self, name: &str) -> Outcome<()>;
    /// What lies between two snapshots.
    fn diff(&self, a: &str, b: &str) -> Outcome<Diff>;
    /// The files of a session that are its own and that no snapshot has.
    fn loose_files(&self, which: &str) -> Outcome<SessionFiles>;
    /// The files of a snapshot, the first so many of them.
    fn snapshot_files(&self, which: &str, limit: usize) -> Outcome<SnapshotFiles>;
    /// The text of a file of a snapshot.
    fn file_text(&self, which: &str, path: &Path) -> Outcome<FileText>;
    /// Copies files of a snapshot into a directory.
    fn copy_out(
        &self,
        which: &str,
        request: CopyOutRequest,
        progress: &dyn Progress,
    ) -> Outcome<CopyOutOutcome>;
    /// Where the store is, and how large.
    fn store(&self) -> Outcome<StoreView>;

    /// Starts a session.
    fn start(&self, request: StartRequest, progress: &dyn Progress) -> Outcome<SessionView>;
    /// Takes a snapshot, or leaves it out.
    fn snapshot(&self, which: &str, request: SnapshotRequest, progress: &dyn Progress) -> Outcome<JobResult>;
    /// Gives up a snapshot that nobody asked for and that has not begun; says whether there was one.
    fn give_up(&self, which: &str) -> Outcome<bool>;
    /// Rolls a session back.
    fn rollback(
        &self,
        which: &str,
        request: RollbackRequest,
        progress: &dyn Progress,
    ) -> Outcome<RollbackOutcome>;
    /// Makes branches of a session; without one, of the snapshot that is named.
    fn branch(
        &self,
        which: Option<&str>,
        request: BranchRequest,
        progress: &dyn Progress,
    ) -> Outcome<Vec<BranchOutcome>>;
    /// Puts a session to sleep.
    fn suspend(
        &self,
        which: &str,
        request: SuspendRequest,
        progress: &dyn Progress,
    ) -> Outcome<SuspendOutcome>;
    /// Wakes it.
    fn resume(&self, which: &str, request: ResumeRequest, progress: &dyn Progress) -> Outcome<SessionView>;
    /// Ends its processes.
    fn stop(&self, which: &str, request: StopRequest, progress: &dyn Progress) -> Outcome<SessionView>;
    /// Ends its processes, if it has any, and runs a command in it anew.
    fn restart(&self, which: &str, request: RestartRequest, progress: &dyn Progress) -> Outcome<SessionView>;
    /// Sends a signal to its main command.
    fn signal(&self, which: &str, request: SignalRequest) -> Outcome<()>;
    /// Changes what is noted about it.
    fn change(&self, which: &str, patch: SessionPatch) -> Outcome<SessionView>;
    /// Forgets a session that has no processes; its snapshots stay, and so do files of a branch that none has, unless that is not wanted.
    /// Returns what it was.
    fn remove(&self, which: &str, discard_files: bool, progress: &dyn Progress) -> Outcome<SessionView>;
    /// Runs a command inside.
    fn exec(&self, which: &str, request: ExecRequest, progress: &dyn Progress) -> Outcome<ExecOutcome>;
    /// Adopts a process tree.
    fn attach(&self, request: AttachRequest, progress: &dyn Progress) -> Outcome<SessionView>;
    /// Writes a process tree to a directory.
    fn checkpoint(&self, request: CheckpointRequest, progress: &dyn Progress) -> Outcome<CheckpointOutcome>;
    /// Brings one back.
    fn restore(&self, request: RestoreRequest, progress: &dyn Progress) -> Outcome<RestoredOutcome>;

    /// Leaves snapshots out of history.
    fn forget(&self, request: ForgetRequest, progress: &dyn Progress) -> Outcome<ForgetOutcome>;
    /// Frees what no snapshot needs.
    fn gc(&self, progress: &dyn Progress) -> Outcome<GcOutcome>;

    /// What the remote of this name has not got, and how pushes to it went; `None` if there is no such remote.
    fn beyond(&self, _remote: &str) -> Outcome<Option<Beyond>> {
        Ok(None)
    }
    /// Sends threads and tags to a remote, all if none is named. Nobody asked for it.
    fn push(&self, remote: &str, _names: &[String], _progress: &dyn Progress) -> Outcome<PushOutcome> {
        Err(RemoteError::NoSuchRemote { name: remote.to_owned() }.into())
    }
    /// Lets go of data that a remote has, too, until no more than `keep` bytes are here.
    fn free_local(&self, remote: &str, _keep: u64, _progress: &dyn Progress) -> Outcome<FreeLocalOutcome> {
        Err(RemoteError::NoSuchRemote { name: remote.to_owned() }.into())
    }

    /// What happens from now on; asked for once.
    fn happenings(&self) -> Option<Receiver<Happening>> {
        None
    }
    /// What kernels ask for from now on; asked for once. Each is answered with [`Backend::answer`].
    fn asked(&self) -> Option<Receiver<Asked>> {
        None
    }
    /// Answers a kernel, unless the answer is `None`.
    fn answer(&self, _session: &SessionId, _id: &str, _answer: Option<Value>) {}
    /// What is due by the policies of sessions from now on; asked for once. [`Backend::did`] is told how it went.
    fn due(&self) -> Option<Receiver<Errand>> {
        None
    }
    /// How it went.
    fn did(&self, _session: &SessionId, _did: Did) {}
    /// Something was done by a session's policy: lets go of what that does not keep. What fails is tried the next time.
    fn tidy(&self, _session: &SessionId) {}
}

/// Asks the engine something that does not take long.
pub(crate) async fn ask<T: Send + 'static>(
    backend: &Arc<dyn Backend>,
    question: impl FnOnce(&dyn Backend) -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    let backend = Arc::clone(backend);
    match tokio::task::spawn_blocking(move || question(&*backend)).await {
        Ok(answer) => answer,
        Err(error) => Err(DaemonError::Bug { detail: format!("a question had no answer: {error}") }.into()),
    }
}
