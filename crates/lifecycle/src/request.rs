//! What can be asked of the engine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use gpu_plan::GpuWish;
use jupyter_bridge::InterruptMode;
use policy::SessionPolicy;
use workspace::FilePolicy;

use crate::record::Network;

/// What a session is to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// A command.
    Command(Vec<OsString>),
    /// A Jupyter kernel.
    Kernel {
        /// Name of its kernelspec; `python3` if none.
        spec: Option<String>,
        /// How it is started. If `None`, the kernelspec is looked for and says.
        own: Option<KernelStart>,
    },
}

/// A kernel whose kernelspec was read by somebody else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelStart {
    /// Its command; `{connection_file}` in it is replaced.
    pub argv: Vec<OsString>,
    /// How it is interrupted.
    pub interrupt_mode: InterruptMode,
    /// The language of its cells; may be empty.
    pub language: String,
}

/// A new session.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// How people call it; made up if `None`.
    pub name: Option<String>,
    /// What runs in it.
    pub start: Start,
    /// The directory that it is started in.
    pub cwd: PathBuf,
    /// With which environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its network.
    pub network: Network,
    /// Whether a private network has a way out.
    pub outside: bool,
    /// The directory that a branch gets its own copy of; the working directory if `None`.
    pub workspace: Option<PathBuf>,
    /// Which files belong to its snapshots.
    pub files: FilePolicy,
    /// Bytes of memory that it may use.
    pub memory_limit: Option<u64>,
    /// Processes and threads that it may have.
    pub pids_limit: Option<u64>,
    /// Further commands that run beside it, and are captured with it.
    pub sidecars: Vec<Vec<OsString>>,
    /// Which GPUs it may use.
    pub gpus: GpuWish,
    /// What others note about it.
    pub labels: BTreeMap<String, String>,
    /// The document that goes with each snapshot.
    pub notebook: Option<PathBuf>,
    /// What happens to it by itself.
    pub policy: SessionPolicy,
}

/// The command of a session, anew.
#[derive(Clone, Debug)]
pub struct RestartRequest {
    /// What runs in it.
    pub start: Start,
    /// With which environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where; as before if `None`.
    pub cwd: Option<PathBuf>,
    /// How long the old processes have between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Keep their state first.
    pub snapshot: bool,
}

/// What goes with a snapshot beside processes and files.
#[derive(Clone, Default, Debug)]
pub struct Along {
    /// What to call this moment; the session's mark if `None`.
    pub label: Option<String>,
    /// The document as it is in the editor. If `None`, the file that the session names as its notebook is read.
    pub notebook: Option<String>,
    /// The cell that ran last, or is about to run.
    pub cell: Option<Cell>,
    /// Whether variables are asked for; yes if `None`.
    pub variables: Option<bool>,
}

/// A cell of a notebook.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Cell {
    /// Its id in the document.
    pub id: Option<String>,
    /// Its number.
    pub number: Option<u32>,
    /// Its text; what is longer than history shows is cut.
    pub source: String,
}

/// A snapshot.
#[derive(Clone, Default, Debug)]
pub struct SnapshotRequest {
    /// What its author says about it.
    pub message: String,
    /// A tag to set on it.
    pub tag: Option<String>,
    /// Another policy for files than the session's, for this snapshot.
    pub files: Option<FilePolicy>,
    /// A command that is run inside before the freeze, to bring things to rest.
    pub quiesce: Option<Vec<OsString>>,
    /// What made it happen; somebody asked for it if `None`.
    pub reason: Option<String>,
    /// What goes with it.
    pub along: Along,
}

/// Sleep.
#[derive(Clone, Default, Debug)]
pub struct SuspendRequest {
    /// What its author says about the snapshot.
    pub message: String,
    /// `idle` if nobody asked for it; somebody did if `None`.
    pub reason: Option<String>,
    /// What goes with it.
    pub along: Along,
}

/// A way back.
#[derive(Clone, Debug)]
pub struct RollbackRequest {
    /// A commit, thread, tag or `thread~2`.
    pub to: String,
    /// Overwrite files that somebody else changed.
    pub force: bool,
    /// Put files back too.
    pub files: bool,
    /// What the kernel is told when it lives again.
    pub note: Option<String>,
    /// The document as it is in the editor, for the snapshot of what is left.
    pub notebook: Option<String>,
}

impl RollbackRequest {
    /// To there, with its files, unless somebody else changed some.
    pub fn to(to: impl Into<String>) -> Self {
        Self { to: to.into(), force: false, files: true, note: None, notebook: None }
    }
}

/// A new session from a snapshot of another.
#[derive(Clone, Default, Debug)]
pub struct BranchRequest {
    /// From which snapshot; a new one is taken if `None`.
    pub from: Option<String>,
    /// The new session's name; with a count above one, a number is added.
    pub name: Option<String>,
    /// How many; 1 if 0.
    pub count: u32,
    /// Onto which GPUs; those of the original if it had all, else its own or free ones like them.
    pub gpus: Option<GpuWish>,
    /// The document as it is in the editor, if a new snapshot is taken.
    pub notebook: Option<String>,
}

/// A return from sleep.
#[derive(Clone, Default, Debug)]
pub struct ResumeRequest {
    /// Overwrite files that somebody else changed, and restore on a machine that is not like the old one.
    pub force: bool,
    /// Onto which GPUs; as the session was started if `None`.
    pub gpus: Option<GpuWish>,
}

/// An end.
#[derive(Clone, Copy, Debug)]
pub struct StopRequest {
    /// How long processes have between SIGTERM and SIGKILL.
    pub grace: Duration,
}
