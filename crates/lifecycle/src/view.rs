//! What the engine answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cas_core::ObjectId;
use jiff::Timestamp;
use jupyter_bridge::InterruptMode;
use jupyter_bridge::watch::Activity;
use policy::SessionPolicy;
use workspace::FilePolicy;

use crate::record::{Network, Record, SessionId, SessionState};
use crate::steps::Timing;

/// A session, as it is seen from outside.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub state: SessionState,
    /// What runs in it.
    pub command: Vec<String>,
    /// Where it was started.
    pub cwd: PathBuf,
    /// The directory with its files, as seen from outside.
    pub workspace: PathBuf,
    /// Its first process, as the host numbers it.
    pub pid: Option<i32>,
    /// Its network.
    pub network: Network,
    /// If it is a Jupyter kernel.
    pub kernel: Option<KernelView>,
    /// The thread that its snapshots go to.
    pub thread: String,
    /// Its newest snapshot.
    pub head: Option<String>,
    /// Where it came from, if it is a branch.
    pub parent: Option<Origin>,
    /// When it was made.
    pub created: Timestamp,
    /// The status that it ended with.
    pub exit: Option<i32>,
    /// Which files belong to its snapshots.
    pub files: FilePolicy,
    /// How much memory its processes use now.
    pub memory_bytes: Option<u64>,
    /// Adopted while it ran.
    pub attached: bool,
    /// UUIDs of the GPUs that it may use.
    pub gpus: Vec<String>,
    /// How much GPU memory its processes use now; `None` if that cannot be told.
    pub vram_bytes: Option<u64>,
    /// Why its work on the GPU stands still, if it does.
    pub gpu_trouble: Option<String>,
    /// What others noted about it.
    pub labels: BTreeMap<String, String>,
    /// The document that goes with each snapshot.
    pub notebook: Option<PathBuf>,
    /// What happens to it by itself.
    pub policy: SessionPolicy,
    /// The label of its next snapshot.
    pub mark: Option<String>,
    /// The kind of the operation that is under way.
    pub operation: Option<&'static str>,
    /// What its kernel is doing, if it is one that runs.
    pub activity: Option<Activity>,
}

/// How a kernel is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelView {
    /// Name of the kernelspec.
    pub kernel_name: String,
    /// The connection file for clients.
    pub connection_file: PathBuf,
    /// The language of its cells, if that is known.
    pub language: Option<String>,
    /// How it is interrupted.
    pub interrupt_mode: InterruptMode,
}

/// Where a branch came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The session.
    pub session: SessionId,
    /// The snapshot.
    pub commit: String,
}

impl SessionView {
    pub(crate) fn of(record: &Record) -> Self {
        Self {
            id: record.id.clone(),
            name: record.name.clone(),
            state: record.state,
            command: record.command.clone(),
            cwd: record.cwd.clone(),
            workspace: record.files_at.clone(),
            pid: record.init.map(|init| init.pid),
            network: record.network,
            kernel: record.kernel.as_ref().map(|kernel| KernelView {
                kernel_name: kernel.spec.clone(),
                connection_file: kernel.connection_file.clone(),
                language: Some(kernel.language.clone()).filter(|language| !language.is_empty()),
                interrupt_mode: kernel.interrupt_mode,
            }),
            thread: record.thread.clone(),
            head: record.head.clone(),
            parent: record
                .origin
                .as_ref()
                .map(|origin| Origin { session: origin.session.clone(), commit: origin.commit.clone() }),
            created: record.created,
            exit: record.exit,
            files: record.files.clone(),
            memory_bytes: None,
            attached: record.habitat.is_host(),
            gpus: record.gpus.clone(),
            vram_bytes: None,
            gpu_trouble: record.gpu_trouble.clone(),
            labels: record.notes.labels.clone(),
            notebook: record.notes.notebook.clone(),
            policy: record.notes.policy.clone(),
            mark: record.notes.mark.clone(),
            operation: None,
            activity: None,
        }
    }
}

/// Something that a restore will not bring back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotCapturedView {
    /// The file, as the session sees it.
    pub path: String,
    /// Why it is not in the snapshot.
    pub reason: String,
}

/// A snapshot was taken.
#[derive(Clone, Debug)]
pub struct SnapshotOutcome {
    /// Which one.
    pub commit: ObjectId,
    /// How long the processes stood still.
    pub frozen: Duration,
    /// How long work on the GPU stood still, the freeze included; zero for sessions without any.
    pub gpu_paused: Duration,
    /// How long all of it took.
    pub total: Duration,
    /// Bytes of memory that it holds, those of the GPUs among them.
    pub memory_bytes: u64,
    /// Bytes of GPU memory that it holds.
    pub vram_bytes: u64,
    /// Bytes that no earlier snapshot had.
    pub new_bytes: u64,
    /// What it does not hold.
    pub not_captured: Vec<NotCapturedView>,
    /// What may surprise at a restore.
    pub warnings: Vec<String>,
    /// How long each step took.
    pub steps: Vec<Timing>,
}

/// A session went back.
#[derive(Clone, Debug)]
pub struct RollbackOutcome {
    /// The snapshot that it is at now.
    pub commit: ObjectId,
    /// The automatic snapshot of the state that was left; none if there were no processes.
    pub automatic: Option<ObjectId>,
    /// Files that somebody else had changed and that were overwritten.
    pub changed_by_others: Vec<PathBuf>,
    /// Connections that were closed.
    pub closed_connections: Vec<String>,
    /// What may surprise.
    pub warnings: Vec<String>,
    /// How long each step took.
    pub steps: Vec<Timing>,
}

/// A session was made from a snapshot.
#[derive(Clone, Debug)]
pub struct BranchOutcome {
    /// The new session.
    pub session: SessionView,
    /// The snapshot that it came from.
    pub commit: ObjectId,
    /// Files that it shares with others.
    pub shared: Vec<PathBuf>,
    /// What may surprise.
    pub warnings: Vec<String>,
    /// How long each step took.
    pub steps: Vec<Timing>,
}

/// A session sleeps.
#[derive(Clone, Debug)]
pub struct SuspendOutcome {
    /// The snapshot that it will come back from.
    pub commit: ObjectId,
    /// Memory that is free now.
    pub freed_bytes: u64,
    /// GPU memory that is free now.
    pub freed_vram_bytes: u64,
    /// How long each step took.
    pub steps: Vec<Timing>,
}

/// A checkpoint or restore without supervision.
#[derive(Clone, Debug)]
pub struct OneShot {
    /// The first process.
    pub pid: i32,
    /// Where the images are.
    pub directory: PathBuf,
    /// How long the processes stood still, for a checkpoint.
    pub frozen: Duration,
}
