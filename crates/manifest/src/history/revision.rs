//! From what people type to a commit: `main`, `tags/v1`, `3f9a0c`, `main~2`.

use cas_core::{Kind, ObjectId, Store, StoreError};

use crate::COMMIT;
use crate::commit::Commit;
use crate::error::ReadError;
use crate::history::Grafts;
use crate::names::{Tag, Thread};
use crate::object::ManifestObject;
use crate::stored::FromStore;

/// Fewer digits of an id are more often a mistake than an abbreviation.
const MIN_DIGITS: usize = 4;
/// Ambiguous ids are listed up to this many.
const LISTED: usize = 4;

/// What was typed means no commit, or cannot be followed to one. Who asked has the code and the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RevisionError {
    /// Nothing has this name.
    #[error("no thread, tag or commit is called `{revision}`")]
    NotFound {
        /// What was typed.
        revision: String,
    },
    /// Several things have this name.
    #[error("`{revision}` may mean {}", candidates.join(" or "))]
    Ambiguous {
        /// What was typed.
        revision: String,
        /// Some of what it may mean, in backquotes.
        candidates: Vec<String>,
    },
    /// It was forgotten.
    #[error("`{revision}` was forgotten")]
    Forgotten {
        /// What was typed.
        revision: String,
    },
    /// The history ends before that.
    #[error("`{revision}` goes back further than the history of this store")]
    HistoryEnds {
        /// What was typed.
        revision: String,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A commit on the way cannot be read.
    #[error(transparent)]
    Commit(Box<ReadError<StoreError>>),
}

/// The commit that `text` means.
pub fn resolve(store: &Store, text: &str) -> Result<ObjectId, RevisionError> {
    resolve_with(store, &Grafts::load_from(store).map_err(RevisionError::Commit)?.0, text)
}

/// The same, for those who know what was forgotten. Steps back go over what is left.
pub fn resolve_with(store: &Store, grafts: &Grafts, text: &str) -> Result<ObjectId, RevisionError> {
    let (name, steps) = split(text).ok_or_else(|| RevisionError::NotFound { revision: text.to_owned() })?;
    let mut id = start(store, grafts, name)?;
    for _ in 0..steps {
        let commit =
            Commit::load(&FromStore(store), &id).map_err(|error| RevisionError::Commit(Box::new(error)))?;
        // A parent that was never imported is the end too.
        match grafts.parents(&commit.parents).first().copied() {
            Some(parent) if store.contains(&parent)? => id = parent,
            _ => return Err(RevisionError::HistoryEnds { revision: text.to_owned() }),
        }
    }
    Ok(id)
}

/// `main~2~` is `main` and 3.
fn split(text: &str) -> Option<(&str, u64)> {
    let mut parts = text.split('~');
    let name = parts.next().filter(|name| !name.is_empty())?;
    let step = |part: &str| if part.is_empty() { Some(1) } else { part.parse::<u64>().ok() };
    let steps = parts.try_fold(0u64, |sum, part| sum.checked_add(step(part)?))?;
    Some((name, steps))
}

fn start(store: &Store, grafts: &Grafts, name: &str) -> Result<ObjectId, RevisionError> {
    let refs = store.refs();
    let mut found: Vec<(String, ObjectId)> = Vec::new();
    let full = [Thread::from_ref_path(name).is_ok(), Tag::from_ref_path(name).is_ok()];
    if full.contains(&true)
        && let Some(id) = refs.get(name)?
    {
        return Ok(id);
    }
    let paths = [Thread::new(name).map(|thread| thread.ref_path()), Tag::new(name).map(|tag| tag.ref_path())];
    for path in paths.into_iter().flatten() {
        if let Some(id) = refs.get(&path)? {
            found.push((path, id));
        }
    }
    if found.is_empty() {
        let mut ids = with_prefix(store, name, Some(COMMIT))?;
        // A forgotten one is in nobody's way.
        let left = |id: &ObjectId| !grafts.contains(id);
        match ids.iter().any(|(id, _)| left(id)) {
            true => ids.retain(|(id, _)| left(id)),
            false if ids.is_empty() => {}
            false => return Err(RevisionError::Forgotten { revision: name.to_owned() }),
        }
        found = ids.into_iter().map(|(id, _)| (id.to_string(), id)).collect();
    }
    match &found[..] {
        [] => Err(RevisionError::NotFound { revision: name.to_owned() }),
        [(_, id)] => Ok(*id),
        several => {
            let candidates = several.iter().map(|(name, _)| format!("`{name}`")).collect();
            Err(RevisionError::Ambiguous { revision: name.to_owned(), candidates })
        }
    }
}

/// Objects whose ids start with these digits, of one kind or of any; none if these are not digits of an id. A few are enough
/// to say that there are several, so not all are listed then.
pub fn with_prefix(
    store: &Store,
    digits: &str,
    wanted: Option<Kind>,
) -> Result<Vec<(ObjectId, Kind)>, StoreError> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if !(MIN_DIGITS..=64).contains(&digits.len()) || !digits.bytes().all(is_digit) {
        return Ok(Vec::new());
    }
    let filled = |digit: &str| format!("{digits}{}", digit.repeat(64 - digits.len())).parse::<ObjectId>();
    let (Ok(first), Ok(last)) = (filled("0"), filled("f")) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    store.catalogue().for_each_between(&first, &last, &mut |id, location| {
        if found.len() < LISTED && wanted.is_none_or(|kind| kind == location.kind) {
            found.push((*id, location.kind));
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_back_add_up() {
        assert_eq!(split("main"), Some(("main", 0)));
        assert_eq!(split("main~"), Some(("main", 1)));
        assert_eq!(split("a/b~2~~3"), Some(("a/b", 6)));
        assert_eq!(split("~2"), None);
        assert_eq!(split("main~x"), None);
        assert_eq!(split("main~-1"), None);
        assert_eq!(split(&format!("main~{}~1", u64::MAX)), None);
    }
}
