//! What was: snapshots and what lies between two of them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Text;

/// A snapshot in the history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct CommitView {
    /// Its id.
    pub id: String,
    /// What it was made from; none for the first.
    pub parents: Vec<String>,
    /// The thread it was made on.
    pub thread: String,
    /// Tags that lead to it.
    pub tags: Vec<String>,
    /// When the processes stood still for it.
    pub time: String,
    /// Why: `manual`, `before-cell`, `after-cell`, `interval`, `idle`, `before-rollback`, `rollback`, `before-restart`,
    /// `before-shutdown`, `suspend`, `branch` …
    pub reason: String,
    /// Whether nobody asked for it: such snapshots are the first that retention lets go.
    #[serde(default)]
    pub automatic: bool,
    /// What the user said about it.
    pub message: String,
    /// What the notebook called this moment.
    #[serde(default)]
    pub label: Option<String>,
    /// How much it holds.
    pub bytes: u64,
    /// How much the store grew by. This and the figures below are `null` where nobody wrote them down.
    #[serde(default)]
    pub new_bytes: Option<u64>,
    /// How much memory it holds, that of GPUs included.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// How much of that is GPU memory.
    #[serde(default)]
    pub vram_bytes: Option<u64>,
    /// How long the processes stood still.
    #[serde(default)]
    pub frozen_us: Option<u64>,
    /// How long work on the GPU stood still, the freeze included.
    #[serde(default)]
    pub gpu_paused_us: Option<u64>,
    /// The cell that ran last, or was about to run.
    #[serde(default)]
    pub cell: Option<CellNote>,
    /// Whether `GET /v1/commits/{id}/notebook` has something.
    #[serde(default)]
    pub has_notebook: bool,
    /// Whether `GET /v1/commits/{id}/variables` has something.
    #[serde(default)]
    pub has_variables: bool,
    /// The session it was taken of, which may be gone.
    #[serde(default)]
    pub session: Option<String>,
    /// The snapshot that the session went back to, if `reason` is `rollback` and that one is still there.
    #[serde(default)]
    pub back_to: Option<String>,
    /// The remote that its data is in, if that is not here: a restore reads it from there.
    #[serde(default)]
    pub elsewhere: Option<String>,
}

/// A cell of a notebook.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CellNote {
    /// Its id in the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its number, as in `In [7]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Its text; cut after 2,000 characters.
    pub source: String,
}

/// The answer of `GET /v1/sessions/{id}/history` and `GET /v1/history`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Commits {
    /// Newest first; a commit never comes before one that was made from it.
    pub commits: Vec<CommitView>,
    /// With `family=true`: the threads that these commits are on; none otherwise.
    #[serde(default)]
    pub threads: Vec<ThreadView>,
}

/// A thread: where the snapshots of one session go, one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadView {
    /// Its name.
    pub name: String,
    /// Its newest snapshot.
    pub head: String,
    /// The session that goes on with it; `null` if that is gone.
    #[serde(default)]
    pub session: Option<String>,
}

/// A variable of a kernel, as it was at a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The name of its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many bytes it takes, if the kernel could say.
    #[serde(default)]
    pub size: Option<u64>,
    /// The beginning of what it looks like; at most 200 characters.
    #[serde(default)]
    pub summary: String,
}

/// The answer of `GET /v1/commits/{id}/variables`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Variables {
    /// Sorted by name.
    pub variables: Vec<Variable>,
}

/// `POST /v1/tags`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TagRequest {
    /// The tag.
    pub name: String,
    /// The snapshot: an id or the beginning of one, another tag, a thread, with `~N` for the Nth before it.
    pub commit: String,
    /// Whether a tag that is there already may be moved.
    #[serde(default, rename = "move")]
    pub move_it: bool,
}

/// `POST /v1/forget`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetRequest {
    /// Snapshots, each as in `TagRequest`.
    pub commits: Vec<String>,
    /// Also those that have tags; the tags go with them.
    #[serde(default)]
    pub force: bool,
}

/// Snapshots were forgotten.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ForgetOutcome {
    /// Those that are in no history any more. Their room is freed by the next gc.
    pub forgotten: Vec<String>,
    /// Those that had to stay.
    pub kept: Vec<KeptCommit>,
}

/// A snapshot that was to be forgotten and was not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct KeptCommit {
    /// Its id.
    pub commit: String,
    /// Why it had to stay, for people.
    pub reason: String,
}

/// What nothing leads to is gone from the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct GcOutcome {
    /// How much room became free.
    pub freed_bytes: u64,
    /// How many snapshots went.
    pub commits: u64,
    /// How many objects went, those of the snapshots included.
    pub objects: u64,
}

/// How something differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Only the second has it.
    Added,
    /// Only the first has it.
    Removed,
    /// Both have it, with other content.
    Changed,
}

/// A process that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ProcessDiff {
    /// Its number inside the session.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// How the two snapshots differ in it.
    pub change: Change,
}

/// A mapping of memory that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct MappingDiff {
    /// Of which process.
    pub pid: u32,
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// A path, `[heap]`, `[stack]`, `[anon]` …
    pub name: Text,
    /// How the two snapshots differ in it.
    pub change: Change,
    /// How many bytes, in whole pages, differ.
    pub changed_bytes: u64,
}

/// A file that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct FileDiff {
    /// Its path inside the session.
    pub path: Text,
    /// How the two snapshots differ in it.
    pub change: Change,
    /// Its size in the first.
    #[serde(default)]
    pub before_bytes: Option<u64>,
    /// Its size in the second.
    #[serde(default)]
    pub after_bytes: Option<u64>,
}

/// A variable that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VariableDiff {
    /// Its name.
    pub name: String,
    /// How the two snapshots differ in it.
    pub change: Change,
    /// What it was.
    #[serde(default)]
    pub before: Option<Variable>,
    /// What it is.
    #[serde(default)]
    pub after: Option<Variable>,
}

/// All of it together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DiffTotals {
    /// Bytes of memory, in whole pages, that differ.
    pub memory_bytes: u64,
    /// Files that differ.
    pub files: u64,
    /// Processes that differ.
    pub processes: u64,
}

/// The answer of `GET /v1/diff`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    /// The first snapshot.
    pub a: String,
    /// The second.
    pub b: String,
    /// Processes.
    pub processes: Vec<ProcessDiff>,
    /// Memory by mapping, the largest difference first.
    pub memory: Vec<MappingDiff>,
    /// Files.
    pub files: Vec<FileDiff>,
    /// Variables by name, if both snapshots know them.
    #[serde(default)]
    pub variables: Option<Vec<VariableDiff>>,
    /// All of it together.
    pub totals: DiffTotals,
}
