//! A snapshot as the layers above the store make one: an object of kind 40 that lists a memory, a file and perhaps a
//! parent, and a ref that points at it.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cas_core::blob::Blob;
use cas_core::memory::{MapRoot, PAGE, PageSink, PageSource};
use cas_core::progress::Silent;
use cas_core::reach::{Reference, References};
use cas_core::refs::{Expected, RefChange};
use cas_core::{Kind, ObjectId, Result, Store, StoreError};

use crate::model::Model;

/// The kind of a snapshot's object.
pub const KIND: Kind = Kind(40);

/// What a snapshot's object says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// What must be in it.
    pub model: Model,
    /// The memory that is in it.
    pub memory: MapRoot,
    /// The file that is in it.
    pub file: Blob,
    /// The snapshot before it, which is kept as long as this one is.
    pub parent: Option<ObjectId>,
}

impl Snapshot {
    /// The bytes of the object. Ids are text, as in every kind above the store's own.
    pub fn encode(&self) -> Vec<u8> {
        let Model { line, generation, pages } = self.model;
        let parent = self.parent.map_or_else(|| "-".to_owned(), |id| id.to_string());
        format!(
            "torture {line} {generation} {pages} {} {} {} {} {} {parent}",
            self.memory.id, self.memory.pages, self.file.id, self.file.kind.0, self.file.len
        )
        .into_bytes()
    }

    /// Reads the object. `Err` is a sentence.
    pub fn parse(content: &[u8]) -> Result<Self, String> {
        fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
            word.parse().map_err(|_| format!("`{word}` does not belong into a snapshot"))
        }
        let text = std::str::from_utf8(content).map_err(|_| "is not text")?;
        let words: Vec<&str> = text.split(' ').collect();
        let ["torture", line, generation, pages, memory, present, file, kind, len, parent] = words[..] else {
            return Err("is not a snapshot".to_owned());
        };
        Ok(Self {
            model: Model { line: number(line)?, generation: number(generation)?, pages: number(pages)? },
            memory: MapRoot { id: number(memory)?, pages: number(present)? },
            file: Blob { id: number(file)?, kind: Kind(number(kind)?), len: number(len)? },
            parent: if parent == "-" { None } else { Some(number(parent)?) },
        })
    }
}

/// Knows what snapshots refer to.
#[derive(Clone, Copy, Debug)]
pub struct Snapshots;

impl References for Snapshots {
    fn references(&self, kind: Kind, content: &[u8]) -> Result<Vec<Reference>, String> {
        if kind != KIND {
            return Err(format!("is of kind {}, which nobody wrote", kind.0));
        }
        let snapshot = Snapshot::parse(content)?;
        let mut references = vec![
            Reference::strong(Kind::MAP_NODE, snapshot.memory.id),
            Reference::strong(snapshot.file.kind, snapshot.file.id),
        ];
        references.extend(snapshot.parent.map(|id| Reference::strong(KIND, id)));
        Ok(references)
    }
}

/// How a snapshot builds upon the one before.
#[derive(Clone, Copy, Debug)]
pub enum Parent {
    /// Not at all: every page is looked at and stored.
    None,
    /// Its memory is shared, but it is not kept.
    Share(ObjectId),
    /// Its memory is shared and it is kept.
    Keep(ObjectId),
}

/// Stores what `model` says and commits it; `changes` says to which refs.
pub fn write(
    store: &Arc<Store>,
    model: Model,
    parent: Parent,
    changes: impl FnOnce(ObjectId) -> Vec<RefChange>,
) -> Result<ObjectId> {
    let (before, keep) = match parent {
        Parent::None => (None, None),
        Parent::Share(id) => (Some(id), None),
        Parent::Keep(id) => (Some(id), Some(id)),
    };
    let transaction = store.write(before.as_slice())?;
    let before = before.map(|id| load(store, &id)).transpose()?;
    let source: Arc<dyn PageSource> = Arc::new(model);
    let (memory, _) =
        transaction.put_memory(&source, before.as_ref().map(|before| &before.memory), &Silent)?;
    let file = transaction.put_blob(&mut model.file().as_slice(), &Silent)?;
    let id = transaction.put(KIND, Snapshot { model, memory, file, parent: keep }.encode())?;
    transaction.commit(&changes(id))?;
    Ok(id)
}

/// A change that sets a ref, whatever it was.
pub fn set(name: &str, id: ObjectId) -> RefChange {
    RefChange { name: name.to_owned(), expected: Expected::Any, new: Some(id) }
}

/// Reads a snapshot's object.
pub fn load(store: &Store, id: &ObjectId) -> Result<Snapshot> {
    let content = store.get(KIND, id)?;
    Snapshot::parse(&content).map_err(|detail| StoreError::Malformed { id: *id, detail })
}

/// Why a snapshot did not read back.
#[derive(Debug)]
pub enum Failure {
    /// The store said so.
    Refused(StoreError),
    /// The store said that all is well, and gave something else than was stored. The worst that can happen.
    Wrong(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "refused: {error}"),
            Self::Wrong(detail) => write!(f, "WRONG BYTES: {detail}"),
        }
    }
}

/// Reads memory and file, and compares them with `model`.
pub fn read_back(store: &Store, id: &ObjectId, model: &Model) -> Result<Snapshot, Failure> {
    let snapshot = load(store, id)?;
    if snapshot.model != *model {
        return Err(Failure::Wrong(format!("{:?} where {model:?} should be", snapshot.model)));
    }
    let comparison = Comparison { model: *model, pages: AtomicU64::new(0), wrong: Mutex::default() };
    store.read_memory(&snapshot.memory, &comparison, &Silent)?;
    if let Some(wrong) = comparison.wrong.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(Failure::Wrong(wrong));
    }
    let (seen, present) = (comparison.pages.into_inner(), model.present());
    if seen != present {
        return Err(Failure::Wrong(format!("{seen} pages instead of {present}")));
    }
    let mut file = Vec::new();
    store.read_blob(&snapshot.file, &mut file, &Silent)?;
    if file != model.file() {
        return Err(Failure::Wrong("another file".to_owned()));
    }
    Ok(snapshot)
}

/// Takes memory that is read and compares it with what it must be.
struct Comparison {
    model: Model,
    pages: AtomicU64,
    wrong: Mutex<Option<String>>,
}

impl Comparison {
    fn compare(&self, address: u64, found: &[u8]) {
        let mut expected = [0; PAGE];
        self.pages.fetch_add(1, Ordering::Relaxed);
        if !self.model.page(address, &mut expected) || expected != found {
            let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
            wrong.get_or_insert_with(|| format!("another page at {address:#x}"));
        }
    }
}

impl PageSink for Comparison {
    fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        for (address, page) in (address..).step_by(PAGE).zip(bytes.chunks(PAGE)) {
            self.compare(address, page);
        }
        Ok(())
    }

    fn zeros(&self, address: u64, len: u64) -> io::Result<()> {
        for address in (address..address + len).step_by(PAGE) {
            self.compare(address, &[0; PAGE]);
        }
        Ok(())
    }
}
