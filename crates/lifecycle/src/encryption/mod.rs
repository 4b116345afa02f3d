//! A store that was plain becomes an encrypted one.
//!
//! Ids in an encrypted store are computed with a secret, so every object gets another id, and everything that names a commit has to
//! follow: refs, records of sessions, seals. It is done while no daemon runs, and in an order in which being killed costs nothing:
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

mod key;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cas_core::crypto::KdfCost;
use cas_core::layout::{Format, Layout};
use cas_core::progress::Progress;
use cas_core::refs::{Expected, RefChange};
use cas_core::verify::Depth;
use cas_core::{Encryption, ObjectId, OpenOptions, Store, StoreError, Trust};
pub(crate) use key::StoreKey;
use manifest::COMMIT;
use manifest::history::Grafts;
use manifest::stored::ManifestReferences;
use serde::{Deserialize, Serialize};
use staging::disk_free;

use crate::bounded;
use crate::engine::read_records;
use crate::error::{LifecycleError, Result, io_error};
use crate::history::{unread, unsaved};
use crate::journal::Journal;
use crate::place::{Place, make};
use crate::record::write_json;
use crate::seal::{Sealer, sync_directory};
use crate::stop::remove_if_there;

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

/// Encrypts the store below `state` with the key in `key_file`, which is made if it is not there. Only the holder of the state
/// directory's lock may call this, after [`finish`]; and [`finish`] is to be called again.
pub fn encrypt(state: &Path, key_file: &Path, progress: &dyn Progress) -> Result<Encrypted> {
    if key_file.to_str().is_none() || key_file.is_relative() {
        let detail = format!("the key's path `{}` must be absolute and UTF-8", key_file.display());
        return Err(LifecycleError::BadRequest { detail });
    }
    let place = place_of(state)?;
    let plain = match Format::read(&Layout::new(&place.store())) {
        Ok(format) if format.encrypted => return Ok(Encrypted { already: true, commits: 0 }),
        Ok(_) => {
            let options = OpenOptions { trust: Trust::Identity, ..OpenOptions::default() };
            Some(Store::open(&place.store(), options)?)
        }
        Err(StoreError::NotAStore { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let cut_short: Vec<_> = Journal::open(place.journal())?.pending()?;
    if !cut_short.is_empty() {
        let sessions = cut_short.iter().map(|(id, ..)| id.to_string()).collect();
        return Err(LifecycleError::Unfinished { sessions });
    }
    if let Some(plain) = &plain {
        let (needed, available) = (plain.catalogue().totals()?.stored, disk_free(state)?);
        if needed > available {
            return Err(LifecycleError::NoRoom { path: state.to_owned(), needed, available });
        }
    }
    let key = StoreKey::read_or_make(key_file)?;
    let commits = build(&place, plain.as_deref(), &key, progress).inspect_err(|_| {
        // What cannot be removed now, the next start removes.
        let _ = remove_if_there(&new_store(state));
    })?;
    let encrypted = Encrypted { already: false, commits: commits.len() };
    write_json(&notes_path(state), &Notes { key_file: key.path, commits })?;
    Ok(encrypted)
}

/// The encrypted store, with everything that was in the plain one, and checked. What commits are called in it.
fn build(
    place: &Place,
    plain: Option<&Store>,
    key: &StoreKey,
    progress: &dyn Progress,
) -> Result<BTreeMap<String, String>> {
    let encryption = Encryption { unlocks: vec![key.unlock.clone()], cost: KdfCost::default() };
    let new = Store::init(&new_store(&place.state), Some(&encryption), OpenOptions::default())?;
    let commits = plain.map(|plain| copy(place, plain, &new, progress)).transpose()?.unwrap_or_default();
    let report = new.verify(&ManifestReferences::default(), Depth::Bytes, progress)?;
    match report.problems.first() {
        Some(problem) => Err(StoreError::damaged("copy", new.root(), problem.sentence.clone()).into()),
        None => Ok(commits),
    }
}

/// Copies what refs and sessions name, with all it leads to. What commits are called now.
fn copy(
    place: &Place,
    plain: &Store,
    new: &Arc<Store>,
    progress: &dyn Progress,
) -> Result<BTreeMap<String, String>> {
    let mut refs = BTreeMap::new();
    for (name, id) in plain.refs().list("")? {
        refs.insert(name, id?);
    }
    // It names commits without leading to them, and is written anew.
    refs.remove(Grafts::REF);
    let mut roots: BTreeSet<ObjectId> = refs.values().copied().collect();
    for record in read_records(place)?.values_mut() {
        for id in record.commits_mut().into_iter().filter_map(|commit| commit.parse().ok()) {
            if plain.contains(&id)? {
                roots.insert(id);
            }
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
    let (grafts, there) = Grafts::load_from(plain).map_err(|error| unread(*error))?;
    if there.is_some() {
        let grafts = grafts.renamed(|id| commits.get(id).copied());
        changes.push(grafts.change(&session, None).map_err(unsaved)?);
    }
    session.commit(&changes)?;
    Ok(commits.into_iter().map(|(old, new)| (old.to_string(), new.to_string())).collect())
}

/// Finishes what [`encrypt`] had decided, or undoes what it had not. The key that the settings must name now, if it was
/// finished: once they do, [`settled`] forgets about it.
pub fn finish(state: &Path) -> Result<Option<PathBuf>> {
    let path = notes_path(state);
    let notes: Notes = match bounded::read_small(&path, NOTES_LIMIT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            remove_if_there(&new_store(state))?;
            return Ok(None);
        }
        read => serde_json::from_slice(&read.map_err(io_error("read", &path))?).map_err(|error| {
            LifecycleError::DamagedRecord { path: path.clone(), detail: error.to_string() }
        })?,
    };
    let place = place_of(state)?;
    exchange(&place)?;
    rename_in_records(&place, &notes)?;
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

fn exchange(place: &Place) -> Result<()> {
    let (state, store) = (&place.state, place.store());
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

fn rename_in_records(place: &Place, notes: &Notes) -> Result<()> {
    for (id, mut record) in read_records(place)? {
        let mut changed = false;
        for commit in record.commits_mut() {
            if let Some(new) = notes.commits.get(commit) {
                commit.clone_from(new);
                changed = true;
            }
        }
        if changed {
            record.write(&place.record(&id))?;
        }
    }
    Ok(())
}

/// What was made here before still was: the new name of a commit is sealed if the old one is.
fn rename_seals(state: &Path, notes: &Notes) -> Result<()> {
    let sealer = Sealer::open(state)?;
    for (old, new) in &notes.commits {
        match sealer.check(old) {
            Ok(()) => sealer.seal(new)?,
            Err(LifecycleError::NotSealed { .. }) => (),
            Err(error) => return Err(error),
        }
        sealer.remove(old)?;
    }
    Ok(())
}

/// Where things are, as far as sessions go.
fn place_of(state: &Path) -> Result<Place> {
    let place = Place { state: state.to_owned(), run: PathBuf::new() };
    make(&place.sessions())?;
    Ok(place)
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
