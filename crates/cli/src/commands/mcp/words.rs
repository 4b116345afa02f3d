//! What tools answer: of a session and a snapshot, as much as helps to choose the next step.

use api::{ActivityState, CommitView, SessionView};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::online::show;
use crate::format;

/// The longest text of somebody else's that is passed on in a list, in characters.
const SHORT: usize = 200;

/// A session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct SessionLine {
    /// What to call it.
    pub(super) session: String,
    /// `starting`, `running`, `suspended`, `ended` or `failed`.
    pub(super) state: String,
    /// The kernelspec; null for what is no kernel and runs no cells.
    pub(super) kernel: Option<String>,
    /// The language of its cells.
    pub(super) language: Option<String>,
    /// `busy`, `idle` or `unknown`.
    pub(super) activity: Option<String>,
    /// The directory that it works in, as it is seen from outside: that of a branch is its own.
    pub(super) directory: String,
    /// The notebook that it belongs to.
    pub(super) notebook: Option<String>,
    /// Memory that it takes now, in bytes.
    pub(super) memory_bytes: Option<u64>,
    /// GPU memory that it takes now, in bytes.
    pub(super) gpu_memory_bytes: Option<u64>,
    /// Its newest snapshot.
    pub(super) snapshot: Option<String>,
    /// If it is a branch, of which session.
    pub(super) branched_off: Option<String>,
    /// If it is a branch, the snapshot that it began with.
    pub(super) branched_at: Option<String>,
}

impl From<&SessionView> for SessionLine {
    fn from(view: &SessionView) -> Self {
        let kernel = view.kernel.as_ref();
        let activity = |state| match state {
            ActivityState::Busy => "busy",
            ActivityState::Idle => "idle",
            ActivityState::Unknown => "unknown",
        };
        Self {
            session: format::safe(&view.name),
            state: view.state.as_str().to_owned(),
            kernel: kernel.map(|kernel| kernel.kernel_name.as_deref().map(format::safe).unwrap_or_default()),
            language: kernel.and_then(|kernel| kernel.language.as_deref()).map(format::safe),
            activity: view.activity.as_ref().map(|one| activity(one.state).to_owned()),
            directory: show::text(view.workspace.as_ref().unwrap_or(&view.cwd)),
            notebook: view.notebook.as_ref().map(show::text),
            memory_bytes: view.memory_bytes,
            gpu_memory_bytes: view.vram_bytes,
            snapshot: view.head.as_deref().map(show::short),
            branched_off: view.parent.as_ref().map(|parent| format::safe(&parent.session)),
            branched_at: view.parent.as_ref().map(|parent| show::short(&parent.commit)),
        }
    }
}

/// A snapshot in a history.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct SnapshotLine {
    /// What to call it.
    pub(super) snapshot: String,
    /// When it was taken.
    pub(super) time: String,
    /// Why it was taken: `manual`, `before-rollback`, `suspend`, `branch` …
    pub(super) reason: String,
    /// What was said about it.
    pub(super) message: String,
    /// What the notebook called this moment.
    pub(super) label: Option<String>,
    /// Names that lead to it.
    pub(super) tags: Vec<String>,
    /// The session's thread.
    pub(super) thread: String,
    /// The cell that ran last, its beginning.
    pub(super) cell: Option<String>,
    /// What the store grew by, in bytes.
    pub(super) new_bytes: Option<u64>,
    /// The memory that it holds, in bytes.
    pub(super) memory_bytes: Option<u64>,
    /// The snapshot that the session went back to, if this one tells of that.
    pub(super) back_to: Option<String>,
}

impl From<&CommitView> for SnapshotLine {
    fn from(view: &CommitView) -> Self {
        Self {
            snapshot: show::short(&view.id),
            time: format::safe(&view.time),
            reason: format::safe(&view.reason),
            message: brief(&view.message),
            label: view.label.as_deref().map(brief),
            tags: view.tags.iter().map(|tag| format::safe(tag)).collect(),
            thread: format::safe(&view.thread),
            cell: view.cell.as_ref().map(|cell| brief(&cell.source)),
            new_bytes: view.new_bytes,
            memory_bytes: view.memory_bytes,
            back_to: view.back_to.as_deref().map(show::short),
        }
    }
}

/// The beginning of a text.
pub(super) fn brief(said: &str) -> String {
    format::shortened(&format::safe(said), SHORT)
}

/// The first of some things, and how many were left out.
pub(super) fn first<T, U>(all: &[T], most: usize, of: impl Fn(&T) -> U) -> (Vec<U>, usize) {
    (all.iter().take(most).map(of).collect(), all.len().saturating_sub(most))
}

/// Milliseconds out of microseconds.
pub(super) fn milliseconds(micros: u64) -> u64 {
    micros.div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_texts_are_cut() {
        assert_eq!(first(&[1, 2, 3], 2, |number| number * 10), (vec![10, 20], 1));
        assert_eq!(first(&[1], 2, |number| *number), (vec![1], 0));
        assert!(brief(&"x".repeat(900)).chars().count() <= SHORT);
        assert_eq!((milliseconds(0), milliseconds(1), milliseconds(57_100)), (0, 1, 58));
    }
}
