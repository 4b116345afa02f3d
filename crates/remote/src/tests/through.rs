//! A history without its data, and data that is read from the remote when it is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cas_core::StoreError;
use cas_core::progress::Silent;
use cas_core::verify::Depth;

use super::faulty::{Fate, Faulty};
use super::transfer::everything;
use super::{Local, NOTE, Notes, noise, push, server};
use crate::bucket::{Address, Objects};
use crate::fetch::{FetchOptions, HistoryOnly};
use crate::names::Named;
use crate::through::ReadThrough;

fn history() -> FetchOptions {
    let history = Some(HistoryOnly { kind: NOTE, place: "origin".to_owned() });
    FetchOptions { history, ..everything() }
}

/// A store that has a history of two notes, and a server that has their data.
fn bare() -> (Arc<dyn Objects>, Local, Local) {
    let (server, here, there) = (server(), Local::new(), Local::new());
    let first = here.note("threads/main", "first", 40, None);
    let second = here.note("threads/main", "second", 40, Some(first));
    push(&here.remote(&server), "threads/main", second).unwrap();
    let address = Address::parse("s3://bucket/prefix").unwrap();
    Named { name: "origin".to_owned(), address, unencrypted: false }.save(&there.store).unwrap();
    let report = there.remote(&server).fetch(&history(), &Notes, &Silent).unwrap();
    assert_eq!(report.objects, 2);
    (server, here, there)
}

pub(super) fn read_through(there: &Local, server: &Arc<dyn Objects>, limit: u64) {
    let server = Arc::clone(server);
    let through = ReadThrough::over(&there.store, limit, Box::new(move |_| Ok(Arc::clone(&server))));
    there.store.look_beyond(Arc::new(through));
}

pub(super) fn chunk(there: &Local, text: &str, n: usize) -> cas_core::Result<Vec<u8>> {
    let id = there.store.hasher().id(cas_core::Kind::CHUNK, &noise(&format!("{text} {n}"), 3000));
    there.store.get(cas_core::Kind::CHUNK, &id)
}

#[test]
fn a_history_comes_without_its_data_and_the_data_later() {
    let (server, _here, there) = bare();
    let list = there.store.elsewhere().unwrap();
    assert_eq!((list.len(), list.places().into_iter().next()), (2, Some("origin")));
    assert!(matches!(chunk(&there, "first", 1), Err(StoreError::MissingObject { .. })));
    // Nothing is wrong with it.
    let report = there.store.verify(&Notes, Depth::Structure, &Silent).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    // A second fetch of the history has nothing to bring, one of everything brings the rest.
    let remote = there.remote(&server);
    assert_eq!(remote.fetch(&history(), &Notes, &Silent).unwrap().objects, 0);
    assert_eq!(remote.fetch(&everything(), &Notes, &Silent).unwrap().objects, 80);
    assert!(there.store.elsewhere().unwrap().is_empty());
    assert_eq!(chunk(&there, "first", 1).unwrap(), noise("first 1", 3000));
}

#[test]
fn a_fetch_of_everything_that_was_cut_short_does_not_make_a_history_look_whole() {
    let (server, here, there) = (server(), Local::new(), Local::new());
    let note = here.note("threads/main", "first", 40, None);
    push(&here.remote(&server), "threads/main", note).unwrap();
    // What it leaves: the note, and nothing of its data.
    let content = here.store.get(NOTE, &note).unwrap();
    let transaction = there.store.write(&[]).unwrap();
    transaction.put(NOTE, content).unwrap();
    transaction.commit(&[]).unwrap();
    there.remote(&server).fetch(&history(), &Notes, &Silent).unwrap();
    assert_eq!(there.store.elsewhere().unwrap().place(&note), Some("origin"));
}

