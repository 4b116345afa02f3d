//! What can go wrong in a pipeline.
//!
//! The rules of `cas_core::error` hold here too. An error of an engine keeps the engine's own code, because that is what its
//! page is about; the variants of this crate are for what only the whole can know.

use std::path::PathBuf;

use api::SnapshotSkipped;
use base::IoError;
use cas_core::StoreError;
use checkpoint_criu::CriuError;
use history::HistoryError;
use jupyter_bridge::JupyterError;
use manifest::ManifestError;
use preflight::{Problem, tell_pids};
use sandbox::SandboxError;
use workspace::some_of;

pub use base::Class;
pub(crate) use base::io_error;

use crate::ports::EngineError;

/// The result of most calls here.
pub type Result<T, E = LifecycleError> = std::result::Result<T, E>;

/// An error of a pipeline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LifecycleError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A manifest in the store.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// CRIU.
    #[error(transparent)]
    Criu(#[from] CriuError),
    /// The sandbox.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Jupyter's files.
    #[error(transparent)]
    Jupyter(#[from] JupyterError),
    /// An engine behind a port.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Snapshots, and the store that they lie in.
    #[error(transparent)]
    History(HistoryError),
    /// No session has this id or name.
    #[error("no session `{which}`")]
    NoSuchSession {
        /// What was asked for.
        which: String,
    },
    /// Several sessions begin like this.
    #[error("`{which}` fits several sessions: {}", fits.join(", "))]
    AmbiguousSession {
        /// What was asked for.
        which: String,
        /// Their names.
        fits: Vec<String>,
    },
    /// The session is not in a state in which this can be done.
    #[error("session {session} is {state}, and cannot {action}")]
    WrongState {
        /// Its name.
        session: String,
        /// The state that it is in.
        state: &'static str,
        /// What was asked for.
        action: &'static str,
    },
    /// Another operation on the same session is under way.
    #[error("session {session} is busy: {doing} is under way")]
    Busy {
        /// Its name.
        session: String,
        /// The operation, in words.
        doing: &'static str,
    },
    /// Another session has this name.
    #[error("the name `{name}` is in use")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The request does not make sense.
    #[error("{detail}")]
    BadRequest {
        /// What is wrong with it.
        detail: String,
    },
    /// The command ended before it was ready.
    #[error("the command of session {session} ended at once, with status {status}")]
    EndedAtOnce {
        /// The session's name.
        session: String,
        /// Its exit status, or 128 + signal.
        status: i32,
        /// The last lines of its log.
        log: Vec<String>,
    },
    /// A restore failed; the session was brought back to the state from before.
    #[error("the restore of {commit} failed; session {session} was put back to the state from before")]
    PutBack {
        /// The session's name.
        session: String,
        /// What should have been restored.
        commit: String,
        /// Why it failed.
        source: Box<LifecycleError>,
    },
    /// A restore failed, and so did the way back; the state is safe in the store.
    #[error(
        "the restore of {commit} failed; session {session} is suspended, its last state is snapshot {safe}{}",
        nor(back)
    )]
    LeftSuspended {
        /// The session's name.
        session: String,
        /// What should have been restored.
        commit: String,
        /// The snapshot that holds the last state.
        safe: String,
        /// Why that did not come back either, if it is another one.
        back: Option<String>,
        /// Why it failed.
        source: Box<LifecycleError>,
    },
    /// Files would be lost that no snapshot has.
    #[error("no snapshot has {} as it is now, and it would be lost", some_of(paths))]
    FilesChanged {
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// Files are in such a state that CRIU would refuse to restore.
    #[error("snapshot {commit} cannot be restored as the files are now: {}", files.join("; "))]
    FilesInTheWay {
        /// The snapshot.
        commit: String,
        /// Which files, and why.
        files: Vec<String>,
    },
    /// A snapshot would fail.
    #[error("a snapshot would fail: {}", problems.iter().map(|problem| problem.what).collect::<Vec<_>>().join("; "))]
    Preflight {
        /// Everything that was found.
        problems: Vec<Problem>,
    },
    /// There is no room.
    #[error("not enough room in `{}`: {needed} bytes are needed, {available} are free", path.display())]
    NoRoom {
        /// A path on the disk that is too full.
        path: PathBuf,
        /// Bytes that are needed there.
        needed: u64,
        /// How much there is.
        available: u64,
    },
    /// The store has grown to what it may take.
    #[error("the store `{}` takes {used} bytes, and may take {budget}", store.display())]
    OverBudget {
        /// Where it is.
        store: PathBuf,
        /// What it takes.
        used: u64,
        /// What it may take.
        budget: u64,
    },
    /// The images ask for more than their owner has.
    #[error("the images of this snapshot may not be restored for user {uid}: {}", findings.join("; "))]
    Untrusted {
        /// For whom.
        uid: u32,
        /// What they ask for.
        findings: Vec<String>,
    },
    /// A snapshot lacks what a restore needs.
    #[error("snapshot {commit} cannot be restored: {detail}")]
    BadSnapshot {
        /// The snapshot.
        commit: String,
        /// What is missing or wrong.
        detail: String,
    },
    /// The machine is not like the one that the snapshot was taken on.
    #[error("snapshot {commit} cannot be restored on this machine: {}", reasons.join("; "))]
    Incompatible {
        /// The snapshot.
        commit: String,
        /// What differs.
        reasons: Vec<String>,
    },
    /// The GPUs here cannot take what the snapshot has on GPUs.
    #[error("snapshot {commit} finds no place on the GPUs of this machine: {}", reasons.join("; "))]
    NoPlaceOnGpus {
        /// The snapshot.
        commit: String,
        /// What is missing, a sentence each.
        reasons: Vec<String>,
    },
    /// The driver said that it took everything off the GPU, and something is still there. It was put back.
    #[error("something of a GPU is left in the session after the driver's checkpoint: {evidence}")]
    LeftOnGpu {
        /// What, and where.
        evidence: String,
    },
    /// The driver would not bring processes back onto the GPU after a snapshot, which is kept.
    #[error(
        "the driver would not bring session {session} back onto the GPU; it is suspended at snapshot {commit}, which holds \
         its last state"
    )]
    SuspendedByGpu {
        /// The session's name.
        session: String,
        /// The snapshot.
        commit: String,
        /// What the driver said.
        source: Box<LifecycleError>,
    },
    /// Processes are off the GPU or locked, and the driver would not bring them back.
    #[error("work on the GPU stands still{}", tell_pids(pids))]
    GpuStuck {
        /// Which; empty if it is said elsewhere.
        pids: Vec<i32>,
        /// What went wrong first.
        source: Box<LifecycleError>,
    },
    /// The program that talks to the driver is missing.
    #[error("`infinijup-gpu` is not there; looked for it at {}", looked.join(", "))]
    NoGpuProgram {
        /// The places that were looked at.
        looked: Vec<String>,
    },
    /// A file that the daemon keeps about its sessions cannot be read.
    #[error("`{}` is damaged: {detail}", path.display())]
    DamagedRecord {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// A snapshot that nobody asked for was left out.
    #[error("a snapshot was left out")]
    Skipped(SnapshotSkipped),
    /// The quiesce hook failed.
    #[error("the quiesce command failed with status {status}: {output}")]
    Quiesce {
        /// Its exit status.
        status: i32,
        /// What it said.
        output: String,
    },
    /// Nothing can be done to all of the store while operations wait to be finished.
    #[error("operations on these sessions were cut short: {}", sessions.join(", "))]
    Unfinished {
        /// Their ids.
        sessions: Vec<String>,
    },
    /// Our own mistake.
    #[error("{0}; this is a bug, please report it")]
    Bug(String),
}

