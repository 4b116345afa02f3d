//! A remote that lies: nothing it sends may crash us, fill the disk, leave the store or pass for what it is not.

use std::sync::Arc;

use cas_core::progress::Silent;

use super::transfer::everything;
use super::{Local, Notes, assert_whole, patience, push, server};
use crate::bucket::{Condition, Listed, Objects, Put, Version};
use crate::error::{RemoteError, Result};
use crate::fetch::{FetchOptions, Movement};
use crate::remote::Remote;
use crate::verify::Depth;

/// Changes what is read.
struct Lying<F>(Arc<dyn Objects>, F);

impl<F> std::fmt::Debug for Lying<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lying")
    }
}

impl<F: Fn(&str, Vec<u8>) -> Option<Vec<u8>> + Send + Sync> Objects for Lying<F> {
    fn get(&self, key: &str, limit: u64) -> Result<Option<(Vec<u8>, Version)>> {
        let found = self.0.get(key, limit)?;
        Ok(found.and_then(|(bytes, version)| Some(((self.1)(key, bytes)?, version))))
    }

    fn get_range(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get_range(key, offset, len)?.and_then(|bytes| (self.1)(key, bytes)))
    }

    fn get_up_to(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get_up_to(key, offset, len)?.and_then(|bytes| (self.1)(key, bytes)))
    }

    fn put(&self, key: &str, bytes: Vec<u8>, condition: &Condition) -> Result<Put> {
        self.0.put(key, bytes, condition)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.0.delete(key)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.0.list(prefix)
    }
}

