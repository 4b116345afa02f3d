//! What can be done with a session: the requests and their outcomes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CellNote, EnvVar, FilePolicy, GpuWish, SessionView, Start, Text};

/// One step of a pipeline and how long it took.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct TimedStep {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub micros: u64,
}

/// Something that a snapshot does not hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Uncaptured {
    /// Its path inside the session.
    pub path: Text,
    /// Why it could not be captured, for people.
    pub reason: String,
}

/// `POST /v1/sessions/{id}/snapshot`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotRequest {
    /// What it is, for the history.
    pub message: Option<String>,
    /// A name that leads to it.
    pub tag: Option<String>,
    /// Another policy than the session's own, for this one only.
    pub files: Option<FilePolicy>,
    /// A command that runs in the session before it is frozen; the snapshot is given up if it fails.
    pub quiesce: Option<Vec<Text>>,
    /// Why: `before-cell`, `after-cell`, `interval`, `idle`, `before-restart`, `before-shutdown`; `manual` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to call this moment; the session's `mark` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The document as it is in the editor, at most 64 MiB. If not given, the file that the session names as its notebook
    /// is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notebook: Option<String>,
    /// The cell that ran last, or is about to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<CellNote>,
    /// Whether variables are asked for, if the kernel can say; yes if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<bool>,
    /// For one that nobody asked for (its `reason` says so): only if the processes are expected to stand still no longer than so many milliseconds, if
    /// something ran since the last one, and if nothing else is under way. Otherwise the result is `skipped`, and that is no failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    /// Whether a container that somebody holds still is let go for it, and held again as it was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thaw: bool,
}

/// A snapshot was taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SnapshotOutcome {
    /// Its id.
    pub commit: String,
    /// How long the processes stood still.
    pub frozen_us: u64,
    /// How long all of it took.
    pub total_us: u64,
    /// How much the store grew by.
    pub new_bytes: u64,
    /// How much memory it holds, that of GPUs included.
    pub memory_bytes: u64,
    /// How much of that is GPU memory.
    #[serde(default)]
    pub vram_bytes: u64,
    /// How long work on the GPU stood still, the freeze included; 0 for sessions without any.
    #[serde(default)]
    pub gpu_paused_us: u64,
    /// How much memory was copied while the processes stood still; null if all of it was.
    #[serde(default)]
    pub frozen_bytes: Option<u64>,
    /// What it does not hold.
    pub not_captured: Vec<Uncaptured>,
    /// What else should be known.
    pub warnings: Vec<String>,
    /// Where the time went.
    pub steps: Vec<TimedStep>,
}

/// Why a snapshot that nobody asked for was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// The processes would have stood still for too long.
    TooLong,
    /// Nothing ran since the last one.
    NothingNew,
    /// Something else is under way.
    Busy,
    /// The session was needed before it stood still.
    GivenUp,
}

/// A snapshot was not taken, and nobody misses it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SnapshotSkipped {
    /// Why.
    pub why: Skipped,
    /// The newest snapshot that there is.
    #[serde(default)]
    pub head: Option<String>,
    /// How long the processes would have stood still, if that was found out.
    #[serde(default)]
    pub expected_us: Option<u64>,
}

/// The answer of `POST /v1/sessions/{id}/give-up`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct GaveUp {
    /// Whether an automatic snapshot was under way and will not be taken. If not, there is none, or its processes stand still by now.
    pub given_up: bool,
}

/// `POST /v1/sessions/{id}/rollback`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// A snapshot: an id or the beginning of one, a tag, a thread, with `~N` for the Nth before it.
    pub to: String,
    /// Go on although files were changed by somebody else.
    #[serde(default)]
    pub force: bool,
    /// Whether files are put back too.
    #[serde(default = "yes")]
    pub files: bool,
    /// Something that the kernel is told when it lives again; see `infinijup_reply` in docs/daemon.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The document as it is in the editor, for the automatic snapshot of what is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notebook: Option<String>,
}

impl RollbackRequest {
    /// To there, with its files, unless somebody else changed some.
    pub fn to(to: impl Into<String>) -> Self {
        Self { to: to.into(), force: false, files: true, note: None, notebook: None }
    }
}

fn yes() -> bool {
    true
}

/// A session was rolled back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct RollbackOutcome {
    /// The snapshot it is at now.
    pub commit: String,
    /// The snapshot of how it was before; `null` if it had no processes.
    #[serde(default)]
    pub automatic: Option<String>,
    /// Files that somebody else had changed and that the processes need as they were; they were overwritten, and are in `automatic`.
    pub changed_by_others: Vec<Text>,
    /// Files that somebody else had changed and that nobody needs as they were: they were left as they are.
    #[serde(default)]
    pub spared: Vec<Text>,
    /// Connections that could not be kept.
    pub closed_connections: Vec<String>,
    /// What else should be known.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Where the time went.
    pub steps: Vec<TimedStep>,
}

/// `POST /v1/sessions/{id}/branch`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BranchRequest {
    /// The snapshot to begin with; a new one is taken if not given.
    pub from: Option<String>,
    /// The branch's name; `NAME-1`, `NAME-2` … if there are several. If not given, that of the original with `-branch`.
    pub name: Option<String>,
    /// How many; one if not given.
    pub count: Option<u32>,
    /// Onto which GPUs; if not given, those of the original or free ones like them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuWish>,
    /// The document as it is in the editor, if a new snapshot is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notebook: Option<String>,
    /// Also from a snapshot that was made elsewhere: a foreign program, which runs with all rights of its user.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Directories that lie at another place here than where its processes look for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub map: Vec<MappedDirectory>,
    /// The container whose runtime makes the branch, from the specification that this one has: for a snapshot of another container, or of one on
    /// another machine. For root only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerName>,
}

