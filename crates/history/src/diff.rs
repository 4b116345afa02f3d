//! What differs between two snapshots: processes, memory and files as they are in the store, and variables as the kernel told them.

use std::collections::{BTreeMap, BTreeSet};

use api::{Change, Diff, DiffTotals, FileDiff, MappingDiff, ProcessDiff, Variable, VariableDiff};
use cas_core::ObjectId;
use image_store::compare;

use crate::error::Result;
use crate::own_store::UserStore;

impl UserStore {
    /// What changed between two snapshots.
    pub fn diff(&self, a: &ObjectId, b: &ObjectId) -> Result<Diff> {
        let (before, after) = (self.load(a)?.1, self.load(b)?.1);
        let (a, b) = (a.to_string(), b.to_string());
        let found = compare(&self.store, (&a, &before), (&b, &after))?;
        let known = (self.variables_in(&a, &before)?, self.variables_in(&b, &after)?);
        let variables = match known {
            (Some(before), Some(after)) => Some(variable_changes(&before, &after)),
            _ => None,
        };
        let totals = DiffTotals {
            memory_bytes: found.memory.iter().map(|mapping| mapping.changed_bytes).sum(),
            files: count(&found.files),
            processes: count(&found.processes),
        };
        Ok(Diff {
            a,
            b,
            processes: found.processes.into_iter().map(process).collect(),
            memory: found.memory.into_iter().map(mapping).collect(),
            files: found.files.into_iter().map(file).collect(),
            variables,
            totals,
        })
    }
}

fn process(one: image_store::ProcessChange) -> ProcessDiff {
    ProcessDiff { pid: one.pid, name: one.name, change: change(one.change) }
}

fn mapping(one: image_store::MemoryChange) -> MappingDiff {
    MappingDiff {
        pid: one.pid,
        start: one.start,
        end: one.end,
        name: one.name.into(),
        change: change(one.change),
        changed_bytes: one.changed_bytes,
    }
}

fn file(one: image_store::FileChange) -> FileDiff {
    FileDiff {
        path: one.path.into(),
        change: change(one.change),
        before_bytes: one.before,
        after_bytes: one.after,
    }
}

fn change(change: image_store::Change) -> Change {
    match change {
        image_store::Change::Added => Change::Added,
        image_store::Change::Removed => Change::Removed,
        image_store::Change::Changed => Change::Changed,
    }
}

fn count<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}

/// What differs between two lists, by name. Two values of one type, size and appearance count as the same.
fn variable_changes(before: &[Variable], after: &[Variable]) -> Vec<VariableDiff> {
    let by_name = |list: &[Variable]| -> BTreeMap<String, Variable> {
        list.iter().map(|one| (one.name.clone(), one.clone())).collect()
    };
    let (mut old, mut new) = (by_name(before), by_name(after));
    let names: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
    let change = |name: String| {
        let (before, after) = (old.remove(&name), new.remove(&name));
        let change = match (&before, &after) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            (before, after) if before == after => return None,
            _ => Change::Changed,
        };
        Some(VariableDiff { name, change, before, after })
    };
    names.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, summary: &str) -> Variable {
        Variable { name: name.into(), kind: "int".into(), size: Some(28), summary: summary.into() }
    }

    #[test]
    fn what_came_went_and_changed() {
        let before = [variable("gone", "1"), variable("same", "2"), variable("x", "3")];
        let after = [variable("new", "4"), variable("same", "2"), variable("x", "5")];
        let found = variable_changes(&before, &after);
        let short: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.change)).collect();
        assert_eq!(short, [("gone", Change::Removed), ("new", Change::Added), ("x", Change::Changed)]);
        assert_eq!(found[2].before.as_ref().unwrap().summary, "3");
        assert_eq!(found[2].after.as_ref().unwrap().summary, "5");
        let mut typed = variable("x", "5");
        typed.kind = "float".into();
        assert_eq!(variable_changes(&after[2..], &[typed]).len(), 1);
    }
}
