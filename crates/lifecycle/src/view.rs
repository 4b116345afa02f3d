//! A session, as it is seen from outside.

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use api::SessionView;
use api::{KernelView, Origin};
use cas_core::ObjectId;

use crate::record::Record;
use crate::steps::Timing;
use crate::words::{tell_file_policy, tell_session_policy};

/// What a record says. What its processes use and do now is not in it.
pub(crate) fn session_view(record: &Record) -> SessionView {
    SessionView {
        id: record.id.to_string(),
        name: record.name.clone(),
        state: record.state,
        command: record.command.iter().map(|word| word.as_str().into()).collect(),
        cwd: record.cwd.as_path().into(),
        workspace: Some(record.files_at.as_path().into()),
        pid: record.init.map(|init| init.pid),
        network: record.network,
        kernel: record.kernel.as_ref().map(|kernel| KernelView {
            connection_file: kernel.connection_file.as_path().into(),
            kernel_name: Some(kernel.spec.clone()),
            language: Some(kernel.language.clone()).filter(|language| !language.is_empty()),
            interrupt_mode: kernel.interrupt_mode,
        }),
        thread: record.thread.clone(),
        head: record.head.clone(),
        parent: record
            .origin
            .as_ref()
            .map(|origin| Origin { session: origin.session.to_string(), commit: origin.commit.clone() }),
        created: record.created.to_string(),
        exit: record.exit,
        files: tell_file_policy(record.files.clone()),
        memory_bytes: None,
        attached: record.habitat.is_host(),
        gpus: record.gpus.clone(),
        vram_bytes: None,
        gpu_trouble: record.gpu_trouble.clone(),
        labels: record.notes.labels.clone(),
        notebook: record.notes.notebook.as_deref().map(Into::into),
        policy: tell_session_policy(&record.notes.policy),
        operation: None,
        activity: None,
        mark: record.notes.mark.clone(),
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
