//! What differs between two snapshots: processes, memory and files as they are in the store, and variables as the kernel told them.

use std::collections::{BTreeMap, BTreeSet};

use image_store::{Change, FileChange, MemoryChange, ProcessChange, compare};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::timeline::variables_of;
use crate::view::Variable;

/// What differs between two snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diff {
    /// The first commit.
    pub a: String,
    /// The second.
    pub b: String,
    /// Processes, by pid.
    pub processes: Vec<ProcessChange>,
    /// Mappings with pages that differ, the most first.
    pub memory: Vec<MemoryChange>,
    /// Files, by path.
    pub files: Vec<FileChange>,
    /// Variables, by name; `None` if one of the two does not know its own.
    pub variables: Option<Vec<VariableChange>>,
}

/// A variable that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariableChange {
    /// Its name.
    pub name: String,
    /// Whether it came, went or is another.
    pub change: Change,
    /// What it was.
    pub before: Option<Variable>,
    /// What it is.
    pub after: Option<Variable>,
}

impl Engine {
    /// What changed between two snapshots.
    pub fn diff(&self, a: &str, b: &str) -> Result<Diff> {
        let store = self.inner.store.open()?;
        let load = |which: &str| {
            let id = store.resolve(which)?;
            Ok::<_, LifecycleError>((id.to_string(), store.load(&id)?.1))
        };
        let ((a, before), (b, after)) = (load(a)?, load(b)?);
        let found = compare(store.store(), (&a, &before), (&b, &after))?;
        let known = (variables_of(&store, &a, &before)?, variables_of(&store, &b, &after)?);
        let variables = match known {
            (Some(before), Some(after)) => Some(variable_changes(&before, &after)),
            _ => None,
        };
        Ok(Diff { a, b, processes: found.processes, memory: found.memory, files: found.files, variables })
    }
}

/// What differs between two lists, by name. Two values of one type, size and appearance count as the same.
fn variable_changes(before: &[Variable], after: &[Variable]) -> Vec<VariableChange> {
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
        Some(VariableChange { name, change, before, after })
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
