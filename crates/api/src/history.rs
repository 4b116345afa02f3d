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
    /// When.
    pub time: String,
    /// Why: `manual`, `automatic`, `suspend`, `branch` …
    pub reason: String,
    /// What the user said about it.
    pub message: String,
    /// How much it holds.
    pub bytes: u64,
}

/// The answer of `GET /v1/sessions/{id}/history` and `GET /v1/history`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Commits {
    /// Newest first; a commit never comes before one that was made from it.
    pub commits: Vec<CommitView>,
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
    /// How.
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
    /// How.
    pub change: Change,
    /// How many bytes, in whole pages, differ.
    pub changed_bytes: u64,
}

/// A file that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct FileDiff {
    /// Which.
    pub path: Text,
    /// How.
    pub change: Change,
    /// Its size in the first.
    #[serde(default)]
    pub before_bytes: Option<u64>,
    /// Its size in the second.
    #[serde(default)]
    pub after_bytes: Option<u64>,
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
    /// All of it together.
    pub totals: DiffTotals,
}
