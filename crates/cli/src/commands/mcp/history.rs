//! Tools about what was: take a snapshot, list them, compare two, go back to one.

use api::{Change, Commits, Diff, JobResult, RollbackRequest, SnapshotRequest, Variable};
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::online::client::{encoded, session_path};
use super::super::online::show;
use super::refusal::Refusal;
use super::server::Server;
use super::words::{SnapshotLine, brief, first, milliseconds};
use crate::format;

/// How many snapshots are listed, if nothing is said and at most.
const SNAPSHOTS: (u64, u64) = (20, 200);
/// The most variables, and the most files, that a comparison lists.
const DIFFERENCES: usize = 100;
/// The most warnings, and the most files that are not in a snapshot, that are told.
const WARNINGS: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotAsked {
    /// The session: its name or id.
    session: String,
    /// What this moment is, for the history.
    #[serde(default)]
    message: Option<String>,
    /// A name that leads to it and keeps it for good.
    #[serde(default)]
    tag: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Taken {
    /// What to call it.
    snapshot: String,
    /// How long the session stood still.
    paused_ms: u64,
    /// How long all of it took.
    took_ms: u64,
    /// What the store grew by, in bytes.
    new_bytes: u64,
    /// The memory that it holds, in bytes.
    memory_bytes: u64,
    /// What it does not hold, and what else should be known.
    warnings: Vec<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HistoryAsked {
    /// The session: its name or id. All sessions if not given.
    session: Option<String>,
    /// How many, newest first; 20 if not given.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Past {
    /// Newest first.
    snapshots: Vec<SnapshotLine>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareAsked {
    /// The first snapshot: its id or the beginning of it, a tag, or a session's name for its newest one; `NAME~1` is the one before.
    a: String,
    /// The second.
    b: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Compared {
    /// The first snapshot.
    a: String,
    /// The second.
    b: String,
    /// Variables that differ, at most 100; null where a snapshot did not record them.
    variables: Option<Vec<VariableLine>>,
    /// Files that differ, at most 100.
    files: Vec<FileLine>,
    /// How many variables and files were left out.
    left_out: usize,
    /// How many bytes of memory differ.
    memory_bytes: u64,
    /// How many processes differ.
    processes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct VariableLine {
    /// Its name.
    name: String,
    /// `added`, `removed` or `changed`.
    change: &'static str,
    /// What it was in the first.
    before: Option<String>,
    /// What it is in the second.
    after: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FileLine {
    /// Its path in the session.
    path: String,
    /// `added`, `removed` or `changed`.
    change: &'static str,
    /// Its size in the first.
    before_bytes: Option<u64>,
    /// Its size in the second.
    after_bytes: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreAsked {
    /// The session: its name or id.
    session: String,
    /// The snapshot: its id or the beginning of it, a tag, or the session's name for its newest one; `NAME~1` is the one before. It must
    /// be one of this session's history; begin a branch with others.
    to: String,
    /// Whether files are put back too; yes if not given.
    #[serde(default = "yes")]
    files: bool,
    /// Put back also files that somebody else changed meanwhile; else these stay as they are, unless the processes need them as they were.
    #[serde(default)]
    force: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Restored {
    /// The snapshot that the session is at now.
    snapshot: String,
    /// The snapshot of how it was before: restore that one to undo this.
    before: Option<String>,
    /// What else should be known.
    warnings: Vec<String>,
}

#[tool_router(router = history_tools, vis = "pub(super)")]
impl Server {
    /// Keeps a session as it is now: memory, processes, GPU memory and the files that belong to it. The session runs on, also in the
    /// middle of a cell. Cost: a pause of about 0.1 s, more right after the start and with much that changed; the disk takes what changed
    /// since the last snapshot, the first takes all of its memory, compressed. Undo: not needed, it changes nothing in the session.
    #[tool(annotations(
        title = "Take a snapshot",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    async fn snapshot(&self, Parameters(asked): Parameters<SnapshotAsked>) -> Result<Json<Taken>, Refusal> {
        let request = SnapshotRequest { message: asked.message, tag: asked.tag, ..Default::default() };
        let outcome = self
            .daemon
            .to_session(&asked.session, "snapshot", &request, |result| match result {
                JobResult::Snapshot(outcome) => Some(outcome),
                _ => None,
            })
            .await?;
        let missing = outcome.not_captured.iter().map(|one| {
            format!("`{}` is not in the snapshot: {}", show::text(&one.path), format::safe(&one.reason))
        });
        let warnings = missing.chain(outcome.warnings.iter().map(|warning| format::safe(warning)));
        Ok(Json(Taken {
            snapshot: show::short(&outcome.commit),
            paused_ms: milliseconds(outcome.frozen_us),
            took_ms: milliseconds(outcome.total_us),
            new_bytes: outcome.new_bytes,
            memory_bytes: outcome.memory_bytes,
            warnings: warnings.take(WARNINGS).collect(),
        }))
    }

    /// Lists snapshots of a session, or of all sessions, newest first. Cost: none.
    #[tool(annotations(
        title = "List snapshots",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn history(&self, Parameters(asked): Parameters<HistoryAsked>) -> Result<Json<Past>, Refusal> {
        let limit = asked.limit.unwrap_or(SNAPSHOTS.0).clamp(1, SNAPSHOTS.1);
        let path = match &asked.session {
            Some(session) => format!("{}/history?limit={limit}", session_path(session)),
            None => format!("/v1/history?limit={limit}"),
        };
        let commits: Commits = self.daemon.get(path).await?;
        Ok(Json(Past { snapshots: commits.commits.iter().map(SnapshotLine::from).collect() }))
    }

    /// Says what differs between two snapshots, of one session or of two branches: variables by name (Python), files, memory. To compare
    /// how sessions are now, take a snapshot of each first. Cost: none for the sessions; a moment of reading.
    #[tool(annotations(
        title = "Compare two snapshots",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn compare(&self, Parameters(asked): Parameters<CompareAsked>) -> Result<Json<Compared>, Refusal> {
        let path = format!("/v1/diff?a={}&b={}", encoded(&asked.a), encoded(&asked.b));
        Ok(Json(compared(&self.daemon.get(path).await?)))
    }

    /// Puts a session back to one of its snapshots: memory, variables, processes and, unless `files` is false, its files. How it is now is
    /// kept as a snapshot first, and a cell that runs is cut off. What code did outside of the session stays done. Cost: a second or less,
    /// and the disk for what changed. Undo: restore the snapshot that the answer calls `before`.
    #[tool(annotations(
        title = "Restore a snapshot",
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    async fn restore(&self, Parameters(asked): Parameters<RestoreAsked>) -> Result<Json<Restored>, Refusal> {
        let request =
            RollbackRequest { force: asked.force, files: asked.files, ..RollbackRequest::to(asked.to) };
        let outcome = self
            .daemon
            .to_session(&asked.session, "rollback", &request, |result| match result {
                JobResult::Rollback(outcome) => Some(outcome),
                _ => None,
            })
            .await?;
        let (spared, overwritten) = (outcome.spared.iter(), outcome.changed_by_others.iter());
        let spared = spared.map(|path| {
            format!("`{}` was changed by somebody else and stays; `force` puts it back", show::text(path))
        });
        let overwritten = overwritten.map(|path| {
            format!("`{}` had been changed by somebody else; that is in `before`", show::text(path))
        });
        let warnings = outcome.warnings.iter().map(|warning| format::safe(warning));
        let warnings = spared.chain(overwritten).chain(warnings);
        Ok(Json(Restored {
            snapshot: show::short(&outcome.commit),
            before: outcome.automatic.as_deref().map(show::short),
            warnings: warnings.take(WARNINGS).collect(),
        }))
    }
}

fn compared(diff: &Diff) -> Compared {
    let variables = diff.variables.as_deref().map(|variables| {
        first(variables, DIFFERENCES, |one| VariableLine {
            name: format::safe(&one.name),
            change: change(one.change),
            before: one.before.as_ref().map(told),
            after: one.after.as_ref().map(told),
        })
    });
    let (variables, more_variables) = variables.map_or((None, 0), |(lines, more)| (Some(lines), more));
    let (files, more_files) = first(&diff.files, DIFFERENCES, |one| FileLine {
        path: show::text(&one.path),
        change: change(one.change),
        before_bytes: one.before_bytes,
        after_bytes: one.after_bytes,
    });
    Compared {
        a: show::short(&diff.a),
        b: show::short(&diff.b),
        variables,
        files,
        left_out: more_variables + more_files,
        memory_bytes: diff.totals.memory_bytes,
        processes: diff.totals.processes,
    }
}

fn told(variable: &Variable) -> String {
    brief(&format!("{} {}", variable.kind, variable.summary))
}

const fn change(change: Change) -> &'static str {
    match change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Changed => "changed",
    }
}

#[cfg(test)]
mod tests {
    use api::{DiffTotals, FileDiff, VariableDiff};

    use super::*;

    #[test]
    fn a_comparison_is_bounded_and_says_what_it_left_out() {
        let variable = |number: usize| VariableDiff {
            name: format!("v{number}"),
            change: Change::Changed,
            before: None,
            after: Some(Variable {
                name: String::new(),
                kind: "int".into(),
                size: None,
                summary: "7".repeat(900),
            }),
        };
        let file = |number: usize| FileDiff {
            path: format!("f{number}").as_str().into(),
            change: Change::Added,
            before_bytes: None,
            after_bytes: Some(1),
        };
        let diff = Diff {
            a: "a".repeat(64),
            b: "b".repeat(64),
            processes: Vec::new(),
            memory: Vec::new(),
            files: (0..103).map(file).collect(),
            variables: Some((0..102).map(variable).collect()),
            totals: DiffTotals::default(),
        };
        let told = compared(&diff);
        let variables = told.variables.unwrap();
        assert_eq!((variables.len(), told.files.len(), told.left_out), (100, 100, 5));
        assert!(variables[0].after.as_ref().unwrap().chars().count() <= 200);
        assert_eq!((told.a.as_str(), variables[0].change), ("aaaaaaaaaaaa", "changed"));
        assert!(compared(&Diff { variables: None, ..diff }).variables.is_none());
    }
}
