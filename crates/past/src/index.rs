//! Which snapshots there are, and what they are called.
//!
//! Made by walking the history once, and again only when a ref has changed: a mount lives for days, and snapshots come and go meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cas_core::{ObjectId, Store};
use jiff::Timestamp;
use manifest::history::walk;
use manifest::stored::History;
use manifest::{Tag, Thread};

use crate::error::Result;

/// How long what was found is good.
pub(crate) const FRESH: Duration = Duration::from_secs(1);
/// No more snapshots are shown, the newest first.
const MOST: usize = 100_000;

/// One state of it.
#[derive(Default, Debug)]
pub(crate) struct Index {
    /// Directories by name.
    pub(crate) snapshots: BTreeMap<String, ObjectId>,
    /// Names of directories, by thread.
    pub(crate) threads: BTreeMap<String, BTreeSet<String>>,
    /// The directory that a tag leads to.
    pub(crate) tags: BTreeMap<String, String>,
}

/// The newest state that is known.
#[derive(Default)]
pub(crate) struct Known(Mutex<Option<State>>);

struct State {
    index: Arc<Index>,
    refs: Vec<(String, ObjectId)>,
    looked: Instant,
}

impl Known {
    /// What there is now, or was a moment ago.
    pub(crate) fn now(&self, store: &Store) -> Result<Arc<Index>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = known.as_ref().filter(|state| state.looked.elapsed() < FRESH) {
            return Ok(Arc::clone(&state.index));
        }
        let refs = refs(store)?;
        let index = match known.take().filter(|state| state.refs == refs) {
            Some(state) => state.index,
            None => Arc::new(Index::of(store, &refs)?),
        };
        *known = Some(State { index: Arc::clone(&index), refs, looked: Instant::now() });
        Ok(index)
    }
}

/// All that can be read: a damaged one hides nothing but itself.
fn refs(store: &Store) -> Result<Vec<(String, ObjectId)>> {
    let all = store.refs().list("")?;
    Ok(all.into_iter().filter_map(|(name, id)| Some((name, id.ok()?))).collect())
}

impl Index {
    fn of(store: &Store, refs: &[(String, ObjectId)]) -> Result<Self> {
        let mut index = Self::default();
        let mut names = BTreeMap::new();
        let named = |(name, _): &&(String, ObjectId)| {
            name.starts_with(Thread::PREFIX) || name.starts_with(Tag::PREFIX)
        };
        let heads = refs.iter().filter(named).map(|(_, id)| *id);
        for (id, commit) in walk(History::of(store)?, heads).take(MOST) {
            // One that cannot be read is left out, and so is what only it leads to.
            let Ok(commit) = commit else { continue };
            let name = directory(commit.time, &id);
            index.threads.entry(file_name(commit.thread.as_str())).or_default().insert(name.clone());
            index.snapshots.insert(name.clone(), id);
            names.insert(id, name);
        }
        for (path, id) in refs {
            let Some(directory) = names.get(id) else { continue };
            if let Some(thread) = path.strip_prefix(Thread::PREFIX) {
                index.threads.entry(file_name(thread)).or_default().insert(directory.clone());
            } else if let Some(tag) = path.strip_prefix(Tag::PREFIX) {
                index.tags.insert(file_name(tag), directory.clone());
            }
        }
        Ok(index)
    }
}

/// What the directory of a snapshot is called: by time, so that a listing is in its order.
fn directory(time: Timestamp, id: &ObjectId) -> String {
    format!("{}_{}", time.strftime("%Y-%m-%d_%H-%M-%S"), id.short())
}

/// Names of threads and tags may have slashes, names of files not.
fn file_name(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_by_time_and_names_have_no_slash() {
        let time = "2026-11-17T23:41:05.123Z".parse().unwrap();
        assert_eq!(directory(time, &ObjectId::from_bytes([0xab; 32])), "2026-11-17_23-41-05_abababababab");
        assert_eq!(file_name("a/b%2F"), "a%2Fb%252F");
    }
}
