//! From what people type to a commit: `main`, `tags/v1`, `3f9a0c`, `main~2`.

use anyhow::Result;
use cas_core::{Kind, ObjectId, Store};
use manifest::{COMMIT, Commit, ManifestObject, Tag, Thread};

use crate::error::CliError;
use crate::objects::FromStore;

/// Fewer digits of an id are more often a mistake than an abbreviation.
const MIN_DIGITS: usize = 4;
/// Ambiguous ids are listed up to this many.
const LISTED: usize = 4;

/// The commit that `text` means; without text, the last one of `main` or of the only thread.
pub(crate) fn resolve(store: &Store, text: Option<&str>) -> Result<ObjectId> {
    match text {
        Some(text) => named(store, text),
        None => default(store),
    }
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

fn named(store: &Store, text: &str) -> Result<ObjectId> {
    let not_found = || CliError::RevisionNotFound { revision: text.to_owned() };
    let (name, steps) = split(text).ok_or_else(not_found)?;
    let mut id = start(store, name)?;
    for _ in 0..steps {
        let commit = Commit::load(&FromStore(store), &id)?;
        let parent = commit.parents.first().copied();
        // A parent that was never imported is the end too.
        match parent {
            Some(parent) if store.contains(&parent)? => id = parent,
            _ => return Err(CliError::HistoryEnds { revision: text.to_owned() }.into()),
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

fn start(store: &Store, name: &str) -> Result<ObjectId> {
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
        let ids = with_prefix(store, name, Some(COMMIT))?;
        found = ids.into_iter().map(|(id, _)| (id.to_string(), id)).collect();
    }
    match &found[..] {
        [] => Err(CliError::RevisionNotFound { revision: name.to_owned() }.into()),
        [(_, id)] => Ok(*id),
        several => {
            let candidates = several.iter().map(|(name, _)| format!("`{name}`")).collect();
            Err(CliError::RevisionAmbiguous { revision: name.to_owned(), candidates }.into())
        }
    }
}

/// The one object whose id starts with `digits`.
pub(crate) fn object(store: &Store, digits: &str) -> Result<(ObjectId, Kind)> {
    match with_prefix(store, digits, None)?[..] {
        [] => Err(CliError::ObjectNotFound { id: digits.to_owned() }.into()),
        [one] => Ok(one),
        ref several => {
            let candidates = several.iter().map(|(id, _)| format!("`{id}`")).collect();
            Err(CliError::RevisionAmbiguous { revision: digits.to_owned(), candidates }.into())
        }
    }
}

/// Objects whose ids start with these digits, of one kind or of any; none if these are not digits of an id.
fn with_prefix(store: &Store, digits: &str, wanted: Option<Kind>) -> Result<Vec<(ObjectId, Kind)>> {
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
