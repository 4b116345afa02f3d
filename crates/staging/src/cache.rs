//! Plain images that are kept for a while, because restoring from them is quicker than from the store.
//!
//! An entry is a directory, named after its snapshot, that was renamed to its place when it was complete; so what is in
//! place is complete, whenever we are killed. Power cuts are another matter: the bytes were never synced. Therefore the
//! cache belongs to one boot, and what an earlier one left is removed. The store has it all.
//!
//! Which entries there are is kept in memory. When an entry was last used is also the time of its directory, for the next
//! daemon.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use base::io_error;
use cas_core::ObjectId;

use super::room::Medium;
use crate::error::Result;

/// The file that says of which boot the cache is.
const BOOT: &str = ".boot";

/// Which images are kept, where, and who uses them.
#[derive(Debug)]
pub(super) struct Cache {
    limit: u64,
    entries: Mutex<HashMap<String, Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    path: PathBuf,
    medium: Medium,
    bytes: u64,
    used: SystemTime,
    /// How many restores read it now.
    pins: usize,
    /// It goes when the last of them is done.
    doomed: bool,
}

impl Cache {
    /// An empty cache of at most so many bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what an earlier daemon of this boot left in `directory`; everything else there is removed.
    pub(super) fn load(&self, directory: &Path, medium: Medium, boot: &str) -> Result<()> {
        let mark = directory.join(BOOT);
        let ours = fs::read_to_string(&mark).is_ok_and(|found| found == boot);
        for entry in fs::read_dir(directory).map_err(io_error("list", directory))? {
            let entry = entry.map_err(io_error("list", directory))?;
            let path = entry.path();
            let name = entry.file_name().into_string().ok().filter(|name| name.parse::<ObjectId>().is_ok());
            let size = name.as_ref().filter(|_| ours).and_then(|_| size_of(&path).ok());
            match (name, size) {
                (Some(name), Some(bytes)) => {
                    let modified = entry.metadata().and_then(|metadata| metadata.modified());
                    let used = modified.unwrap_or(SystemTime::UNIX_EPOCH);
                    let entry = Entry { path, medium, bytes, used, pins: 0, doomed: false };
                    self.entries().insert(name, entry);
                }
                _ if path == mark => {}
                _ => remove(&path).map_err(io_error("remove", &path))?,
            }
        }
        // Last: until it is written, all of this is done again.
        if !ours {
            fs::write(&mark, boot).map_err(io_error("write", mark))?;
        }
        Ok(())
    }

    /// Puts the images in `from` into `directory`, under the name `key`. `false` if they cannot be kept; they are where
    /// they were then. Entries that had to go are moved to names that `trash` gives, and returned to be removed.
    pub(super) fn put(
        &self,
        key: &str,
        from: &Path,
        directory: &Path,
        medium: Medium,
        trash: &dyn Fn(Medium) -> io::Result<PathBuf>,
    ) -> (bool, Vec<PathBuf>) {
        let Ok(bytes) = size_of(from) else { return (false, Vec::new()) };
        let mut entries = self.entries();
        if bytes > self.limit || entries.contains_key(key) {
            return (false, Vec::new());
        }
        let gone = evict(&mut entries, None, trash, |left| left + bytes <= self.limit);
        let path = directory.join(key);
        let fits = total(&entries, None) + bytes <= self.limit;
        if !fits || fs::rename(from, &path).is_err() {
            return (false, gone);
        }
        let entry = Entry { path, medium, bytes, used: SystemTime::now(), pins: 0, doomed: false };
        entries.insert(key.to_owned(), entry);
        (true, gone)
    }

    /// Where the images of `key` are; they stay there until [`Cache::unpin`].
    pub(super) fn pin(&self, key: &str) -> Option<PathBuf> {
        let mut entries = self.entries();
        let entry = entries.get_mut(key).filter(|entry| !entry.doomed)?;
        entry.pins += 1;
        entry.used = SystemTime::now();
        // For the next daemon's order of things; without it that is only a little less good.
        let _ = File::open(&entry.path).and_then(|directory| directory.set_modified(entry.used));
        Some(entry.path.clone())
    }

    /// Somebody is done with an entry. Returns what is to be removed.
    pub(super) fn unpin(&self, key: &str, trash: &dyn Fn(Medium) -> io::Result<PathBuf>) -> Option<PathBuf> {
        let mut entries = self.entries();
        let entry = entries.get_mut(key)?;
        entry.pins = entry.pins.saturating_sub(1);
        if entry.doomed { take(&mut entries, key, trash) } else { None }
    }

    /// Forgets an entry, as soon as nobody uses it. Returns what is to be removed.
    pub(super) fn forget(&self, key: &str, trash: &dyn Fn(Medium) -> io::Result<PathBuf>) -> Option<PathBuf> {
        let mut entries = self.entries();
        entries.get_mut(key)?.doomed = true;
        take(&mut entries, key, trash)
    }

    /// Gives up entries on one medium, those not used for longest first, until `bytes` are free or none is left that may go.
    pub(super) fn make_room(
        &self,
        medium: Medium,
        bytes: u64,
        trash: &dyn Fn(Medium) -> io::Result<PathBuf>,
    ) -> Vec<PathBuf> {
        let mut entries = self.entries();
        let before = total(&entries, Some(medium));
        evict(&mut entries, Some(medium), trash, |left| before - left >= bytes)
    }

    /// Bytes of all entries.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        total(&self.entries(), None)
    }
}

fn total(entries: &HashMap<String, Entry>, medium: Option<Medium>) -> u64 {
    let counts = |entry: &&Entry| medium.is_none_or(|medium| entry.medium == medium);
    entries.values().filter(counts).map(|entry| entry.bytes).sum()
}

/// Takes entries out until `enough` says so of the bytes that are left.
fn evict(
    entries: &mut HashMap<String, Entry>,
    medium: Option<Medium>,
    trash: &dyn Fn(Medium) -> io::Result<PathBuf>,
    enough: impl Fn(u64) -> bool,
) -> Vec<PathBuf> {
    let mut gone = Vec::new();
    while !enough(total(entries, medium)) {
        let may_go = |entry: &Entry| entry.pins == 0 && medium.is_none_or(|medium| entry.medium == medium);
        let oldest = entries.iter().filter(|(_, entry)| may_go(entry)).min_by_key(|(_, entry)| entry.used);
        let Some(key) = oldest.map(|(key, _)| key.clone()) else { break };
        match take(entries, &key, trash) {
            Some(path) => gone.push(path),
            None => break,
        }
    }
    gone
}

/// Takes an entry that nobody uses out of the cache, by renaming it.
fn take(
    entries: &mut HashMap<String, Entry>,
    key: &str,
    trash: &dyn Fn(Medium) -> io::Result<PathBuf>,
) -> Option<PathBuf> {
    let entry = entries.get(key).filter(|entry| entry.pins == 0)?;
    let target = trash(entry.medium).ok()?;
    fs::rename(&entry.path, &target).ok()?;
    entries.remove(key);
    Some(target)
}

/// Bytes that the files in a directory take up: holes do not count, nor does what a file system sets aside for growth.
fn size_of(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let metadata = entry?.metadata()?;
        bytes += metadata.len().next_multiple_of(4096).min(metadata.blocks() * 512);
    }
    Ok(bytes)
}

/// Removes a directory of images or a file; that it is not there is fine.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