/// The code and the class of what only history says.
fn of_history(error: &HistoryError) -> (&'static str, Class) {
    match error {
        HistoryError::NotSealed { .. } => ("IJ-L051", Class::Refused),
        HistoryError::NoSuchSnapshot { .. } => ("IJ-L061", Class::NotFound),
        HistoryError::NotInSnapshot { .. } => ("IJ-L063", Class::NotFound),
        HistoryError::Forgotten { .. } => ("IJ-L064", Class::NotFound),
        HistoryError::GcIncomplete { .. } => ("IJ-L065", Class::Corruption),
        HistoryError::WritersBusy { .. } => ("IJ-L066", Class::Conflict),
        HistoryError::StoreKey { .. } => ("IJ-L090", Class::Key),
        HistoryError::NotEncrypted { .. } => ("IJ-L091", Class::Key),
        _ => ("IJ-L099", Class::Bug),
    }
}

impl LifecycleError {
    /// Stable; a page in `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Manifest(error) => error.code(),
            Self::Criu(error) => error.code(),
            Self::Sandbox(error) => error.code(),
            Self::Jupyter(error) => error.code(),
            Self::Engine(error) => error.code,
            Self::History(error) => of_history(error).0,
            Self::Io(_) => "IJ-L001",
            Self::NoSuchSession { .. } => "IJ-L010",
            Self::AmbiguousSession { .. } => "IJ-L011",
            Self::WrongState { .. } => "IJ-L012",
            Self::Busy { .. } => "IJ-L013",
            Self::NameTaken { .. } => "IJ-L014",
            Self::BadRequest { .. } => "IJ-L015",
            Self::EndedAtOnce { .. } => "IJ-L016",
            Self::PutBack { .. } => "IJ-L020",
            Self::LeftSuspended { .. } => "IJ-L021",
            Self::FilesChanged { .. } => "IJ-L030",
            Self::FilesInTheWay { .. } => "IJ-L031",
            Self::Preflight { .. } => "IJ-L040",
            Self::NoRoom { .. } => "IJ-L041",
            Self::Quiesce { .. } => "IJ-L042",
            Self::OverBudget { .. } => "IJ-L043",
            Self::Skipped(_) => "IJ-L044",
            Self::Untrusted { .. } => "IJ-L050",
            Self::BadSnapshot { .. } => "IJ-L060",
            Self::Incompatible { .. } => "IJ-L062",
            Self::DamagedRecord { .. } => "IJ-L070",
            Self::NoPlaceOnGpus { .. } => "IJ-L080",
            Self::LeftOnGpu { .. } => "IJ-L081",
            Self::SuspendedByGpu { .. } => "IJ-L082",
            Self::GpuStuck { .. } => "IJ-L083",
            Self::NoGpuProgram { .. } => "IJ-L084",
            Self::Unfinished { .. } => "IJ-L092",
            Self::Bug(_) => "IJ-L099",
        }
    }

    /// What kind of trouble it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Store(error) => error.class(),
            Self::History(error) => of_history(error).1,
            Self::Manifest(_) | Self::BadSnapshot { .. } | Self::DamagedRecord { .. } => Class::Corruption,
            Self::Jupyter(_)
            | Self::WrongState { .. }
            | Self::BadRequest { .. }
            | Self::EndedAtOnce { .. } => Class::Usage,
            Self::NoSuchSession { .. } => Class::NotFound,
            Self::AmbiguousSession { .. } => Class::Usage,
            Self::Busy { .. }
            | Self::Skipped(_)
            | Self::Unfinished { .. }
            | Self::NameTaken { .. }
            | Self::FilesChanged { .. } => Class::Conflict,
            Self::FilesInTheWay { .. }
            | Self::Preflight { .. }
            | Self::Untrusted { .. }
            | Self::NoPlaceOnGpus { .. }
            | Self::LeftOnGpu { .. }
            | Self::Incompatible { .. } => Class::Refused,
            Self::PutBack { source, .. } | Self::LeftSuspended { source, .. } => source.class(),
            Self::Engine(error) => error.class,
            Self::Criu(_)
            | Self::Sandbox(_)
            | Self::SuspendedByGpu { .. }
            | Self::GpuStuck { .. }
            | Self::NoGpuProgram { .. }
            | Self::Io(_)
            | Self::NoRoom { .. }
            | Self::OverBudget { .. }
            | Self::Quiesce { .. } => Class::Environment,
            Self::Bug(_) => Class::Bug,
        }
    }

    /// What was seen, beyond the text and its causes: the telling lines of CRIU's log.
    pub fn evidence(&self) -> Vec<String> {
        match self {
            Self::Criu(error) => error.evidence().map(|evidence| evidence.lines.clone()).unwrap_or_default(),
            Self::PutBack { source, .. }
            | Self::LeftSuspended { source, .. }
            | Self::SuspendedByGpu { source, .. }
            | Self::GpuStuck { source, .. } => source.evidence(),
            _ => Vec::new(),
        }
    }
}

fn nor(back: &Option<String>) -> String {
    back.as_ref().map_or_else(String::new, |why| format!(", which did not come back either: {why}"))
}
