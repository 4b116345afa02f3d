//! Variables that differ: by name, and by what can be seen of them from outside.

use std::collections::{BTreeMap, BTreeSet};

use super::Change;
use crate::view::Variable;

/// A variable that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariableChange {
    /// Its name.
    pub name: String,
    /// How.
    pub change: Change,
    /// What it was.
    pub before: Option<Variable>,
    /// What it is.
    pub after: Option<Variable>,
}

/// What differs between two lists, by name. Two values of one type, size and appearance count as the same.
pub(crate) fn changes(before: &[Variable], after: &[Variable]) -> Vec<VariableChange> {
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
        let found = changes(&before, &after);
        let short: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.change)).collect();
        assert_eq!(short, [("gone", Change::Removed), ("new", Change::Added), ("x", Change::Changed)]);
        assert_eq!(found[2].before.as_ref().unwrap().summary, "3");
        assert_eq!(found[2].after.as_ref().unwrap().summary, "5");
        let mut typed = variable("x", "5");
        typed.kind = "float".into();
        assert_eq!(changes(&after[2..], &[typed]).len(), 1);
    }
}
