//! A store that was plain becomes an encrypted one.
//!
//! Ids in an encrypted store are computed with a secret, so every object gets another id, and everything that names a commit has to
//! follow: refs, seals, and the records of sessions, which are not ours ([`NamesCommits`]). It is done while no daemon runs, and in an
//! order in which being killed costs nothing:
//!
//! ```text
//! store.new/         an encrypted store that everything is copied into and checked in   killed here: removed at the next start
//! encrypting.json    what every commit is called now, and where the key is              from here on it is finished, not undone
//!   store -> store.plain, store.new -> store
//!   records and seals name the new commits
//!   store.plain, and images that were kept beside it, are removed
//!   the settings name the key (the daemon's part)
//! encrypting.json    removed
//! ```
//!
//! Each step of the second part can be done again after any of it was done, and the daemon does so at its start.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::io_error;
use cas_core::crypto::KdfCost;
use cas_core::fsio::{LocalDisk, replace};
use cas_core::layout::{Format, Layout};
use cas_core::progress::Progress;
use cas_core::refs::{Expected, RefChange};
use cas_core::verify::Depth;
use cas_core::{Encryption, ObjectId, OpenOptions, Store, StoreError, Trust};
use manifest::COMMIT;
use manifest::history::Grafts;
use manifest::stored::ManifestReferences;
use sandbox::bounded;
use serde::{Deserialize, Serialize};

use crate::error::{HistoryError, Result};
use crate::key::StoreKey;
use crate::seal::{Sealer, sync_directory};

/// Two ids and some JSON for every commit: millions of them fit.
const NOTES_LIMIT: u64 = 1 << 30;

/// What came of it.
#[derive(Clone, Debug)]
pub struct Encrypted {
    /// It was encrypted before.
    pub already: bool,
    /// Commits that were rewritten.
    pub commits: usize,
}

/// What the second part needs to know.
#[derive(Debug, Serialize, Deserialize)]
struct Notes {
    key_file: PathBuf,
    /// Commits, as they were called and as they are called now.
    commits: BTreeMap<String, String>,
}

/// Who names commits outside of the store.
pub trait NamesCommits {
    /// What goes wrong there.
    type Error: From<HistoryError>;

    /// The commits that are named. An error if somebody is in the middle of something with them.
    fn named(&self) -> Result<Vec<String>, Self::Error>;

    /// Says the new name of each commit wherever the old one is said. Done again, it does nothing.
    fn rename(&self, new_names: &BTreeMap<String, String>) -> Result<(), Self::Error>;
}

/// Encrypts the store below `state` with the key in `key_file`, which is made if it is not there. Only the holder of the state
/// directory's lock may call this, after [`finish`]; and [`finish`] is to be called again. `free_bytes` is how much room there is.
pub fn encrypt<N: NamesCommits>(
    state: &Path,
    key_file: &Path,
    others: &N,
    free_bytes: u64,
    progress: &dyn Progress,
) -> Result<Encrypted, N::Error> {
    let plain = match Now::of(state)? {
        Now::Encrypted => return Ok(Encrypted { already: true, commits: 0 }),
        Now::Plain(store) => Some(store),
        Now::Nothing => None,
    };
    let named = others.named()?;
    let needed = plain.as_ref().map_or(Ok(0), |plain| needed_for(plain))?;
    if needed > free_bytes {
        let path = state.to_owned();
        return Err(HistoryError::NoRoom { path, needed, available: free_bytes }.into());
    }
    let key = StoreKey::read_or_make(key_file)?;
    let commits = build(state, plain.as_deref(), &named, &key, progress).inspect_err(|_| {
        // What cannot be removed now, the next start removes.
        let _ = remove_if_there(&new_store(state));
    })?;
    let encrypted = Encrypted { already: false, commits: commits.len() };
    note(state, &Notes { key_file: key.path, commits })?;
    Ok(encrypted)
}

/// What is at the store's place.
enum Now {
    Nothing,
    Plain(Arc<Store>),
    Encrypted,
}

impl Now {
    fn of(state: &Path) -> Result<Self> {
        match Format::read(&Layout::new(&store(state))) {
            Ok(format) if format.encrypted => Ok(Self::Encrypted),
            Ok(_) => {
                let options = OpenOptions { trust: Trust::Identity, ..OpenOptions::default() };
                Ok(Self::Plain(Store::open(&store(state), options)?))
            }
            Err(StoreError::NotAStore { .. }) => Ok(Self::Nothing),
            Err(error) => Err(error.into()),
        }
    }
}

/// How many bytes a copy takes.
fn needed_for(plain: &Store) -> Result<u64> {
    Ok(plain.catalogue().totals()?.stored)
}

/// The encrypted store, with everything that was in the plain one, and checked. What commits are called in it.
fn build(
    state: &Path,
    plain: Option<&Store>,
    named: &[String],
    key: &StoreKey,
    progress: &dyn Progress,
) -> Result<BTreeMap<String, String>> {
    let encryption = Encryption { unlocks: vec![key.unlock.clone()], cost: KdfCost::default() };
    let new = Store::init(&new_store(state), Some(&encryption), OpenOptions::default())?;
    let commits = plain.map(|plain| copy(plain, &new, named, progress)).transpose()?.unwrap_or_default();
    let report = new.verify(&ManifestReferences::default(), Depth::Bytes, progress)?;
    match report.problems.first() {
        Some(problem) => Err(StoreError::damaged("copy", new.root(), problem.sentence.clone()).into()),
        None => Ok(commits),
    }
}

