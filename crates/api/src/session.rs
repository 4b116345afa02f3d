//! Sessions: how one is asked for, and how one looks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Activity, KeptFiles, SessionPolicy, Text};

/// What a session runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Start {
    /// A command.
    Command {
        /// The program and its arguments; the program is looked for in the `PATH` of the request's environment.
        argv: Vec<Text>,
    },
    /// A Jupyter kernel.
    Kernel {
        /// The name of a kernelspec, as `jupyter kernelspec list` shows it; `python3` if not given.
        #[serde(default)]
        spec: Option<String>,
        /// The kernel's command. If it is given, no kernelspec is looked for, `spec` is no more than a name, and
        /// `{connection_file}` in it is replaced by the path of the connection file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        argv: Option<Vec<Text>>,
        /// How it wants to be interrupted, if `argv` is given; by a signal if not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupt_mode: Option<InterruptMode>,
        /// The language of its cells, if `argv` is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language: Option<String>,
        /// A connection file of the user's on loopback: the session takes over its ports and its key. A restart keeps those that it has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connection_file: Option<Text>,
    },
}

impl Start {
    /// A kernel by the name of its kernelspec.
    pub const fn kernel(spec: Option<String>) -> Self {
        Self::Kernel { spec, argv: None, interrupt_mode: None, language: None, connection_file: None }
    }

    /// The connection file that somebody has written already.
    pub fn connection_file(&self) -> Option<&Text> {
        match self {
            Self::Kernel { connection_file, .. } => connection_file.as_ref(),
            Self::Command { .. } => None,
        }
    }
}

/// How a kernel is interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InterruptMode {
    /// By SIGINT.
    #[default]
    Signal,
    /// By a message on its control channel.
    Message,
}

/// One variable of the environment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct EnvVar {
    /// Before the `=`.
    pub name: Text,
    /// After it.
    pub value: Text,
}

/// Which network a session sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Its own; the daemon forwards the ports of a kernel from loopback.
    #[default]
    Private,
    /// The machine's. Such a session cannot be branched while the original is listening.
    Host,
}

/// Which files a snapshot takes along and a rollback puts back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FilePolicy {
    /// The notebook, and every file that a process of the session has open for writing.
    #[default]
    Open,
    /// The workspace too.
    Tree {
        /// Patterns of paths to take; all if empty.
        #[serde(default)]
        include: Vec<String>,
        /// Patterns of paths to leave out.
        #[serde(default)]
        exclude: Vec<String>,
        /// The most that may be taken; `null` for the daemon's own limit.
        #[serde(default)]
        max_bytes: Option<u64>,
        /// Directories that are mounted in a container and belong to its snapshots with all that is in them, as it sees them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        volumes: Vec<Text>,
    },
    /// The workspace too, as far as people work on it: without hidden directories and what programs fill again by themselves
    /// (`node_modules`, `venv`, `__pycache__` …), at most 100,000 files, 256 MiB each and 4 GiB together. Of
    /// a home only the files that lie directly in it.
    Workspace,
    /// None.
    None,
}

impl FilePolicy {
    /// All of the workspace, up to so many bytes.
    pub fn tree(max_bytes: Option<u64>) -> Self {
        Self::Tree { include: Vec::new(), exclude: Vec::new(), max_bytes, volumes: Vec::new() }
    }
}

/// Which of the machine's GPUs a session may use.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GpuWish {
    /// All that there are; none is fine too.
    #[default]
    All,
    /// None.
    None,
    /// These.
    List {
        /// Each by its index, its UUID or an unambiguous beginning of its UUID.
        gpus: Vec<String>,
    },
}

impl GpuWish {
    /// What it is when nothing is said. Then nothing is written either, and a daemon that knows of no GPUs understands.
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// `POST /v1/sessions`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    /// A name of the caller's choice, unique among their sessions; one is made up if not given.
    #[serde(default)]
    pub name: Option<String>,
    /// What to run.
    pub start: Start,
    /// The working directory, absolute.
    pub cwd: Text,
    /// The whole environment; nothing is added but what the session needs itself.
    #[serde(default)]
    pub env: Vec<EnvVar>,
    /// Which network it sees.
    #[serde(default)]
    pub network: Network,
    /// Whether a private network has a way out.
    #[serde(default)]
    pub outside: bool,
    /// The directory that a branch gets a copy of; the working directory if not given.
    #[serde(default)]
    pub workspace: Option<Text>,
    /// Which files belong to a snapshot.
    #[serde(default)]
    pub files: FilePolicy,
    /// The most memory that all its processes may take together, in bytes.
    #[serde(default)]
    pub memory_limit: Option<u64>,
    /// The most processes and threads that it may have.
    #[serde(default)]
    pub pids_limit: Option<u64>,
    /// Further commands that live, are captured and come back with the first.
    #[serde(default)]
    pub sidecars: Vec<Vec<Text>>,
    /// Which GPUs it may use; all if not given.
    #[serde(default, skip_serializing_if = "GpuWish::is_all")]
    pub gpus: GpuWish,
    /// What others note about it: at most 32, a key is 1 to 64 of `a-z`, `0-9`, `.`, `_` and `-`, a value at most 4096 bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The document that goes with each snapshot, as an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notebook: Option<Text>,
    /// What happens to it by itself; nothing if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<SessionPolicy>,
}

