//! What is let go of here because the remote has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cas_core::gc::GcOptions;
use cas_core::progress::Silent;
use cas_core::verify::Depth;

use super::faulty::{Fate, Faulty};
use super::through::{chunk, read_through};
use super::{Local, Notes, PROMPT, gc, noise, push, server};
use crate::bucket::{Address, Condition};
use crate::names::Named;
use crate::remote::Remote;

fn origin() -> Named {
    let address = Address::parse("s3://bucket/prefix").unwrap();
    Named { name: "origin".to_owned(), address, unencrypted: true }
}

fn held(remote: &Remote, ids: &[cas_core::ObjectId]) -> Vec<cas_core::ObjectId> {
    remote.holds(ids, &Notes, &Silent).unwrap()
}

#[test]
fn only_what_is_there_as_a_whole_is_held() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let first = here.note("threads/main", "first", 20, None);
    push(&remote, "threads/main", first).unwrap();
    let second = here.note("threads/main", "second", 20, Some(first));
    assert_eq!(held(&remote, &[second, first]), [first], "the second was not pushed");
    assert_eq!(remote.led_to(&Notes).unwrap().into_iter().collect::<Vec<_>>(), [first]);
    push(&remote, "threads/main", second).unwrap();
    assert_eq!(held(&remote, &[second, first]), [second, first]);
    assert_eq!(remote.led_to(&Notes).unwrap().len(), 2);
    // Packs that are cut off or gone are not there, whatever the index says.
    for pack in server.list("packs/").unwrap() {
        let (bytes, _) = server.get(&pack.key, 1 << 20).unwrap().unwrap();
        server.delete(&pack.key).unwrap();
        assert!(held(&remote, &[second, first]).len() < 2, "{}", pack.key);
        server.put(&pack.key, bytes[..100].to_vec(), &Condition::Absent).unwrap();
        assert!(held(&remote, &[second, first]).len() < 2, "{}", pack.key);
        server.delete(&pack.key).unwrap();
        server.put(&pack.key, bytes, &Condition::Absent).unwrap();
    }
    assert_eq!(held(&remote, &[second, first]), [second, first]);
}

#[test]
fn a_remote_that_says_nothing_holds_nothing() {
    let (server, here) = (server(), Local::new());
    let first = here.note("threads/main", "first", 20, None);
    push(&here.remote(&server), "threads/main", first).unwrap();
    let silent = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&silent);
    let faulty =
        Faulty::new(server, move |_| if now.load(Ordering::Relaxed) { Fate::Dies } else { Fate::Well });
    let remote = here.open(faulty);
    remote.holds(&[first], &Notes, &Silent).unwrap_err();
    remote.led_to(&Notes).unwrap_err();
    silent.store(false, Ordering::Relaxed);
    assert_eq!(held(&remote, &[first]), [first]);
}

#[test]
fn what_is_let_go_of_comes_back_also_if_it_was_pushed_after_the_remote_was_first_read() {
    let (server, here) = (server(), Local::new());
    origin().save(&here.store).unwrap();
    let remote = here.remote(&server);
    let let_go = |id| {
        assert_eq!(held(&remote, &[id]), [id]);
        here.store.let_go(&[id], "origin", &Notes, &GcOptions::default(), &Silent).unwrap();
    };
    read_through(&here, &server, 8 << 20);
    let first = here.note("threads/main", "first", 20, None);
    push(&remote, "threads/main", first).unwrap();
    let_go(first);
    assert_eq!(chunk(&here, "first", 3).unwrap(), noise("first 3", 3000));
    let second = here.note("threads/main", "second", 20, Some(first));
    push(&remote, "threads/main", second).unwrap();
    let_go(second);
    assert_eq!(chunk(&here, "second", 3).unwrap(), noise("second 3", 3000));
    let report = here.store.verify(&Notes, Depth::Bytes, &Silent).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    // A collection there has nothing against them, and neither has a push of what comes after.
    gc(&remote, &PROMPT);
    let third = here.note("threads/main", "third", 2, Some(second));
    assert_eq!(push(&remote, "threads/main", third).unwrap().objects, 3);
    super::assert_fetchable(&server, "threads/main", third, 3);
}

#[test]
fn what_was_fetched_back_is_here() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let first = here.note("threads/main", "first", 20, None);
    push(&remote, "threads/main", first).unwrap();
    here.store.let_go(&[first], "origin", &Notes, &GcOptions::default(), &Silent).unwrap();
    chunk(&here, "first", 3).unwrap_err();
    remote.fetch(&super::transfer::everything(), &Notes, &Silent).unwrap();
    assert!(here.store.elsewhere().unwrap().is_empty());
    assert_eq!(chunk(&here, "first", 3).unwrap(), noise("first 3", 3000));
}

#[test]
fn what_was_not_sent_yet_is_known() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let named = origin();
    let first = here.note("threads/main", "first", 2, None);
    here.note("tags/good", "good", 2, Some(first));
    assert_eq!(named.unsent(&here.store).unwrap(), ["threads/main", "tags/good"]);
    let pushed = named.chosen(&here.store, &["tags/good".to_owned(), "tags/gone".to_owned()], false).unwrap();
    let report = remote.push(&pushed, &Notes, false, &Silent).unwrap();
    assert_eq!(report.moved, ["tags/good"]);
    named.arrived(&here.store, &pushed, &report).unwrap();
    assert_eq!(named.unsent(&here.store).unwrap(), ["threads/main"]);
}
