//! Tools about branches: make some, keep the best of them, remove a session.

use api::{
    BranchOutcome, BranchRequest, JobResult, SessionState, SessionView, Sessions, StopRequest, SuspendRequest,
};
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::online::client::{Call, session_path};
use super::super::online::show;
use super::daemon;
use super::refusal::Refusal;
use super::server::Server;
use super::words::SessionLine;
use crate::error::CliError;
use crate::format;

/// The most branches at once.
const BRANCHES: u32 = 8;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BranchAsked {
    /// The session: its name or id.
    session: String,
    /// How many, at most 8; one if not given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 8))]
    count: Option<u32>,
    /// What to call them: NAME, or NAME-1, NAME-2 … if there are several.
    #[serde(default)]
    name: Option<String>,
    /// The snapshot to begin with; one is taken now if not given.
    #[serde(default)]
    from: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Branched {
    /// The snapshot that they began with.
    snapshot: Option<String>,
    /// The new sessions.
    branches: Vec<SessionLine>,
    /// What else should be known.
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KeepAsked {
    /// The branch that stays: its name or id.
    session: String,
    /// Whether the others are captured before they go; yes if not given.
    #[serde(default = "yes")]
    snapshot: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Kept {
    /// The branch that stayed.
    kept: SessionLine,
    /// Those that are gone.
    removed: Vec<Removed>,
    /// Those that could not be removed, and why.
    refused: Vec<NotRemoved>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct NotRemoved {
    /// The session, which is still there.
    session: String,
    /// Why.
    why: Refusal,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveAsked {
    /// The session: its name or id.
    session: String,
    /// Whether it is captured before it goes, so that a branch can begin there; yes if not given.
    #[serde(default = "yes")]
    snapshot: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Removed {
    /// What it was called.
    session: String,
    /// Its newest snapshot, which stays.
    snapshot: Option<String>,
    /// If it had files that no snapshot had: the snapshot that they are in now. `infinijup files --at SNAPSHOT --to DIR` copies them.
    files: Option<String>,
}

#[tool_router(router = branch_tools, vis = "pub(super)")]
impl Server {
    /// Makes up to 8 copies of a session that go on from the same moment and live side by side, each with its own memory, processes and
    /// copy of the files in its directory. The session itself runs on, untouched. Cost: one snapshot (a pause of about 0.1 s); then, for
    /// each branch, about a second, memory for what it writes, and disk for its copy of the files. Undo: `remove`, or `keep_best`.
    #[tool(annotations(
        title = "Branch a session",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    async fn branch(&self, Parameters(asked): Parameters<BranchAsked>) -> Result<Json<Branched>, Refusal> {
        let count = branches(asked.count)?;
        let request = BranchRequest {
            from: asked.from,
            name: asked.name,
            count: Some(count),
            ..BranchRequest::default()
        };
        let branches = self
            .daemon
            .to_session(&asked.session, "branch", &request, |result| match result {
                JobResult::Branch { branches } => Some(branches),
                _ => None,
            })
            .await?;
        Ok(Json(Branched {
            snapshot: branches.first().map(|branch| show::short(&branch.commit)),
            warnings: branches.iter().flat_map(warnings).collect(),
            branches: branches.iter().map(|branch| SessionLine::from(&branch.session)).collect(),
        }))
    }

    /// Keeps one branch and removes those that began at the same snapshot of the same session. The session that they were branched off
    /// stays, too. Cost: gives back the memory and disk of the others; a snapshot of each first, unless `snapshot` is false.
    /// Undo: `branch` with `from` set to the snapshot of one that was removed; without a snapshot what it did is lost.
    #[tool(annotations(
        title = "Keep the best branch",
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn keep_best(&self, Parameters(asked): Parameters<KeepAsked>) -> Result<Json<Kept>, Refusal> {
        let best = self.daemon.session(&asked.session).await?;
        if best.parent.is_none() {
            let what = format!("{} is no branch: there is nothing to choose from", format::safe(&best.name));
            return Err(CliError::Usage { what }.into());
        }
        let Sessions { sessions } = self.daemon.get("/v1/sessions").await?;
        let (mut removed, mut refused) = (Vec::new(), Vec::new());
        for other in sessions.iter().filter(|other| is_sibling(&best, other)) {
            match self.take_away(other, asked.snapshot).await {
                Ok(gone) => removed.push(gone),
                Err(error) => {
                    refused.push(NotRemoved { session: format::safe(&other.name), why: error.into() })
                }
            }
        }
        Ok(Json(Kept { kept: SessionLine::from(&best), removed, refused }))
    }

    /// Removes a session: its processes end, and the directory goes that it got as a branch; that of a session which is no branch stays as
    /// it is. Its snapshots stay, and files of a branch that are in none of them are kept in one. If something refuses it, the session is
    /// still there, suspended or stopped. Cost: gives back its memory; a snapshot first, unless `snapshot` is false. Undo: `branch` with `from` set to its last snapshot;
    /// without a snapshot what it did since is lost.
    #[tool(annotations(
        title = "Remove a session",
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    async fn remove(&self, Parameters(asked): Parameters<RemoveAsked>) -> Result<Json<Removed>, Refusal> {
        let session = self.daemon.session(&asked.session).await?;
        Ok(Json(self.take_away(&session, asked.snapshot).await?))
    }
}

impl Server {
    /// Ends a session, after a last snapshot if that is wanted, and forgets it.
    async fn take_away(&self, session: &SessionView, snapshot: bool) -> anyhow::Result<Removed> {
        let mut newest = session.head.clone();
        if matches!(session.state, SessionState::Running | SessionState::Starting) {
            if snapshot {
                let request = SuspendRequest::default();
                let outcome =
                    self.daemon.to_session(&session.id, "suspend", &request, |result| match result {
                        JobResult::Suspend(outcome) => Some(outcome),
                        _ => None,
                    });
                newest = Some(outcome.await?.commit);
            } else {
                let request = StopRequest::default();
                self.daemon.to_session(&session.id, "stop", &request, daemon::session).await?;
            }
        }
        let gone = self.daemon.job(Call::delete(session_path(&session.id)), daemon::session).await?;
        Ok(Removed {
            session: format::safe(&session.name),
            snapshot: newest.as_deref().map(show::short),
            files: gone.kept_files.map(|kept| show::short(&kept.commit)),
        })
    }
}

/// How many branches are wanted.
fn branches(count: Option<u32>) -> Result<u32, CliError> {
    match count.unwrap_or(1) {
        count @ 1..=BRANCHES => Ok(count),
        count => {
            Err(CliError::Usage { what: format!("{count} branches: there can be 1 to {BRANCHES} at once") })
        }
    }
}

fn warnings(branch: &BranchOutcome) -> Vec<String> {
    let name = format::safe(&branch.session.name);
    let shared = branch.shared.iter();
    let shared = shared.map(|path| format!("{name} shares `{}` with the original", show::text(path)));
    shared.chain(branch.warnings.iter().map(|warning| format!("{name}: {}", format::safe(warning)))).collect()
}

/// Whether both were branched off at the same moment.
fn is_sibling(best: &SessionView, other: &SessionView) -> bool {
    other.id != best.id && other.parent.is_some() && other.parent == best.parent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_one_to_eight_branches() {
        assert_eq!([None, Some(1), Some(8)].map(|count| branches(count).unwrap()), [1, 1, 8]);
        for count in [0, 9, u32::MAX] {
            assert!(branches(Some(count)).unwrap_err().to_string().contains("1 to 8"));
        }
    }
}
