//! What people and programs note about a session: its name, labels, its document, its policy.
//!
//! None of it concerns the processes, so it can be changed at any moment, also while an operation has hold of the session
//! and a copy of its record. Whoever saves a record therefore never saves these fields of their copy: `Engine::save`
//! of `lifecycle` takes them from the record that is known, and writes both under one lock. So neither a change is undone by an operation
//! that began before it, nor the work of an operation by a change.

use std::collections::BTreeMap;
use std::path::PathBuf;

use api::SessionPatch;
use policy::SessionPolicy;
use serde::{Deserialize, Serialize};

use crate::error::{RecordError, Result};
use crate::words::session_policy;

/// The most labels that one session has.
const LABELS: usize = 32;
/// The longest key of one, in bytes.
const KEY: usize = 64;
/// The longest value, in bytes.
const VALUE: usize = 4096;
/// The longest mark, in bytes.
const MARK: usize = 256;

/// What is noted about a session.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// Which session is which, for programs.
    pub labels: BTreeMap<String, String>,
    /// The document that goes with each snapshot.
    pub notebook: Option<PathBuf>,
    /// The same as a page shows it, for as long as that is newer.
    pub shown: Option<PathBuf>,
    /// What happens to the session by itself.
    pub policy: SessionPolicy,
    /// The label of the next snapshot.
    pub mark: Option<String>,
}

impl Notes {
    /// Those of a new session.
    pub fn new(
        labels: BTreeMap<String, String>,
        notebook: Option<PathBuf>,
        policy: SessionPolicy,
    ) -> Result<Self> {
        let notes = Self { labels, notebook, policy, ..Self::default() };
        notes.check()?;
        Ok(notes)
    }

    /// Those of a branch. Labels say which session is which, so two never begin with the same; nor do they share a document.
    pub fn for_branch(&self) -> Self {
        Self { policy: self.policy.clone(), ..Self::default() }
    }

    /// Notes what a patch says, and leaves the rest as it is.
    pub fn change(&mut self, patch: SessionPatch) {
        for (key, value) in patch.labels.unwrap_or_default() {
            match value {
                Some(value) => self.labels.insert(key, value),
                None => self.labels.remove(&key),
            };
        }
        if let Some(notebook) = patch.notebook {
            self.notebook = notebook.map(Into::into);
        }
        if let Some(shown) = patch.shown {
            self.shown = shown.map(Into::into);
        }
        if let Some(policy) = patch.policy {
            // None at all is as good as one with everything off.
            self.policy = policy.map(session_policy).unwrap_or_default();
        }
        if let Some(mark) = patch.mark {
            self.mark = mark;
        }
    }

    /// Refuses what is too long, and what is no path.
    pub fn check(&self) -> Result<()> {
        let wrong = |detail: String| Err(RecordError::BadRequest { detail });
        if self.labels.len() > LABELS {
            return wrong(format!("a session has at most {LABELS} labels"));
        }
        for (key, value) in &self.labels {
            let fits = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
            };
            if key.is_empty() || key.len() > KEY || !key.bytes().all(fits) {
                return wrong(format!(
                    "a label's key has 1 to {KEY} of `a-z`, `0-9`, `.`, `_` and `-`; `{}` is none",
                    key.escape_debug()
                ));
            }
            if value.len() > VALUE {
                return wrong(format!("the label `{key}` has more than {VALUE} bytes"));
            }
        }
        for path in self.notebook.iter().chain(&self.shown) {
            if !(path.is_absolute() && path.to_str().is_some_and(|path| !path.contains('\0'))) {
                return wrong(format!("`{}` is not an absolute path in UTF-8", path.display()));
            }
        }
        if self.mark.as_ref().is_some_and(|mark| mark.is_empty() || mark.len() > MARK) {
            return wrong(format!("a mark has 1 to {MARK} bytes"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: &str, value: &str) -> Result<Notes> {
        let labels = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        Notes::new(labels, None, SessionPolicy::default())
    }

    #[test]
    fn labels_have_limits() {
        with("jupyter.kernel_id", "").unwrap();
        with(&"k".repeat(KEY), &"v".repeat(VALUE)).unwrap();
        for bad in ["", "A", "a b", "ä", &"k".repeat(KEY + 1)] {
            assert!(matches!(with(bad, ""), Err(RecordError::BadRequest { .. })), "{bad:?}");
        }
        with("a", &"v".repeat(VALUE + 1)).unwrap_err();
        let many = (0..=LABELS).map(|number| (number.to_string(), String::new())).collect();
        Notes::new(many, None, SessionPolicy::default()).unwrap_err();
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let mut notes = with("a", "1").unwrap();
        notes.mark = Some("m".to_owned());
        let labels = BTreeMap::from([("a".to_owned(), None), ("b".to_owned(), Some("2".to_owned()))]);
        notes.change(SessionPatch { labels: Some(labels), ..SessionPatch::default() });
        assert_eq!(notes.labels, BTreeMap::from([("b".to_owned(), "2".to_owned())]));
        assert_eq!(notes.mark.as_deref(), Some("m"));
        notes.change(SessionPatch { mark: Some(None), ..SessionPatch::default() });
        assert_eq!(notes.mark, None);
    }

    #[test]
    fn a_branch_begins_without_labels_and_document() {
        let mut notes = with("a", "1").unwrap();
        notes.notebook = Some("/home/ada/a.ipynb".into());
        notes.shown = Some("/home/ada/.local/share/a.ipynb".into());
        notes.policy.snapshot_every_s = Some(60);
        let branch = notes.for_branch();
        assert_eq!(branch, Notes { policy: notes.policy, ..Notes::default() });
    }
}
