//! Helpers for this crate's own tests.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::crypto::{KdfCost, Unlock};
use crate::id::PackId;
use crate::memory::{MapRoot, PAGE, PageSink, PageSource, Region};
use crate::progress::Silent;
use crate::refs::{Expected, RefChange};
use crate::{Encryption, ObjectId, OpenOptions, Store};

/// A store in a directory that goes with it.
pub(crate) struct TestStore {
    pub(crate) store: Arc<Store>,
    pub(crate) root: PathBuf,
    _directory: tempfile::TempDir,
}

/// In memory where there is such a file system, because most of a test's time would go into syncing. Nothing here can cut
/// the power, so nothing is lost by it. `TMPDIR` has the last word.
fn directory() -> tempfile::TempDir {
    let shared = Path::new("/dev/shm");
    if std::env::var_os("TMPDIR").is_none() && shared.is_dir() {
        return tempfile::tempdir_in(shared).unwrap();
    }
    tempfile::tempdir().unwrap()
}

pub(crate) fn passphrase(text: &str) -> Unlock {
    Unlock::Passphrase(text.to_owned().into())
}

pub(crate) fn encryption(text: &str) -> Encryption {
    Encryption { unlocks: vec![passphrase(text)], cost: KdfCost::for_tests() }
}

impl TestStore {
    pub(crate) fn plain() -> Self {
        Self::create(None, OpenOptions::default())
    }

    pub(crate) fn encrypted() -> Self {
        Self::create(Some(encryption("correct horse")), OpenOptions::default())
    }

    pub(crate) fn create(encryption: Option<Encryption>, options: OpenOptions) -> Self {
        let directory = directory();
        let root = directory.path().join(".infinijup");
        let store = Store::init(&root, encryption.as_ref(), options).unwrap();
        Self { store, root, _directory: directory }
    }

    /// Another handle, as another process would have it. `text` is the passphrase, if the store wants one.
    pub(crate) fn open(&self, text: &str) -> crate::Result<Arc<Store>> {
        let unlock = self.store.format.encrypted.then(|| passphrase(text));
        Store::open(&self.root, OpenOptions { unlock, ..OpenOptions::default() })
    }

    /// Closes the store; its directory stays as long as what is returned.
    pub(crate) fn close(self) -> (PathBuf, tempfile::TempDir) {
        (self.root, self._directory)
    }

    /// The same directory through another handle.
    pub(crate) fn with(self, store: Arc<Store>) -> Self {
        Self { store, ..self }
    }

    /// Stores an address space and commits it under `name`.
    pub(crate) fn commit(&self, memory: &Memory, parent: Option<&MapRoot>, name: &str) -> MapRoot {
        let transaction = self.store.write(&[]).unwrap();
        let (root, _) = transaction.put_memory(&memory.source(), parent, &Silent).unwrap();
        transaction.commit(&[point(name, root.id)]).unwrap();
        root
    }

    pub(crate) fn read(&self, root: &MapRoot) -> Memory {
        read_memory(&self.store, root).unwrap()
    }

    /// Every pack's path.
    pub(crate) fn packs(&self) -> Vec<PathBuf> {
        let packs = self.store.packs.list().unwrap();
        packs.iter().map(|pack| self.store.layout.pack(pack)).collect()
    }

    /// Puts bytes where a pack would be.
    pub(crate) fn put_stray(&self, pack: &PackId, bytes: &[u8]) -> PathBuf {
        let path = self.store.layout.pack(pack);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Turns one bit in the middle of the largest pack, which is where the data is.
    pub(crate) fn damage_the_data(&self) {
        let size = |path: &PathBuf| std::fs::metadata(path).unwrap().len();
        let pack = self.packs().into_iter().max_by_key(size).unwrap();
        let mut bytes = std::fs::read(&pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&pack, bytes).unwrap();
    }
}

/// Reads a whole address space.
pub(crate) fn read_memory(store: &Store, root: &MapRoot) -> crate::Result<Memory> {
    let sink = Collector::default();
    store.read_memory(root, &sink, &Silent)?;
    Ok(Memory { pages: sink.0.into_inner().unwrap() })
}

/// Reads what lies in `regions`.
pub(crate) fn read_memory_in(store: &Store, root: &MapRoot, regions: &[Region]) -> crate::Result<Memory> {
    let sink = Collector::default();
    store.read_memory_in(root, regions, &sink, &Silent)?;
    Ok(Memory { pages: sink.0.into_inner().unwrap() })
}

pub(crate) fn point(name: &str, id: ObjectId) -> RefChange {
    RefChange { name: format!("threads/{name}"), expected: Expected::Any, new: Some(id) }
}

pub(crate) fn remove(name: &str) -> RefChange {
    RefChange { name: format!("threads/{name}"), expected: Expected::Any, new: None }
}

/// Reproducible noise.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

/// An address space as a table of pages: the model that the store is held against.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Memory {
    pub(crate) pages: BTreeMap<u64, Vec<u8>>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} pages)", self.pages.len())
    }
}

impl Memory {
    /// `count` pages of noise from `address` on.
    pub(crate) fn fill(&mut self, address: u64, count: usize, seed: u64) {
        for n in 0..count {
            let at = address + (n * PAGE) as u64;
            self.pages.insert(at, noise(seed.wrapping_mul(1 << 20) + at, PAGE));
        }
    }

    pub(crate) fn zero(&mut self, address: u64, count: usize) {
        for n in 0..count {
            self.pages.insert(address + (n * PAGE) as u64, vec![0; PAGE]);
        }
    }

    /// Changes a few bytes of a page that is there.
    pub(crate) fn touch(&mut self, address: u64, value: u64) {
        let page = self.pages.get_mut(&address).unwrap();
        page[100..108].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn source(&self) -> Arc<dyn PageSource> {
        Arc::new(self.clone())
    }
}

impl PageSource for Memory {
    fn regions(&self) -> Vec<Region> {
        let mut regions: Vec<Region> = Vec::new();
        for address in self.pages.keys() {
            match regions.last_mut() {
                Some(last) if last.start + last.len == *address => last.len += PAGE as u64,
                _ => regions.push(Region { start: *address, len: PAGE as u64 }),
            }
        }
        regions
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        for (n, page) in buffer.chunks_mut(PAGE).enumerate() {
            let at = address + (n * PAGE) as u64;
            page.copy_from_slice(self.pages.get(&at).ok_or(io::ErrorKind::NotFound)?);
        }
        Ok(())
    }
}

#[derive(Default)]
struct Collector(Mutex<BTreeMap<u64, Vec<u8>>>);

impl PageSink for Collector {
    fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let mut pages = self.0.lock().unwrap();
        for (n, page) in bytes.chunks(PAGE).enumerate() {
            pages.insert(address + (n * PAGE) as u64, page.to_vec());
        }
        Ok(())
    }

    fn zeros(&self, address: u64, len: u64) -> io::Result<()> {
        for n in 0..len / PAGE as u64 {
            self.pages(address + n * PAGE as u64, &[0; PAGE])?;
        }
        Ok(())
    }
}
