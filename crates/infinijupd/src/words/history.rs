//! Histories and what lies between two points of one.

use api::{Change, CommitView, Diff, DiffTotals, FileDiff, MappingDiff, ProcessDiff};

/// A point of a history.
pub(crate) fn commit(view: lifecycle::CommitView) -> CommitView {
    CommitView {
        id: view.id.to_string(),
        parents: view.parents.iter().map(ToString::to_string).collect(),
        thread: view.thread,
        tags: view.tags,
        time: view.time.to_string(),
        reason: view.reason,
        message: view.message,
        bytes: view.bytes,
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
    Diff {
        a: found.a,
        b: found.b,
        processes: found.processes.into_iter().map(process).collect(),
        memory: found.memory.into_iter().map(mapping).collect(),
        files: found.files.into_iter().map(file).collect(),
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
