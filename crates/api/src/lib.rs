//! The wire between the daemon and its clients.
//!
//! Everything that crosses the Unix socket is one of these types, as JSON: requests and answers over HTTP, progress and
//! events as server-sent events, errors as [`ErrorBody`]. Daemon and clients use the same definitions, and
//! `docs/openapi.json` is made from them, so what is written down is what is spoken.
//!
//! The rules of `docs/scripting.md` hold here too: fields are added, never renamed, removed or given another type; a
//! reader skips fields it does not know; a field without a value is `null`; sizes are bytes, times are RFC 3339 in UTC,
//! durations are microseconds and say so in their name.
#![forbid(unsafe_code)]

mod activity;
mod encryption;
mod error;
mod event;
mod files;
mod history;
mod job;
mod operation;
mod patch;
pub mod places;
mod remote;
mod servers;
mod session;
pub mod settings;
mod size;
mod sleep;
mod system;
mod text;

pub use activity::{Activity, ActivityState};
pub use encryption::EncryptionLine;
pub use error::{ErrorBody, exit};
pub use event::{Event, EventKind};
pub use files::{
    CopiedFile, CopyOutOutcome, CopyOutRequest, FileNote, FileText, KeptFiles, SessionFiles, SnapshotFiles,
};
pub use history::{
    CellNote, Change, CommitView, Commits, Diff, DiffTotals, FileDiff, ForgetOutcome, ForgetRequest,
    GcOutcome, KeptCommit, MappingDiff, ProcessDiff, TagRequest, ThreadView, Variable, VariableDiff,
    Variables,
};
pub use job::{Job, JobKind, JobResult, JobState, Jobs, Step};
pub use operation::{
    AttachRequest, BranchOutcome, BranchRequest, CheckRequest, CheckpointOutcome, CheckpointRequest,
    ContainerName, ExecOutcome, ExecRequest, GaveUp, MappedDirectory, Nothing, RestartRequest,
    RestoreRequest, RestoredOutcome, RollbackOutcome, RollbackRequest, Signal, SignalName, SignalRequest,
    Skipped, SnapshotOutcome, SnapshotRequest, SnapshotSkipped, StopRequest, TimedStep, Uncaptured,
};
pub use patch::{Keep, SessionPatch, SessionPolicy};
pub use places::{PlaceError, Places, SOCKET_VARIABLE};
pub use remote::{FreeLocalOutcome, PushOutcome, RemoteView};
pub use servers::{Server, Servers};
pub use session::{
    EnvVar, FilePolicy, GpuWish, InterruptMode, KernelView, Network, Origin, SessionState, SessionView,
    Sessions, Start, StartRequest,
};
pub use settings::SettingsError;
pub use size::parse_size;
pub use sleep::{ResumeRequest, SuspendOutcome, SuspendRequest};
pub use system::{DaemonView, Doctor, Finding, FindingState, SnapshotCheck, StoreView, Version};
pub use text::Text;

/// The version of this wire; the first part of every path (`/v1/…`).
pub const API_VERSION: u32 = 1;