/// Copies what refs and others name, with all it leads to. What commits are called now.
fn copy(
    plain: &Store,
    new: &Arc<Store>,
    also: &[String],
    progress: &dyn Progress,
) -> Result<BTreeMap<String, String>> {
    let mut refs = BTreeMap::new();
    for (name, id) in plain.refs().list("")? {
        refs.insert(name, id?);
    }
    // It names commits without leading to them, and is written anew.
    refs.remove(Grafts::REF);
    let mut roots: BTreeSet<ObjectId> = refs.values().copied().collect();
    for id in also.iter().filter_map(|commit| commit.parse().ok()) {
        if plain.contains(&id)? {
            roots.insert(id);
        }
    }
    let (mut commits, mut named) = (BTreeMap::new(), BTreeMap::new());
    let session = new.write(&[])?;
    let above = ManifestReferences::default();
    let order: Vec<ObjectId> = roots.iter().copied().collect();
    plain.copy_to(&session, &order, &above, progress, &mut |kind, old, new| {
        if kind == COMMIT {
            commits.insert(*old, *new);
        }
        if roots.contains(old) {
            named.insert(*old, *new);
        }
    })?;
    let mut changes = Vec::new();
    for (name, old) in refs {
        changes.push(RefChange { name, expected: Expected::Absent, new: named.get(&old).copied() });
    }
    let (grafts, there) = Grafts::load_from(plain)?;
    if there.is_some() {
        let grafts = grafts.renamed(|id| commits.get(id).copied());
        changes.push(grafts.change(&session, None)?);
    }
    session.commit(&changes)?;
    Ok(commits.into_iter().map(|(old, new)| (old.to_string(), new.to_string())).collect())
}

/// Finishes what [`encrypt`] had decided, or undoes what it had not. The key that the settings must name now, if it was
/// finished: once they do, [`settled`] forgets about it.
pub fn finish<N: NamesCommits>(state: &Path, others: &N) -> Result<Option<PathBuf>, N::Error> {
    let Some(notes) = noted(state)? else {
        remove_if_there(&new_store(state))?;
        return Ok(None);
    };
    exchange(state)?;
    others.rename(&notes.commits)?;
    rename_seals(state, &notes)?;
    for plain in [plain_store(state), state.join("cache"), state.join("staging")] {
        remove_if_there(&plain)?;
    }
    Ok(Some(notes.key_file))
}

/// The settings name the key.
pub fn settled(state: &Path) -> Result<()> {
    let path = notes_path(state);
    fs::remove_file(&path).map_err(io_error("remove", &path))?;
    sync_directory(state)
}

fn exchange(state: &Path) -> Result<()> {
    let store = store(state);
    let is_plain = match Format::read(&Layout::new(&store)) {
        Ok(format) => !format.encrypted,
        Err(StoreError::NotAStore { .. }) => false,
        Err(error) => return Err(error.into()),
    };
    if is_plain {
        fs::rename(&store, plain_store(state)).map_err(io_error("rename", &store))?;
        sync_directory(state)?;
    }
    let new = new_store(state);
    if new.exists() {
        // An empty directory may be in its place, nothing else.
        fs::rename(&new, &store).map_err(io_error("rename", &new))?;
        sync_directory(state)?;
    }
    Ok(())
}

/// What was made here before still was: the new name of a commit is sealed if the old one is.
fn rename_seals(state: &Path, notes: &Notes) -> Result<()> {
    let sealer = Sealer::open(state)?;
    for (old, new) in &notes.commits {
        match sealer.check(old) {
            Ok(()) => sealer.seal(new)?,
            Err(HistoryError::NotSealed { .. }) => (),
            Err(error) => return Err(error),
        }
        sealer.remove(old)?;
    }
    Ok(())
}

/// Durable when it returns: from here on everything is finished, not undone.
fn note(state: &Path, notes: &Notes) -> Result<()> {
    let path = notes_path(state);
    let bytes = serde_json::to_vec_pretty(notes).map_err(io_error("write", &path))?;
    Ok(replace(&LocalDisk, &path, &bytes)?)
}

fn noted(state: &Path) -> Result<Option<Notes>> {
    let path = notes_path(state);
    match bounded::read_small(&path, NOTES_LIMIT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => serde_json::from_slice(&read.map_err(io_error("read", &path))?)
            .map(Some)
            .map_err(|error| HistoryError::Damaged { path: path.clone(), detail: error.to_string() }),
    }
}

/// Removes a directory with everything below it.
fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => Ok(other.map_err(io_error("remove", path))?),
    }
}

fn store(state: &Path) -> PathBuf {
    state.join("store")
}

fn notes_path(state: &Path) -> PathBuf {
    state.join("encrypting.json")
}

fn new_store(state: &Path) -> PathBuf {
    state.join("store.new")
}

fn plain_store(state: &Path) -> PathBuf {
    state.join("store.plain")
}
