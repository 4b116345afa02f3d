//! Blocks of packs that were read: the last few in memory, more of them in files, of both those that were used last.
//!
//! The files lie in a directory of the store that may be deleted at any time, and are as the remote sent them: sealed, if the store is. One
//! program at a time has the directory; another that reads meanwhile has its few blocks in memory. A file that cannot be written, on a full disk
//! for one, is not kept, and that is all.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::{BLOCK, BlockKey};
use crate::error::Result;

/// So many blocks are in memory.
const IN_MEMORY: usize = 32;
/// Until nobody has asked for one for so long.
const LET_GO_AFTER: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    limit: u64,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Counts uses.
    clock: u64,
    memory: HashMap<BlockKey, (Arc<Vec<u8>>, u64)>,
    /// Whether somebody will let go of what is in memory.
    watched: bool,
    /// Those that somebody is fetching.
    under_way: HashSet<BlockKey>,
    files: Files,
}

/// The blocks in files. Another program may have them, until it ends.
#[derive(Debug, Default)]
enum Files {
    #[default]
    NotOurs,
    Ours {
        _lock: File,
        blocks: HashMap<BlockKey, (u64, u64)>,
        bytes: u64,
    },
}

impl Cache {
    pub(crate) fn new(directory: PathBuf, limit: u64) -> Self {
        Self { directory, limit, state: Mutex::default(), arrived: Condvar::new() }
    }

    /// A block: from here, or else as `fetch` gets it. Two who want the same one at a time get it by one request.
    pub(crate) fn block(
        self: &Arc<Self>,
        key: BlockKey,
        fetch: &dyn Fn() -> Result<Vec<u8>>,
    ) -> Result<Arc<Vec<u8>>> {
        let mut state = self.state();
        loop {
            state.clock += 1;
            let now = state.clock;
            if let Some((block, used)) = state.memory.get_mut(&key) {
                *used = now;
                return Ok(Arc::clone(block));
            }
            if state.under_way.insert(key) {
                break;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.open(&self.directory, self.limit);
        let in_file = state.files.has(&key);
        drop(state);
        let _under_way = UnderWay { cache: self, key };
        let kept = if in_file { read(&self.path(&key)) } else { None };
        let from_file = kept.is_some();
        let block = Arc::new(kept.map_or_else(fetch, Ok)?);
        if !from_file {
            self.keep(key, &block);
        }
        let mut state = self.state();
        state.clock += 1;
        let now = state.clock;
        state.files.touch(&key, now);
        state.memory.insert(key, (Arc::clone(&block), now));
        while state.memory.len() > IN_MEMORY {
            let oldest = state.memory.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
            oldest.map(|oldest| state.memory.remove(&oldest));
        }
        if !state.watched {
            let cache = Arc::downgrade(self);
            let watch = std::thread::Builder::new().name("remote-cache".to_owned());
            state.watched = watch.spawn(move || let_go(&cache)).is_ok();
        }
        Ok(block)
    }

    /// A block that is not what it should be.
    pub(crate) fn forget(&self, key: &BlockKey) {
        let mut state = self.state();
        state.memory.remove(key);
        if state.files.remove(key) {
            let _gone = fs::remove_file(self.path(key));
        }
    }

    /// Writes a block to a file, for which others go. Room is made first, so that no moment sees more than the limit.
    fn keep(&self, key: BlockKey, block: &[u8]) {
        let size = block.len() as u64;
        let mut state = self.state();
        let Some(oldest) = state.files.make_room(size, self.limit) else { return };
        for old in oldest {
            let _gone = fs::remove_file(self.path(&old));
        }
        let now = state.clock;
        state.files.add(key, size, now);
        drop(state);
        if write(&self.path(&key), block).is_err() {
            let _half = fs::remove_file(self.path(&key));
            self.state().files.remove(&key);
        }
    }

    fn path(&self, key: &BlockKey) -> PathBuf {
        self.directory.join(format!("{}-{}", key.pack, key.number))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Empties the memory when nobody has asked for a block for a while.
fn let_go(cache: &Weak<Cache>) {
    let mut before = None;
    while let Some(cache) = cache.upgrade() {
        let mut state = cache.state();
        if before == Some(state.clock) {
            (state.memory, state.watched) = (HashMap::new(), false);
            return;
        }
        before = Some(state.clock);
        drop(state);
        drop(cache);
        std::thread::sleep(LET_GO_AFTER);
    }
}

/// Others may try, whatever became of it.
struct UnderWay<'a> {
    cache: &'a Cache,
    key: BlockKey,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.cache.state().under_way.remove(&self.key);
        self.cache.arrived.notify_all();
    }
}

impl State {
    fn open(&mut self, directory: &Path, limit: u64) {
        if matches!(self.files, Files::NotOurs) {
            self.files = Files::open(directory).unwrap_or(Files::NotOurs);
            // The limit may have been larger.
            for old in self.files.make_room(0, limit).unwrap_or_default() {
                let _gone = fs::remove_file(directory.join(format!("{}-{}", old.pack, old.number)));
            }
        }
    }
}

impl Files {
    /// Takes the directory, if nobody has it. What is no block of ours is removed: it would take room that nobody counts.
    fn open(directory: &Path) -> std::io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let lock =
            File::options().create(true).append(true).mode(0o600).open(directory.with_extension("lock"))?;
        if lock.try_lock().is_err() {
            return Ok(Self::NotOurs);
        }
        let (mut blocks, mut bytes) = (HashMap::new(), 0);
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (facts, name) = (entry.metadata()?, entry.file_name());
            match name.to_str().and_then(parse).filter(|_| facts.is_file() && facts.len() <= BLOCK) {
                Some(key) => {
                    bytes += facts.len();
                    // All are older than whatever is used from now on.
                    blocks.insert(key, (facts.len(), 0));
                }
                None => fs::remove_file(entry.path())?,
            }
        }
        Ok(Self::Ours { _lock: lock, blocks, bytes })
    }