#[test]
fn what_is_not_here_is_read_from_the_remote_and_kept_within_the_limit() {
    let (server, _here, there) = bare();
    let counting = Faulty::new(server, |_| Fate::Well);
    let objects: Arc<dyn Objects> = counting.clone();
    read_through(&there, &objects, 8 << 20);
    for text in ["first", "second"] {
        for n in 0..40 {
            assert_eq!(chunk(&there, text, n).unwrap(), noise(&format!("{text} {n}"), 3000));
        }
    }
    // Neighbours came together: `root` twice, the index, and a block of the only pack of data.
    let requests = counting.requests.load(Ordering::Relaxed);
    assert!(requests <= 5, "{requests} requests for 80 objects of one pack");
    let cache = there.store.root().join("cache/remote");
    let taken: u64 =
        std::fs::read_dir(cache).unwrap().map(|one| one.unwrap().metadata().unwrap().len()).sum();
    assert!(taken > 0 && taken <= 8 << 20, "{taken}");
    // It did not enter the store, and what nobody has is still missing.
    assert_eq!(there.store.elsewhere().unwrap().len(), 2);
    assert!(matches!(chunk(&there, "third", 0), Err(StoreError::MissingObject { .. })));
}

#[test]
fn a_cache_that_was_changed_is_not_believed() {
    let (server, _here, there) = bare();
    read_through(&there, &server, 8 << 20);
    chunk(&there, "first", 0).unwrap();
    let after =
        Local { store: cas_core::Store::open(there.store.root(), Default::default()).unwrap(), ..there };
    for file in std::fs::read_dir(after.store.root().join("cache/remote")).unwrap() {
        let path = file.unwrap().path();
        let len = std::fs::metadata(&path).unwrap().len();
        std::fs::write(path, vec![7; usize::try_from(len).unwrap()]).unwrap();
    }
    read_through(&after, &server, 8 << 20);
    assert_eq!(chunk(&after, "first", 3).unwrap(), noise("first 3", 3000));
}

#[test]
fn a_remote_that_lies_or_is_gone_is_an_error_and_nothing_else() {
    let (server, _here, there) = bare();
    let gone = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&gone);
    let faulty =
        Faulty::new(
            server.clone(),
            move |_| if fails.load(Ordering::Relaxed) { Fate::Dies } else { Fate::Well },
        );
    let objects: Arc<dyn Objects> = faulty;
    read_through(&there, &objects, 0);
    chunk(&there, "first", 0).unwrap();
    // What is in memory is still there; what was not read yet is not damaged, and not "not found".
    gone.store(true, Ordering::Relaxed);
    chunk(&there, "first", 1).unwrap();
    let fresh =
        Local { store: cas_core::Store::open(there.store.root(), Default::default()).unwrap(), ..there };
    read_through(&fresh, &objects, 0);
    let error = chunk(&fresh, "second", 1).unwrap_err();
    assert_eq!((error.code(), error.class()), ("IJ-S014", base::Class::Environment));

    // Other bytes of the same length.
    for pack in server.list("packs/").unwrap() {
        let len = usize::try_from(pack.size).unwrap();
        server.delete(&pack.key).unwrap();
        server.put(&pack.key, vec![9; len], &crate::bucket::Condition::Absent).unwrap();
    }
    let lied =
        Local { store: cas_core::Store::open(fresh.store.root(), Default::default()).unwrap(), ..fresh };
    read_through(&lied, &server, 8 << 20);
    let error = chunk(&lied, "second", 1).unwrap_err();
    assert_eq!((error.code(), error.class()), ("IJ-S014", base::Class::Corruption));
}

#[test]
fn a_child_of_what_is_elsewhere_can_be_pushed_there() {
    let (server, here, there) = bare();
    let remote = there.remote(&server);
    let second = there.store.refs().get("remotes/origin/threads/main").unwrap().unwrap();
    // A note that shares data with one whose data is in the remote.
    let shared = there.store.hasher().id(cas_core::Kind::CHUNK, &noise("second 3", 3000));
    let transaction = there.store.write(&[]).unwrap();
    let text = format!("third\n{} {shared} strong\n{} {second} weak\n", cas_core::Kind::CHUNK.0, NOTE.0);
    let third = transaction.put(NOTE, text.into_bytes()).unwrap();
    transaction.commit(&[]).unwrap();
    assert_eq!(push(&remote, "threads/main", third).unwrap().objects, 1);
    // What nobody has cannot be pushed.
    let elsewhere = super::server();
    push(&there.remote(&elsewhere), "threads/main", third).unwrap_err();
    drop(here);
}
