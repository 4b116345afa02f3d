//! Putting a session to sleep, and bringing it back.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CellNote, FilePolicy, GpuWish, SnapshotRequest, TimedStep};

/// `POST /v1/sessions/{id}/suspend`. The fields are those of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SuspendRequest {
    /// What it is, for the history.
    pub message: Option<String>,
    /// Why: `idle` if nobody asked for it, so that the snapshot is an automatic one; `suspend` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to call this moment; the session's `mark` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The document as it is in the editor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notebook: Option<String>,
    /// The cell that ran last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<CellNote>,
    /// Whether variables are asked for, if the kernel can say; yes if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<bool>,
    /// Whether a container that somebody holds still is let go for it. If it is not put to sleep then, it is held again as it was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thaw: bool,
    /// Which files belong to this snapshot; the session's own policy if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FilePolicy>,
}

impl From<SuspendRequest> for SnapshotRequest {
    /// The snapshot that is taken for it.
    fn from(request: SuspendRequest) -> Self {
        let SuspendRequest { message, reason, label, notebook, cell, variables, thaw, files } = request;
        Self { message, reason, label, notebook, cell, variables, thaw, files, ..Self::default() }
    }
}

/// A session was put to sleep.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SuspendOutcome {
    /// The snapshot that it will come back from.
    pub commit: String,
    /// How much memory it gave back.
    pub freed_bytes: u64,
    /// How much GPU memory it gave back.
    #[serde(default)]
    pub freed_vram_bytes: u64,
    /// Where the time went.
    #[serde(default)]
    pub steps: Vec<TimedStep>,
}

/// `POST /v1/sessions/{id}/resume`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResumeRequest {
    /// Go on although files were changed by somebody else, or the machine is not like the one of the snapshot.
    pub force: bool,
    /// Onto which GPUs; as the session was started if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuWish>,
}
