//! Tests of the store as a whole: what is promised to writers and readers, and what is left after every sort of accident.
//!
//! A [`Snapshot`] stands for what the layers above store: an opaque object (a [`NOTE`]) that refers to memory, to a
//! file and to its parent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::blob::Blob;
use crate::catalogue::PackClass;
use crate::gc::{GcOptions, GcReport};
use crate::memory::MapRoot;
use crate::pack::PackReader;
use crate::packs::PackBytes;
use crate::progress::Silent;
use crate::reach::{Reference, References};
use crate::testing::{Memory, TestStore, noise, point, read_memory};
use crate::verify::{Depth, VerifyReport};
use crate::{Kind, ObjectId, Result, Store, WriteTransaction};

mod archive;
mod faults;
mod faulty_disk;
mod gc;
mod keys;
mod let_go;
mod local_packs;
mod other_packs;
mod read_faults;
mod rebuild;
mod transaction;
mod verify;

/// A kind of the layers above. Its content is a line of text, then a line `kind id strong|weak` for each reference.
const NOTE: Kind = Kind(40);

fn note(text: &str, below: &[Reference]) -> Vec<u8> {
    let mut out = format!("{text}\n");
    for Reference { id, kind, weak } in below {
        out += &format!("{} {id} {}\n", kind.0, if *weak { "weak" } else { "strong" });
    }
    out.into_bytes()
}

fn weak(kind: Kind, id: ObjectId) -> Reference {
    Reference { id, kind, weak: true }
}

/// Knows what notes refer to.
struct Notes;

impl References for Notes {
    fn references(&self, kind: Kind, content: &[u8]) -> Result<Vec<Reference>, String> {
        if kind != NOTE {
            return Err(format!("{kind:?} is no note"));
        }
        let text = std::str::from_utf8(content).map_err(|_| "is not text")?;
        let line = |line: &str| {
            let mut words = line.split(' ');
            let kind = Kind(words.next()?.parse().ok()?);
            let id = words.next()?.parse().ok()?;
            Some(Reference { id, kind, weak: words.next()? == "weak" })
        };
        text.lines().skip(1).map(|text| line(text).ok_or_else(|| format!("has the line `{text}`"))).collect()
    }
}

/// What was stored, and what it must read back as.
#[derive(Clone)]
struct Snapshot {
    id: ObjectId,
    text: Vec<u8>,
    map: MapRoot,
    memory: Memory,
    blob: Blob,
    file: Vec<u8>,
}

impl Snapshot {
    /// Puts a snapshot whose content depends on `seed`.
    fn put(transaction: &WriteTransaction, seed: u64, parent: Option<&Self>) -> Result<Self> {
        let mut memory = Memory::default();
        memory.fill(0x7000_0000_0000, 24, seed);
        memory.zero(0x7000_0010_0000, 3);
        let snapshot = Self::put_content(transaction, memory, noise(seed, 300_000), parent)?;
        assert_eq!(snapshot.blob.kind, Kind::CHUNK_LIST, "a file of one chunk would leave lists untested");
        Ok(snapshot)
    }

    fn put_content(
        transaction: &WriteTransaction,
        memory: Memory,
        file: Vec<u8>,
        parent: Option<&Self>,
    ) -> Result<Self> {
        let (map, _) = transaction.put_memory(&memory.source(), parent.map(|parent| &parent.map), &Silent)?;
        let blob = transaction.put_blob(&mut &file[..], &Silent)?;
        let mut below =
            vec![Reference::strong(Kind::MAP_NODE, map.id), Reference::strong(blob.kind, blob.id)];
        below.extend(parent.map(|parent| weak(NOTE, parent.id)));
        let text = note("a snapshot", &below);
        let id = transaction.put(NOTE, text.clone())?;
        Ok(Self { id, text, map, memory, blob, file })
    }

    /// Puts and commits.
    fn take(store: &Arc<Store>, seed: u64, name: &str) -> Self {
        Self::try_take(store, seed, name).unwrap()
    }

    fn try_take(store: &Arc<Store>, seed: u64, name: &str) -> Result<Self> {
        let transaction = store.write(&[])?;
        let snapshot = Self::put(&transaction, seed, None)?;
        transaction.commit(&[point(name, snapshot.id)])?;
        Ok(snapshot)
    }

    /// Reads all of it and compares.
    #[track_caller]
    fn check(&self, store: &Store) {
        self.read(store).unwrap();
    }

    fn read(&self, store: &Store) -> Result<()> {
        assert!(store.get(NOTE, &self.id)? == self.text);
        assert_eq!(read_memory(store, &self.map)?, self.memory);
        let mut file = Vec::new();
        store.read_blob(&self.blob, &mut file, &Silent)?;
        assert!(file == self.file);
        Ok(())
    }
}

/// Options that never wait for anybody.
fn at_once() -> GcOptions {
    GcOptions { patience: Duration::ZERO, ..GcOptions::default() }
}

#[track_caller]
fn collect(store: &Arc<Store>) -> GcReport {
    store.gc(&Notes, &at_once(), &Silent).unwrap()
}

#[track_caller]
fn verify(store: &Store, depth: Depth) -> VerifyReport {
    store.verify(&Notes, depth, &Silent).unwrap()
}

#[track_caller]
fn assert_clean(store: &Store) {
    for depth in [Depth::Structure, Depth::Bytes] {
        let report = verify(store, depth);
        assert!(report.is_clean(), "{:?}", report.problems);
        assert!(report.affected_refs.is_empty());
    }
}

/// Every file below a directory of the store, with its content.
fn files(test: &TestStore, directory: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(directory: &Path, out: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, out);
            } else {
                out.insert(path.clone(), std::fs::read(path).unwrap());
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(&test.root.join(directory), &mut out);
    out
}

/// Names of transaction locks that are there.
fn transaction_locks(test: &TestStore) -> Vec<String> {
    let names = std::fs::read_dir(test.root.join("locks")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("session-")).collect()
}

/// Nothing of any transaction is left but its packs.
#[track_caller]
fn assert_no_transactions(test: &TestStore) {
    assert!(files(test, "objects/tmp").is_empty());
    assert!(transaction_locks(test).is_empty());
    assert!(test.store.catalogue.open_writes().unwrap().is_empty());
    assert!(test.store.catalogue.announced().unwrap().is_empty());
}

/// The packs of one class.
fn packs_of(test: &TestStore, class: PackClass) -> Vec<PathBuf> {
    let is = |path: &PathBuf| open_pack(path).header().class == class;
    test.packs().into_iter().filter(is).collect()
}

fn open_pack(path: &Path) -> PackReader {
    PackReader::new(PackBytes::of_file(path).unwrap()).unwrap()
}

/// Changes one bit.
fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}
