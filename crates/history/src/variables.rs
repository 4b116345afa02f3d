//! The names of a kernel's variables, as they are in a snapshot: a list in JSON, sorted by name and cut to what is shown.

use api::Variable;
use cas_core::progress::Silent;
use cas_core::{ObjectId, WriteTransaction};
use manifest::snapshot::VariablesSection;
use manifest::{ManifestError, Section, Snapshot, TypedSection};

use crate::error::{HistoryError, Result};
use crate::own_store::UserStore;

/// What is shown of a name, a type and a value, in characters.
const WORD_LIMIT: usize = 200;
/// How many variables are kept.
const COUNT_LIMIT: usize = 10_000;
/// The longest list, in bytes.
const LIST_BYTES: u64 = 64 << 20;

/// Writes such a list into a snapshot.
pub fn variables_section(variables: &[Variable], session: &WriteTransaction) -> Result<Section> {
    let word = |text: &str| text.chars().take(WORD_LIMIT).collect();
    let mut kept: Vec<Variable> = variables
        .iter()
        .take(COUNT_LIMIT)
        .map(|one| Variable {
            name: word(&one.name),
            kind: word(&one.kind),
            size: one.size,
            summary: word(&one.summary),
        })
        .collect();
    kept.sort_by(|one, other| one.name.cmp(&other.name));
    let bytes = serde_json::to_vec(&kept).map_err(|error| ManifestError::Malformed {
        what: "the list of variables".to_owned(),
        detail: error.to_string(),
    })?;
    let list = session.put_blob(&mut bytes.as_slice(), &Silent)?.into();
    let count = u32::try_from(kept.len()).unwrap_or(u32::MAX);
    Ok(VariablesSection { list, count }.to_section()?)
}

impl UserStore {
    /// The variables that a kernel had at a commit.
    pub fn variables(&self, id: &ObjectId) -> Result<Vec<Variable>> {
        let found = self.variables_in(&id.short(), &self.load(id)?.1)?;
        found.ok_or_else(|| HistoryError::NotInSnapshot {
            commit: id.short(),
            what: "has no list of variables",
        })
    }

    /// The variables in a snapshot, if it has them.
    pub(crate) fn variables_in(&self, commit: &str, snapshot: &Snapshot) -> Result<Option<Vec<Variable>>> {
        let Some(section) = snapshot.get::<VariablesSection>()? else { return Ok(None) };
        let bytes = self.read_part(commit, section.list, LIST_BYTES)?;
        let list = serde_json::from_slice(&bytes).map_err(|error| HistoryError::BadSnapshot {
            commit: commit.to_owned(),
            detail: format!("its list of variables: {error}"),
        })?;
        Ok(Some(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::own_store;

    fn variable(name: &str, summary: &str) -> Variable {
        Variable { name: name.to_owned(), kind: "int".to_owned(), size: None, summary: summary.to_owned() }
    }

    #[test]
    fn a_list_is_sorted_and_cut() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let session = store.write(&[]).unwrap();
        let long = "ä".repeat(WORD_LIMIT + 1);
        let section = variables_section(&[variable("b", &long), variable("a", "1")], &session).unwrap();
        session.commit(&[]).unwrap();
        let snapshot = Snapshot::new(vec![section]).unwrap();
        let found = store.variables_in("c", &snapshot).unwrap().unwrap();
        assert_eq!(found, [variable("a", "1"), variable("b", &"ä".repeat(WORD_LIMIT))]);
        assert_eq!(store.variables_in("c", &Snapshot::default()).unwrap(), None);
    }
}