impl StartRequest {
    /// A command in a directory, with what is so when nothing is said.
    pub fn command<T: Into<Text>>(argv: impl IntoIterator<Item = T>, cwd: impl Into<Text>) -> Self {
        Self::of(Start::Command { argv: argv.into_iter().map(Into::into).collect() }, cwd)
    }

    /// Anything in a directory, likewise.
    pub fn of(start: Start, cwd: impl Into<Text>) -> Self {
        Self {
            name: None,
            start,
            cwd: cwd.into(),
            env: Vec::new(),
            network: Network::default(),
            outside: false,
            workspace: None,
            files: FilePolicy::default(),
            memory_limit: None,
            pids_limit: None,
            sidecars: Vec::new(),
            gpus: GpuWish::default(),
            labels: BTreeMap::new(),
            notebook: None,
            policy: None,
        }
    }
}

/// What a session is doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Its processes are being made.
    Starting,
    /// They run.
    Running,
    /// They were ended after a snapshot, and can be brought back.
    Suspended,
    /// The main command has ended by itself or was stopped.
    Ended,
    /// They ended without anyone wanting it; `resume` or a rollback may bring them back.
    Failed,
}

impl SessionState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Starting, Self::Running, Self::Suspended, Self::Ended, Self::Failed];

    /// As on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }
}

/// What a client needs to talk to a kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct KernelView {
    /// A connection file that works outside the session.
    pub connection_file: Text,
    /// The kernelspec's name.
    #[serde(default)]
    pub kernel_name: Option<String>,
    /// The language of its cells, if that is known.
    #[serde(default)]
    pub language: Option<String>,
    /// How it is interrupted.
    #[serde(default)]
    pub interrupt_mode: InterruptMode,
}

/// Where a branch comes from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Origin {
    /// The session it was branched off.
    pub session: String,
    /// The snapshot it began with.
    pub commit: String,
}

/// A session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// Never given to another.
    pub id: String,
    /// The name that people use.
    pub name: String,
    /// What it is doing.
    pub state: SessionState,
    /// What it runs.
    pub command: Vec<Text>,
    /// In which directory.
    pub cwd: Text,
    /// Its workspace, as it can be opened from outside.
    #[serde(default)]
    pub workspace: Option<Text>,
    /// Its first process, as seen from outside; `null` if it has none now.
    #[serde(default)]
    pub pid: Option<i32>,
    /// Which network it sees.
    pub network: Network,
    /// How to reach it, if it is a kernel.
    #[serde(default)]
    pub kernel: Option<KernelView>,
    /// The thread its snapshots go to.
    pub thread: String,
    /// Its newest snapshot.
    #[serde(default)]
    pub head: Option<String>,
    /// Where it was branched off.
    #[serde(default)]
    pub parent: Option<Origin>,
    /// When it was started.
    pub created: String,
    /// How its main command ended: the exit code, or 128 and the signal.
    #[serde(default)]
    pub exit: Option<i32>,
    /// Which files belong to its snapshots.
    pub files: FilePolicy,
    /// How much memory its processes take now.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// How much memory its newest snapshot takes that stands by, restored, so that going back to it is a switch; `null` if none does.
    #[serde(default)]
    pub standby_bytes: Option<u64>,
    /// Whether it was running before it became a session; it has no namespaces of its own then.
    #[serde(default)]
    pub attached: bool,
    /// UUIDs of the GPUs that it may use.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// How much GPU memory its processes take now; `null` if that cannot be told.
    #[serde(default)]
    pub vram_bytes: Option<u64>,
    /// Why its work on the GPU stands still, if it does.
    #[serde(default)]
    pub gpu_trouble: Option<String>,
    /// What others noted about it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The document that goes with each snapshot.
    #[serde(default)]
    pub notebook: Option<Text>,
    /// What happens to it by itself.
    #[serde(default)]
    pub policy: SessionPolicy,
    /// The kind of the operation that is under way.
    #[serde(default)]
    pub operation: Option<String>,
    /// Whether its kernel is at work; `null` for what is no kernel.
    #[serde(default)]
    pub activity: Option<Activity>,
    /// What its next snapshot will be labelled.
    #[serde(default)]
    pub mark: Option<String>,
    /// In the answer to a removal: its files that were in no snapshot, and are in one now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_files: Option<KeptFiles>,
}

/// The answer of `GET /v1/sessions`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Sessions {
    /// Oldest first.
    pub sessions: Vec<SessionView>,
}