    fn has(&self, key: &BlockKey) -> bool {
        matches!(self, Self::Ours { blocks, .. } if blocks.contains_key(key))
    }

    fn touch(&mut self, key: &BlockKey, now: u64) {
        if let Self::Ours { blocks, .. } = self
            && let Some((_, used)) = blocks.get_mut(key)
        {
            *used = now;
        }
    }

    fn add(&mut self, key: BlockKey, size: u64, now: u64) {
        if let Self::Ours { blocks, bytes, .. } = self {
            *bytes += size;
            if let Some((old, _)) = blocks.insert(key, (size, now)) {
                *bytes -= old;
            }
        }
    }

    fn remove(&mut self, key: &BlockKey) -> bool {
        let Self::Ours { blocks, bytes, .. } = self else { return false };
        let gone = blocks.remove(key);
        *bytes -= gone.map_or(0, |(size, _)| size);
        gone.is_some()
    }

    /// Which blocks go, so that `size` bytes more fit. `None`: nothing can be kept.
    fn make_room(&mut self, size: u64, limit: u64) -> Option<Vec<BlockKey>> {
        let Self::Ours { blocks, bytes, .. } = self else { return None };
        if size > limit {
            return None;
        }
        let mut gone = Vec::new();
        while *bytes + size > limit {
            let oldest =
                blocks.iter().min_by_key(|(_, (_, used))| *used).map(|(key, (size, _))| (*key, *size))?;
            blocks.remove(&oldest.0);
            *bytes -= oldest.1;
            gone.push(oldest.0);
        }
        Some(gone)
    }
}

fn parse(name: &str) -> Option<BlockKey> {
    let (pack, number) = name.split_once('-')?;
    let key = BlockKey { pack: pack.parse().ok()?, number: number.parse().ok()? };
    Some(key).filter(|key| format!("{}-{}", key.pack, key.number) == name)
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // Somebody else's file of this name is not read to its end.
    File::open(path).ok()?.take(BLOCK).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn write(path: &Path, block: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    File::options().create(true).write(true).truncate(true).mode(0o600).open(path)?.write_all(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RemoteError;
    use crate::token::Token;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn key(number: u32) -> BlockKey {
        BlockKey { pack: Token::from_bytes([7; 16]), number }
    }

    fn taken(directory: &Path) -> u64 {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn no_more_is_kept_than_the_limit_and_what_was_used_last_stays() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("remote");
        let cache = Arc::new(Cache::new(place.clone(), 5000));
        let fetches = AtomicU32::new(0);
        let get = |cache: &Arc<Cache>, number| {
            let block = cache.block(key(number), &|| {
                fetches.fetch_add(1, Ordering::Relaxed);
                Ok(vec![u8::try_from(number % 250).unwrap(); 1000])
            });
            assert_eq!(block.unwrap()[999], u8::try_from(number % 250).unwrap());
        };
        for number in 0..100 {
            get(&cache, number);
            assert!(taken(&place) <= 5000);
        }
        assert_eq!(fetches.load(Ordering::Relaxed), 100);
        // The last 32 are in memory.
        get(&cache, 99);
        assert_eq!(fetches.load(Ordering::Relaxed), 100);
        // A second program has the few in memory, and does not touch the files.
        let second = Arc::new(Cache::new(place.clone(), 5000));
        get(&second, 99);
        assert_eq!((fetches.load(Ordering::Relaxed), taken(&place)), (101, 5000));
        drop((cache, second));
        // After a restart files are found, those that are none of ours go, and a smaller limit is kept to.
        fs::write(place.join("what is this"), [0; 9000]).unwrap();
        let after = Arc::new(Cache::new(place.clone(), 2000));
        get(&after, 500);
        assert!(taken(&place) <= 2000);
    }

    #[test]
    fn two_who_want_the_same_block_get_it_by_one_request_and_an_error_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Arc::new(Cache::new(dir.path().join("remote"), 1 << 20));
        let fetches = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let got = cache.block(key(1), &|| {
                        fetches.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(50));
                        Ok(vec![1; 10])
                    });
                    assert_eq!(*got.unwrap(), [1; 10]);
                });
            }
        });
        assert_eq!(fetches.load(Ordering::Relaxed), 1);
        cache.block(key(2), &|| Err(RemoteError::NotARemote)).unwrap_err();
        assert_eq!(*cache.block(key(2), &|| Ok(vec![2; 10])).unwrap(), [2; 10]);
        cache.forget(&key(2));
        assert_eq!(*cache.block(key(2), &|| Ok(vec![3; 10])).unwrap(), [3; 10]);
    }
}
