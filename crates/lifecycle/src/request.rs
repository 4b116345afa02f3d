//! What can be asked of the engine.

use std::ffi::OsString;

pub(crate) use api::{RestartRequest, RollbackRequest, Start, StopRequest};
pub use gpu_plan::GpuWish;
use workspace::FilePolicy;

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