fn lying(
    server: &Arc<dyn Objects>,
    lie: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> Arc<dyn Objects> {
    Arc::new(Lying(server.clone(), lie))
}

/// A remote with a note, and an empty store that would fetch it.
fn pushed() -> (Arc<dyn Objects>, Local, Local) {
    let (server, here) = (server(), Local::new());
    let note = here.note("threads/main", "first", 5, None);
    push(&here.remote(&server), "threads/main", note).unwrap();
    (server, here, Local::new())
}

#[test]
fn wrong_bytes_are_noticed_wherever_they_are() {
    for key in ["root", "refs/", "index/", "packs/"] {
        for at in [0, 1, 30, 70, 80, 200] {
            let (server, _, there) = pushed();
            let lies = lying(&server, move |read, mut bytes| {
                if read.starts_with(key)
                    && let Some(byte) = bytes.get_mut(at)
                {
                    *byte ^= 1;
                }
                Some(bytes)
            });
            let outcome = there.open(lies).fetch(&everything(), &Notes, &Silent);
            // A flipped bit in `root` may make it look like another store's.
            let noticed =
                matches!(outcome, Err(RemoteError::Damaged { .. } | RemoteError::OtherDomain { .. }));
            assert!(noticed, "{key} {at}: {outcome:?}");
            assert!(there.store.refs().list("").unwrap().is_empty());
        }
    }
}

#[test]
fn bytes_that_are_missing_or_too_many_are_noticed() {
    for key in ["root", "refs/", "index/", "packs/"] {
        for lie in [0, 1, 2] {
            let (server, _, there) = pushed();
            let lies = lying(&server, move |read, mut bytes| {
                if read.starts_with(key) {
                    match lie {
                        0 => return None,
                        1 => bytes.truncate(bytes.len() / 2),
                        _ => bytes.extend_from_slice(&[0; 100]),
                    }
                }
                Some(bytes)
            });
            let outcome = there.open(lies).fetch(&everything(), &Notes, &Silent);
            let gone = key == "refs/" && lie == 0;
            // A ref that is not there is a ref that is not there.
            assert_eq!(outcome.is_ok(), gone || (key == "packs/" && lie == 2), "{key} {lie}: {outcome:?}");
        }
    }
}

#[test]
fn an_object_that_never_ends_is_not_read_to_its_end() {
    let (server, _, there) = pushed();
    server.delete("root").unwrap();
    server.put("root", vec![b' '; 5 << 20], &Condition::Absent).unwrap();
    let outcome = Remote::open(server, there.store, patience());
    assert!(matches!(outcome, Err(RemoteError::Damaged { .. })), "{outcome:?}");
}

#[test]
fn two_objects_that_changed_places_are_noticed() {
    let (server, here, there) = pushed();
    let other = here.note("threads/other", "other", 1, None);
    push(&here.remote(&server), "threads/other", other).unwrap();
    let (bytes, _) = server.get("refs/threads/other", 1 << 20).unwrap().unwrap();
    server.delete("refs/threads/main").unwrap();
    server.put("refs/threads/main", bytes, &Condition::Absent).unwrap();
    let outcome = there.open(server).fetch(&everything(), &Notes, &Silent);
    assert!(matches!(outcome, Err(RemoteError::Damaged { .. })), "{outcome:?}");
}

#[test]
fn a_ref_with_a_name_that_leads_elsewhere_is_refused() {
    use crate::refs::RefBody;
    for name in [
        "threads/../../../etc/passwd",
        "threads/..",
        "/etc/passwd",
        "remotes/origin/threads/x",
        "threads/a\nb",
    ] {
        let (server, here, there) = pushed();
        let remote = here.remote(&server);
        let evil = RefBody { name: name.to_owned(), target: Some("00".repeat(32)) };
        remote.bucket.replace(remote.hasher(), "refs/threads/evil", None, &evil).unwrap();
        there.open(server.clone()).fetch(&everything(), &Notes, &Silent).unwrap_err();
        assert!(there.store.refs().list("").unwrap().is_empty(), "{name}");
        let report = remote.verify(Depth::Presence, &Notes, &Silent).unwrap();
        assert_eq!(report.faults.len(), 1, "{report:?}");
    }
}

#[test]
fn a_ref_that_went_back_is_reported_and_not_followed() {
    let (server, here, there) = pushed();
    let remote = here.remote(&server);
    let first = remote.get_ref("threads/main").unwrap().unwrap();
    let second = here.note("threads/main", "second", 1, Some(first));
    push(&remote, "threads/main", second).unwrap();
    let fetching = there.remote(&server);
    fetching.fetch(&everything(), &Notes, &Silent).unwrap();
    remote.force_ref("threads/main", Some(first));
    let tracked = || there.store.refs().get("remotes/origin/threads/main").unwrap();
    let report = fetching.fetch(&everything(), &Notes, &Silent).unwrap();
    assert_eq!((report.refs[0].movement, tracked()), (Movement::Elsewhere, Some(second)));
    let forced = FetchOptions { force: true, ..everything() };
    fetching.fetch(&forced, &Notes, &Silent).unwrap();
    assert_eq!(tracked(), Some(first));
}

#[test]
fn a_remote_cannot_fill_the_disk() {
    let (server, _, there) = pushed();
    let options = FetchOptions { room: Some(5_000), ..everything() };
    let outcome = there.remote(&server).fetch(&options, &Notes, &Silent);
    assert!(matches!(outcome, Err(RemoteError::TooMuch { limit: 5_000 })), "{outcome:?}");
    assert!(there.store.refs().list("").unwrap().is_empty());
}

#[test]
fn a_pack_that_unfolds_to_more_than_it_promises_is_noticed() {
    use cas_core::pack::{Entry, stored_checksum};
    use cas_core::{IdHasher, Kind};
    let there = Local::new();
    let bomb = zstd::bulk::compress(&vec![0; 32 << 20], 1).unwrap();
    let content = vec![0; 5000];
    let id = IdHasher::plain().id(Kind::CHUNK, &content);
    let entry = Entry {
        id,
        kind: Kind::CHUNK,
        codec: 1.try_into().unwrap(),
        plain_len: 5000,
        stored_len: u32::try_from(bomb.len()).unwrap(),
        checksum: stored_checksum(&bomb),
    };
    let mut bytes = entry.encode().to_vec();
    bytes.extend_from_slice(&bomb);
    there.store.open_foreign(Kind::CHUNK, &id, &bytes).unwrap().unwrap_err();
}

#[test]
fn a_pack_that_is_gone_is_found_by_verify_and_by_fetch() {
    let (server, here, there) = pushed();
    let pack = server.list("packs/").unwrap()[0].key.clone();
    server.delete(&pack).unwrap();
    let report = here.remote(&server).verify(Depth::Bytes, &Notes, &Silent).unwrap();
    assert!(!report.faults.is_empty());
    there.open(server).fetch(&everything(), &Notes, &Silent).unwrap_err();
    assert!(there.store.refs().list("").unwrap().is_empty());
}

#[test]
fn a_server_that_ignores_conditions_is_refused() {
    #[derive(Debug)]
    struct Careless(Arc<dyn Objects>, bool);
    impl Objects for Careless {
        fn get(&self, key: &str, limit: u64) -> Result<Option<(Vec<u8>, Version)>> {
            self.0.get(key, limit)
        }
        fn get_range(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
            self.0.get_range(key, offset, len)
        }
        fn get_up_to(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
            self.0.get_up_to(key, offset, len)
        }
        fn put(&self, key: &str, bytes: Vec<u8>, condition: &Condition) -> Result<Put> {
            let ignored = matches!(condition, Condition::Absent) == self.1;
            if ignored {
                self.0.delete(key)?;
                return self.0.put(key, bytes, &Condition::Absent);
            }
            self.0.put(key, bytes, condition)
        }
        fn delete(&self, key: &str) -> Result<()> {
            self.0.delete(key)
        }
        fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
            self.0.list(prefix)
        }
    }
    for create in [true, false] {
        let store = Local::new().store;
        let refused = Remote::introduce(Arc::new(Careless(server(), create)), store, patience());
        assert!(matches!(refused, Err(RemoteError::Unreliable { .. })), "{refused:?}");
    }
    let good = Local::new();
    assert_whole(&good.remote(&server()));
}
