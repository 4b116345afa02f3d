//! Histories and what lies between two points of one.

use api::{
    CellNote, Change, CommitView, Commits, Diff, DiffTotals, FileDiff, ForgetOutcome, KeptCommit,
    MappingDiff, ProcessDiff, ThreadView, Variable, VariableDiff,
};

/// A point of a history.
pub(crate) fn commit(view: lifecycle::CommitView) -> CommitView {
    CommitView {
        id: view.id.to_string(),
        parents: view.parents.iter().map(ToString::to_string).collect(),
        thread: view.thread,
        tags: view.tags,
        time: view.time.to_string(),
        reason: view.reason,
        automatic: view.automatic,
        message: view.message,
        label: view.label,
        bytes: view.bytes,
        new_bytes: view.figures.new_bytes,
        memory_bytes: view.figures.memory_bytes,
        vram_bytes: view.figures.vram_bytes,
        frozen_us: view.figures.frozen_us,
        gpu_paused_us: view.figures.gpu_paused_us,
        cell: view.cell.map(|cell| CellNote { id: cell.id, number: cell.number, source: cell.source }),
        has_notebook: view.has_notebook,
        has_variables: view.has_variables,
        session: view.session,
        back_to: view.back_to.map(|id| id.to_string()),
    }
}

/// A history.
pub(crate) fn commits(view: lifecycle::HistoryView) -> Commits {
    let thread = |thread: lifecycle::ThreadView| ThreadView {
        name: thread.name,
        head: thread.head.to_string(),
        session: thread.session.map(|session| session.to_string()),
    };
    Commits {
        commits: view.commits.into_iter().map(commit).collect(),
        threads: view.threads.into_iter().map(thread).collect(),
    }
}

/// A variable.
pub(crate) fn variable(one: lifecycle::Variable) -> Variable {
    Variable { name: one.name, kind: one.kind, size: one.size, summary: one.summary }
}

/// What goes with a snapshot.
pub(crate) fn along(
    label: Option<String>,
    notebook: Option<String>,
    cell: Option<CellNote>,
    variables: Option<bool>,
) -> lifecycle::Along {
    let cell = cell.map(|cell| lifecycle::Cell { id: cell.id, number: cell.number, source: cell.source });
    lifecycle::Along { label, notebook, cell, variables }
}

/// What became of snapshots that were to be forgotten.
pub(crate) fn forgotten(outcome: lifecycle::ForgetOutcome) -> ForgetOutcome {
    ForgetOutcome {
        forgotten: outcome.forgotten.iter().map(ToString::to_string).collect(),
        kept: outcome
            .kept
            .into_iter()
            .map(|(commit, reason)| KeptCommit { commit: commit.to_string(), reason })
            .collect(),
    }
}

/// What lies between two.
pub(crate) fn diff(found: lifecycle::Diff) -> Diff {
    let totals = DiffTotals {
        memory_bytes: found.memory.iter().map(|mapping| mapping.changed_bytes).sum(),
        files: count(&found.files),
        processes: count(&found.processes),
    };
    let process = |one: lifecycle::ProcessChange| ProcessDiff {
        pid: one.pid,
        name: one.name,
        change: change(one.change),
    };
    let mapping = |one: lifecycle::MemoryChange| MappingDiff {
        pid: one.pid,
        start: one.start,
        end: one.end,
        name: one.name.into(),
        change: change(one.change),
        changed_bytes: one.changed_bytes,
    };
    let file = |one: lifecycle::FileChange| FileDiff {
        path: one.path.into(),
        change: change(one.change),
        before_bytes: one.before,
        after_bytes: one.after,
    };
    let one_variable = |one: lifecycle::VariableChange| VariableDiff {
        name: one.name,
        change: change(one.change),
        before: one.before.map(variable),
        after: one.after.map(variable),
    };
    Diff {
        a: found.a,
        b: found.b,
        processes: found.processes.into_iter().map(process).collect(),
        memory: found.memory.into_iter().map(mapping).collect(),
        files: found.files.into_iter().map(file).collect(),
        variables: found.variables.map(|changes| changes.into_iter().map(one_variable).collect()),
        totals,
    }
}

fn change(change: lifecycle::Change) -> Change {
    match change {
        lifecycle::Change::Added => Change::Added,
        lifecycle::Change::Removed => Change::Removed,
        lifecycle::Change::Changed => Change::Changed,
    }
}

fn count<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}
