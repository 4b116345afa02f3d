//! Tests of a remote as a whole, on the in-memory store of the `object_store` crate, which keeps its word on conditional puts.
//!
//! A *note* stands for what the layers above store: an opaque object that refers to data and to the note before it.

mod collection;
mod faults;
mod faulty;
mod groups;
mod holds;
mod hostile;
mod keys;
mod rewrite;
mod through;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use cas_core::progress::Silent;
use cas_core::reach::{Reference, References};
use cas_core::refs::{Expected, RefChange};
use cas_core::{Encryption, Kind, ObjectId, OpenOptions, Store};

use crate::bucket::{ObjectStoreBucket, Objects, Patience};
use crate::error::Result;
use crate::gc::{GcOptions, GcReport};
use crate::push::{PushReport, Pushed};
use crate::remote::Remote;
use crate::verify::Depth;

const NOTE: Kind = Kind(40);

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

/// A server in memory.
pub(crate) fn server() -> Arc<dyn Objects> {
    Arc::new(ObjectStoreBucket::new(Arc::new(object_store::memory::InMemory::new()), "some/prefix").unwrap())
}

fn patience() -> Patience {
    Patience { tries: 4, pause: Duration::from_micros(50) }
}

/// A store on this machine.
struct Local {
    _dir: tempfile::TempDir,
    store: Arc<Store>,
}

impl Local {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(encryption: Option<&Encryption>) -> Self {
        // Hundreds of them are made, and what they sync is of no interest here.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let options = OpenOptions {
            threads: 1,
            unlock: encryption.map(|encryption| encryption.unlocks[0].clone()),
            ..OpenOptions::default()
        };
        let store = Store::init(&dir.path().join("s"), encryption, options).unwrap();
        Self { _dir: dir, store }
    }

    /// Stores a note with data of its own, after another one, and names it.
    fn note(&self, name: &str, text: &str, data: usize, before: Option<ObjectId>) -> ObjectId {
        let transaction = self.store.write(&[]).unwrap();
        let mut content = format!("{text}\n");
        for n in 0..data {
            let id = transaction.put(Kind::CHUNK, noise(&format!("{text} {n}"), 3000)).unwrap();
            content += &format!("{} {id} strong\n", Kind::CHUNK.0);
        }
        if let Some(before) = before {
            content += &format!("{} {before} weak\n", NOTE.0);
        }
        let id = transaction.put(NOTE, content.into_bytes()).unwrap();
        let change = RefChange { name: name.to_owned(), expected: Expected::Any, new: Some(id) };
        transaction.commit(&[change]).unwrap();
        id
    }

    fn remote(&self, server: &Arc<dyn Objects>) -> Remote {
        Remote::introduce(server.clone(), self.store.clone(), patience()).unwrap().0
    }

    /// The same without the probe, for servers that fail.
    fn open(&self, server: Arc<dyn Objects>) -> Remote {
        Remote { bucket: crate::bucket::Bucket::new(server, patience()), store: self.store.clone() }
    }
}

/// Bytes that do not compress and depend on `seed` alone.
fn noise(seed: &str, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    blake3::Hasher::new().update(seed.as_bytes()).finalize_xof().fill(&mut out);
    out
}

fn push(remote: &Remote, name: &str, target: ObjectId) -> Result<PushReport> {
    remote.push(&[Pushed { name: name.to_owned(), target, seen: None, force: false }], &Notes, false, &Silent)
}

/// Everything that has no lease is collected at once, and every lease is stale.
const RUTHLESS: GcOptions = GcOptions { grace: Duration::ZERO, lease_time: Duration::ZERO, dry_run: false };
/// Nobody is spared but those who renew their leases.
const PROMPT: GcOptions =
    GcOptions { grace: Duration::ZERO, lease_time: Duration::from_secs(600), dry_run: false };

fn gc(remote: &Remote, options: &GcOptions) -> GcReport {
    remote.gc(options, &Notes, &Silent).unwrap()
}

#[track_caller]
fn assert_whole(remote: &Remote) {
    let report = remote.verify(Depth::Bytes, &Notes, &Silent).unwrap();
    assert_eq!(report.faults, Vec::<String>::new());
}

/// A note, its data and those before it can be fetched into an empty store.
#[track_caller]
fn assert_fetchable(server: &Arc<dyn Objects>, name: &str, target: ObjectId, chain: usize) {
    let local = Local::new();
    let remote = Remote::open(server.clone(), local.store.clone(), patience()).unwrap();
    remote.fetch(&transfer::everything(), &Notes, &Silent).unwrap();
    assert_eq!(local.store.refs().get(&format!("remotes/origin/{name}")).unwrap(), Some(target));
    let (mut next, mut seen) = (Some(target), 0);
    while let Some(id) = next.take() {
        seen += 1;
        let content = local.store.get(NOTE, &id).unwrap();
        for below in Notes.references(NOTE, &content).unwrap() {
            if below.kind == NOTE {
                next = Some(below.id);
            } else {
                local.store.get(below.kind, &below.id).unwrap();
            }
        }
    }
    assert_eq!(seen, chain);
}
