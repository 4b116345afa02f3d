//! What a remote sends: `root`, refs, leases and keys with a seal that fits (anybody can make one for a plain store), segments of the index,
//! and addresses. A server made of the input is opened, counted, verified, fetched from and collected. Nothing may leave the store's own names, and nothing may enter that
//! does not fit its id.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use ::remote::{
    Address, Condition, Depth, FetchOptions, GcOptions, Listed, Objects, Patience, Put, Remote, RemoteError,
    Tail, Version,
};
use cas_core::progress::Silent;
use cas_core::reach::NoReferences;
use cas_core::{IdHasher, Kind, OpenOptions, Store};

const LARGEST: usize = 64 << 10;
// Of segments, as docs/format-remote.md has them.
const ENTRY: usize = 45;
const PER_BLOCK: usize = 224;
const TAIL_HEAD: usize = 20;
const FENCE: usize = 36;
const PATIENCE: Patience = Patience { tries: 1, pause: std::time::Duration::ZERO };

struct Place {
    _directory: tempfile::TempDir,
    store: Arc<Store>,
}

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { threads: 1, ..OpenOptions::default() };
    let store = Store::init(&directory.path().join("store"), None, options).unwrap();
    Place { _directory: directory, store }
});

pub(crate) fn run(bytes: &[u8]) {
    let Some((what, rest)) = bytes.split_first().filter(|_| bytes.len() <= LARGEST) else { return };
    let server = Server::default();
    match what % 7 {
        0 => {
            if let Ok(address) = Address::parse(&String::from_utf8_lossy(rest)) {
                assert_eq!(Address::parse(&address.to_string()).unwrap(), address);
            }
            return;
        }
        1 => {
            let _ = Tail::parse_unchecked(rest);
            return;
        }
        2 => {
            let text = String::from_utf8_lossy(rest).replace("DOMAIN", &domain());
            server.seal("root", text.as_bytes());
        }
        3 => {
            server.seal("root", root("").as_bytes());
            server.seal("refs/threads/main", rest);
        }
        4 => {
            server.seal("root", root("").as_bytes());
            server.seal("leases/00000000000000000000000000000001", rest);
        }
        5 => {
            server.seal("keys/main", rest);
            server.seal("root", root("").as_bytes());
        }
        _ => segment(&server, rest),
    }
    use_it(Arc::new(server));
}