/// `POST /v1/commits/{id}/check`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CheckRequest {
    /// Directories that lie at another place here, as for a branch.
    pub map: Vec<MappedDirectory>,
}

/// A directory that processes find where it was, though it lies elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MappedDirectory {
    /// Where its processes look for it.
    pub from: Text,
    /// Where it lies here.
    pub to: Text,
}

/// A branch was made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct BranchOutcome {
    /// The new session.
    pub session: SessionView,
    /// The snapshot that it began with.
    pub commit: String,
    /// Files that it has open for writing together with the original.
    pub shared: Vec<Text>,
    /// What else should be known.
    pub warnings: Vec<String>,
    /// Where the time went.
    #[serde(default)]
    pub steps: Vec<TimedStep>,
}

/// `POST /v1/sessions/{id}/stop`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StopRequest {
    /// How long the processes have to end by themselves before they are killed; ten seconds if not given.
    pub grace_ms: Option<u64>,
}

impl StopRequest {
    /// How long the processes have.
    pub fn grace(&self) -> Duration {
        grace(self.grace_ms)
    }
}

fn grace(milliseconds: Option<u64>) -> Duration {
    milliseconds.map_or(Duration::from_secs(10), Duration::from_millis)
}

/// `POST /v1/sessions/{id}/restart`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestartRequest {
    /// What to run. A session that is a kernel stays one, and one that is not stays that.
    pub start: Start,
    /// The whole environment, as for a new session.
    #[serde(default)]
    pub env: Vec<EnvVar>,
    /// The working directory, absolute; the one it had if not given.
    #[serde(default)]
    pub cwd: Option<Text>,
    /// How long the old processes have to end by themselves before they are killed; ten seconds if not given.
    #[serde(default)]
    pub grace_ms: Option<u64>,
    /// Take an automatic snapshot of the old processes first.
    #[serde(default)]
    pub snapshot: bool,
}

impl RestartRequest {
    /// How long the old processes have.
    pub fn grace(&self) -> Duration {
        grace(self.grace_ms)
    }
}

/// Signals that have a name here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum SignalName {
    /// Interrupt.
    Int,
    /// End.
    Term,
    /// End at once.
    Kill,
    /// Hang up.
    Hup,
    /// The first that means what a program makes of it.
    Usr1,
    /// The second.
    Usr2,
}

/// A signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Signal {
    /// By name.
    Name(SignalName),
    /// By number.
    Number(i32),
}

impl Signal {
    /// Its number on Linux.
    pub const fn number(self) -> i32 {
        match self {
            Self::Name(SignalName::Hup) => 1,
            Self::Name(SignalName::Int) => 2,
            Self::Name(SignalName::Kill) => 9,
            Self::Name(SignalName::Usr1) => 10,
            Self::Name(SignalName::Usr2) => 12,
            Self::Name(SignalName::Term) => 15,
            Self::Number(number) => number,
        }
    }
}

/// `POST /v1/sessions/{id}/signal`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// The signal to send.
    pub signal: Signal,
    /// To the process group of the main command, not to its process alone.
    #[serde(default = "yes")]
    pub group: bool,
}

/// The answer when there is nothing to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Nothing {}

/// `POST /v1/sessions/{id}/exec`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// The program and its arguments.
    pub argv: Vec<Text>,
    /// Its environment.
    #[serde(default)]
    pub env: Vec<EnvVar>,
}

/// A command has run in a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExecOutcome {
    /// Its exit code, or 128 and the signal that ended it.
    pub status: i32,
    /// What it wrote to its standard output.
    pub stdout: Text,
    /// What it wrote to its standard error.
    pub stderr: Text,
}

/// `POST /v1/attach`. One of `pid` and `container`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachRequest {
    /// The root of a process tree of the caller's, as the caller sees it.
    #[serde(default)]
    pub pid: Option<i32>,
    /// A container. One that is a session already is that one, also while it sleeps. For root only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerName>,
    /// A name for the session.
    #[serde(default)]
    pub name: Option<String>,
}

/// Which container.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContainerName {
    /// Its id, its name, its pod or the number of a process in it.
    pub which: String,
    /// Only of this runtime: `runc`, `crun`, `containerd` or `podman`.
    #[serde(default)]
    pub runtime: Option<String>,
    /// The socket of containerd.
    #[serde(default)]
    pub address: Option<Text>,
    /// The namespace of containerd.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The state directory of runc or crun.
    #[serde(default)]
    pub runtime_root: Option<Text>,
}

/// `POST /v1/checkpoint`. For root only: plain images are whatever somebody makes of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRequest {
    /// The root of a process tree of the caller's.
    pub pid: i32,
    /// A directory for the images, absolute; it is made, and must not exist yet.
    pub directory: Text,
    /// Whether the processes go on.
    #[serde(default = "yes")]
    pub leave_running: bool,
}

/// A process tree was written to a directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct CheckpointOutcome {
    /// The directory with the images.
    pub directory: Text,
    /// How long the processes stood still.
    pub frozen_us: u64,
    /// How much was written.
    pub bytes: u64,
}

/// `POST /v1/restore`. For root only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// A directory that `checkpoint` wrote.
    pub directory: Text,
}

/// A process tree was brought back from a directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct RestoredOutcome {
    /// Its root.
    pub pid: i32,
}
