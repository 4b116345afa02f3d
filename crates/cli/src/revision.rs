//! From what people type to a commit: the rules are those of [`manifest::history::resolve`], with the command line's errors
//! and, without a text, its default.

use anyhow::Result;
use cas_core::{Kind, ObjectId, Store};
use manifest::Thread;
use manifest::history::{self, RevisionError};

use crate::error::CliError;

/// The commit that `text` means; without text, the last one of `main` or of the only thread.
pub(crate) fn resolve(store: &Store, text: Option<&str>) -> Result<ObjectId> {
    let Some(text) = text else { return default(store) };
    history::resolve(store, text).map_err(|error| match error {
        RevisionError::NotFound { revision } => CliError::RevisionNotFound { revision }.into(),
        RevisionError::Forgotten { revision } => CliError::RevisionForgotten { revision }.into(),
        RevisionError::Ambiguous { revision, candidates } => {
            CliError::RevisionAmbiguous { revision, candidates }.into()
        }
        RevisionError::HistoryEnds { revision } => CliError::HistoryEnds { revision }.into(),
        RevisionError::Store(error) => error.into(),
        RevisionError::Commit(error) => (*error).into(),
        other => other.into(),
    })
}

fn default(store: &Store) -> Result<ObjectId> {
    if let Some(id) = store.refs().get("threads/main")? {
        return Ok(id);
    }
    let mut threads = store.refs().list(Thread::PREFIX)?;
    match (threads.pop(), threads.is_empty()) {
        (Some((_, target)), true) => Ok(target?),
        (None, _) => Err(CliError::RevisionNotFound { revision: "main".into() }.into()),
        (Some(_), false) => {
            let what = "there are several threads and none is called `main`: say which one is meant".into();
            Err(CliError::Usage { what }.into())
        }
    }
}

/// The one object whose id starts with `digits`.
pub(crate) fn object(store: &Store, digits: &str) -> Result<(ObjectId, Kind)> {
    match history::with_prefix(store, digits, None)?[..] {
        [] => Err(CliError::ObjectNotFound { id: digits.to_owned() }.into()),
        [one] => Ok(one),
        ref several => {
            let candidates = several.iter().map(|(id, _)| format!("`{id}`")).collect();
            Err(CliError::RevisionAmbiguous { revision: digits.to_owned(), candidates }.into())
        }
    }
}