/// An index of one segment that is `bytes`, with the lengths and the hash that `root` would have for it.
fn segment(server: &Server, bytes: &[u8]) {
    let Some((lengths, bytes)) = bytes.split_first_chunk::<2>() else { return };
    let entries = u64::from(u16::from_le_bytes(*lengths));
    let mut bytes = bytes.to_vec();
    let Some((blocks, tail)) = bytes.split_at_mut_checked(usize::from(u16::from_le_bytes(*lengths)) * ENTRY)
    else {
        return;
    };
    // The first id and the hash of each block are put right, so that the fuzzer gets behind them.
    for (n, block) in blocks.chunks(PER_BLOCK * ENTRY).enumerate() {
        let at = TAIL_HEAD + n * FENCE;
        if let Some(fence) = tail.get_mut(at..at + FENCE) {
            fence[..20].copy_from_slice(&block[..20]);
            fence[20..].copy_from_slice(&blake3::hash(block).as_bytes()[..16]);
        }
    }
    let (name, hash, tail) = ("1".repeat(32), blake3::hash(tail).to_hex(), tail.len());
    let segment = format!(
        r#"{{"name":"{name}","level":0,"entries":{entries},"length":{},"tail":{},"hash":"{hash}","first":"{}","last":"{}"}}"#,
        bytes.len(),
        tail,
        "0".repeat(40),
        "f".repeat(40)
    );
    server.seal("root", root(&segment).as_bytes());
    // It leads to the first object of the segment, so that this one is asked for.
    let mut first = bytes.get(..20).unwrap_or_default().to_vec();
    first.resize(32, 0);
    let target = cas_core::id::hex(&first);
    let main =
        format!(r#"{{"name":"threads/main","target":"{target}","write":"{}","before":[]}}"#, "2".repeat(32));
    server.seal("refs/threads/main", main.as_bytes());
    server.set(&format!("packs/{}", "3".repeat(32)), bytes.clone());
    server.set(&format!("index/{name}"), bytes);
}

fn domain() -> String {
    cas_core::id::hex(&PLACE.store.domain())
}

fn root(segments: &str) -> String {
    let domain = domain();
    format!(
        r#"{{"version":1,"domain":"{domain}","sealed":false,"generation":1,"segments":[{segments}],"condemned":[],"write":"{}","before":[]}}"#,
        "4".repeat(32)
    )
}

fn use_it(server: Arc<dyn Objects>) {
    let _ = ::remote::is_sealed(server.clone(), PATIENCE);
    let key = cas_core::crypto::Unlock::KeyFile(vec![7; 32].into());
    assert!(
        ::remote::unlock(server.clone(), PATIENCE, &[key]).is_err(),
        "nobody has made a key that this opens"
    );
    let Ok(open) = Remote::open(server, PLACE.store.clone(), PATIENCE) else { return };
    let _ = open.stat();
    let _ = open.verify(Depth::Bytes, &NoReferences, &Silent);
    let options = FetchOptions {
        tracking: "remotes/origin".to_owned(),
        force: true,
        room: Some(1 << 20),
        ..FetchOptions::default()
    };
    let _ = open.fetch(&options, &NoReferences, &Silent);
    for (name, _) in PLACE.store.refs().list("").unwrap() {
        assert!(name.starts_with("remotes/origin/"), "{name}");
    }
    let _ = open.gc(
        &GcOptions { grace: std::time::Duration::ZERO, ..GcOptions::default() },
        &NoReferences,
        &Silent,
    );
}

/// A server in memory.
#[derive(Debug, Default)]
struct Server(Mutex<BTreeMap<String, (Vec<u8>, u64)>>);

impl Server {
    fn set(&self, key: &str, bytes: Vec<u8>) {
        let mut objects = self.0.lock().unwrap();
        let version = objects.get(key).map_or(0, |(_, version)| version + 1);
        objects.insert(key.to_owned(), (bytes, version));
    }

    /// Puts a text with the seal that fits it.
    fn seal(&self, key: &str, json: &[u8]) {
        let json = String::from_utf8_lossy(json).replace('\n', " ");
        let seal = IdHasher::plain().id(Kind(0), format!("infinijup remote 1 {key}\n{json}").as_bytes());
        self.set(key, format!("{json}\n{seal}\n").into_bytes());
    }
}

impl Objects for Server {
    fn get(&self, key: &str, limit: u64) -> Result<Option<(Vec<u8>, Version)>, RemoteError> {
        let objects = self.0.lock().unwrap();
        let Some((bytes, version)) = objects.get(key) else { return Ok(None) };
        if bytes.len() as u64 > limit {
            return Err(RemoteError::Damaged { key: key.to_owned(), detail: "is too long".to_owned() });
        }
        Ok(Some((bytes.clone(), Version(version.to_string()))))
    }

    fn get_range(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>, RemoteError> {
        let objects = self.0.lock().unwrap();
        let Some((bytes, _)) = objects.get(key) else { return Ok(None) };
        let range = usize::try_from(offset)
            .ok()
            .zip(offset.checked_add(len).and_then(|end| usize::try_from(end).ok()));
        match range.and_then(|(start, end)| bytes.get(start..end)) {
            Some(part) => Ok(Some(part.to_vec())),
            None => Err(RemoteError::Damaged { key: key.to_owned(), detail: "ends too early".to_owned() }),
        }
    }

    fn get_up_to(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>, RemoteError> {
        let there = self.0.lock().unwrap().get(key).map_or(0, |(bytes, _)| bytes.len() as u64);
        self.get_range(key, offset, len.min(there.saturating_sub(offset)))
    }

    fn put(&self, key: &str, bytes: Vec<u8>, condition: &Condition) -> Result<Put, RemoteError> {
        let there = self.0.lock().unwrap().get(key).map(|(_, version)| version.to_string());
        let fits = match condition {
            Condition::Absent => there.is_none(),
            Condition::Is(version) => there.as_ref() == Some(&version.0),
        };
        if !fits {
            return Ok(Put::Refused);
        }
        self.set(key, bytes);
        let version = self.0.lock().unwrap().get(key).map_or(0, |(_, version)| *version);
        Ok(Put::Done(Version(version.to_string())))
    }

    fn delete(&self, key: &str) -> Result<(), RemoteError> {
        self.0.lock().unwrap().remove(key);
        Ok(())
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>, RemoteError> {
        let objects = self.0.lock().unwrap();
        let listed = objects.iter().filter(|(key, _)| key.starts_with(prefix));
        Ok(listed.map(|(key, (bytes, _))| Listed { key: key.clone(), size: bytes.len() as u64 }).collect())
    }
}
