//! Tools about sessions: which there are, a new one, sleep and waking.

use std::path::PathBuf;

use anyhow::Context as _;
use api::{
    FilePolicy, JobResult, ResumeRequest, SessionState, Sessions, Start, StartRequest, SuspendRequest,
};
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::online::client::Call;
use super::super::online::{show, start};
use super::daemon;
use super::refusal::Refusal;
use super::server::Server;
use super::words::{SessionLine, first};
use crate::context::current_directory;

/// The most sessions that are listed.
const SESSIONS: usize = 100;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ListAsked {
    /// Only those that run.
    running: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listed {
    /// Oldest first, at most 100.
    sessions: Vec<SessionLine>,
    /// How many more there are.
    left_out: usize,
}

/// Which files belong to snapshots.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Files {
    /// Those that the session has open for writing.
    Open,
    /// All in its directory too.
    Tree,
    /// None.
    None,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StartAsked {
    /// A name for the session; one is made up if not given.
    name: Option<String>,
    /// The kernelspec; `python3`, or the only one there is, if not given.
    kernel: Option<String>,
    /// The working directory, which a branch gets a copy of; that of this server if not given.
    directory: Option<PathBuf>,
    /// Which files belong to its snapshots and go back with a restore; `open` if not given.
    files: Option<Files>,
    /// Whether its code may reach the network; no if not given.
    network: bool,
    /// The most memory that it may take, in bytes.
    memory_limit: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SuspendAsked {
    /// The session: its name or id.
    session: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeAsked {
    /// The session: its name or id.
    session: String,
    /// Go on although the machine is not like the one of the snapshot. Ask the user before.
    #[serde(default)]
    force: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Suspended {
    /// The session.
    session: String,
    /// The snapshot that it will come back from.
    snapshot: Option<String>,
    /// How much memory is free again, in bytes; 0 if it slept already.
    freed_bytes: u64,
    /// How much GPU memory is free again, in bytes.
    freed_gpu_bytes: u64,
}

#[tool_router(router = session_tools, vis = "pub(super)")]
impl Server {
    /// Lists the user's sessions: kernels and other programs that can be captured. Cost: none.
    #[tool(annotations(
        title = "List sessions",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn list_sessions(&self, Parameters(asked): Parameters<ListAsked>) -> Result<Json<Listed>, Refusal> {
        let Sessions { mut sessions } = self.daemon.get("/v1/sessions").await?;
        sessions.retain(|session| !asked.running || session.state == SessionState::Running);
        let (sessions, left_out) = first(&sessions, SESSIONS, |session| SessionLine::from(session));
        Ok(Json(Listed { sessions, left_out }))
    }

    /// Starts a Jupyter kernel in a new session. Code in it has the user's rights and files, processes of its own, and a network only if
    /// asked for. Cost: some seconds, and the kernel's memory (about 60 MB for Python) until it is suspended or removed.
    /// Undo: `remove`.
    #[tool(annotations(
        title = "Start a kernel",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    async fn start_kernel(
        &self,
        Parameters(asked): Parameters<StartAsked>,
    ) -> Result<Json<SessionLine>, Refusal> {
        let cwd = match asked.directory {
            Some(directory) => std::path::absolute(&directory)
                .with_context(|| format!("cannot tell where `{}` is", directory.display()))?,
            None => current_directory()?,
        };
        let request = StartRequest {
            name: asked.name,
            env: start::environment(),
            outside: asked.network,
            files: match asked.files {
                Some(Files::Tree) => FilePolicy::tree(None),
                Some(Files::None) => FilePolicy::None,
                Some(Files::Open) => FilePolicy::Open,
                None => FilePolicy::default(),
            },
            memory_limit: asked.memory_limit,
            ..StartRequest::of(Start::kernel(asked.kernel), cwd)
        };
        let session = self.daemon.job(Call::post("/v1/sessions", &request)?, daemon::session).await?;
        Ok(Json(SessionLine::from(&session)))
    }

    /// Puts a session to sleep: a snapshot is taken, then its processes end and their memory, that of the GPU too, is free for others. A
    /// cell that runs goes on after the resume. Cost: the session stops; the disk takes what changed since its last snapshot.
    /// Undo: `resume`, or just `run_cell`.
    #[tool(annotations(
        title = "Suspend a session",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn suspend(&self, Parameters(asked): Parameters<SuspendAsked>) -> Result<Json<Suspended>, Refusal> {
        let session = self.daemon.session(&asked.session).await?;
        if session.state == SessionState::Suspended {
            let snapshot = session.head.as_deref().map(show::short);
            let (freed_bytes, freed_gpu_bytes) = (0, 0);
            return Ok(Json(Suspended { session: session.name, snapshot, freed_bytes, freed_gpu_bytes }));
        }
        let request = SuspendRequest::default();
        let outcome = self
            .daemon
            .to_session(&session.id, "suspend", &request, |result| match result {
                JobResult::Suspend(outcome) => Some(outcome),
                _ => None,
            })
            .await?;
        Ok(Json(Suspended {
            session: session.name,
            snapshot: Some(show::short(&outcome.commit)),
            freed_bytes: outcome.freed_bytes,
            freed_gpu_bytes: outcome.freed_vram_bytes,
        }))
    }

    /// Brings a suspended or failed session back as it was, with its variables and files. Cost: its memory again; a second or so.
    /// Undo: `suspend`.
    #[tool(annotations(
        title = "Resume a session",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn resume(&self, Parameters(asked): Parameters<ResumeAsked>) -> Result<Json<SessionLine>, Refusal> {
        let session = self.daemon.session(&asked.session).await?;
        if session.state == SessionState::Running {
            return Ok(Json(SessionLine::from(&session)));
        }
        let session = self.wake(&session.id, asked.force).await?;
        Ok(Json(SessionLine::from(&session)))
    }
}

impl Server {
    pub(super) async fn wake(&self, session: &str, force: bool) -> anyhow::Result<api::SessionView> {
        let request = ResumeRequest { force, gpus: None };
        self.daemon.to_session(session, "resume", &request, daemon::session).await
    }
}
