//! Push and fetch, when nothing goes wrong.

use std::sync::atomic::Ordering;

use cas_core::crypto::{KdfCost, Unlock};
use cas_core::progress::Silent;
use cas_core::{Encryption, OpenOptions, Store};

use super::faulty::{Fate, Faulty};
use super::{Local, Notes, assert_fetchable, assert_whole, patience, push, server};
use crate::error::RemoteError;
use crate::fetch::{FetchOptions, Movement};
use crate::push::Pushed;
use crate::remote::Remote;

pub(super) fn everything() -> FetchOptions {
    FetchOptions { tracking: "remotes/origin".to_owned(), ..FetchOptions::default() }
}

#[test]
fn what_was_pushed_can_be_fetched_elsewhere() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let first = here.note("threads/main", "first", 20, None);
    let second = here.note("threads/main", "second", 20, Some(first));
    let report = push(&remote, "threads/main", second).unwrap();
    assert_eq!((report.objects, report.moved.as_slice()), (42, &["threads/main".to_owned()][..]));
    assert_whole(&remote);
    assert_fetchable(&server, "threads/main", second, 2);
    let stat = remote.stat().unwrap();
    assert_eq!((stat.refs, stat.entries, stat.writers, stat.packs), (1, 42, 0, 2));
}

#[test]
fn what_the_remote_has_is_not_sent_again() {
    let (server, here) = (server(), Local::new());
    let first = here.note("threads/main", "first", 200, None);
    push(&here.remote(&server), "threads/main", first).unwrap();
    let second = here.note("threads/main", "second", 10, Some(first));
    let counting = Faulty::new(server.clone(), |_| Fate::Well);
    let report = push(&here.open(counting.clone()), "threads/main", second).unwrap();
    assert_eq!(report.objects, 11);
    let sent = counting.sent.load(Ordering::Relaxed);
    assert!(sent < 11 * 3000 + 20_000, "{sent} bytes were sent for 10 new objects of 3000");
    let again = push(&here.remote(&server), "threads/main", second).unwrap();
    assert_eq!((again.objects, again.unchanged.len()), (0, 1));
}

#[test]
fn a_dry_run_says_what_would_be_sent_and_sends_nothing() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let note = here.note("threads/main", "first", 5, None);
    let pushed = [Pushed { name: "threads/main".to_owned(), target: note, seen: None, force: false }];
    let report = remote.push(&pushed, &Notes, true, &Silent).unwrap();
    assert_eq!((report.objects, report.packs, report.moved.len()), (6, 0, 0));
    assert_eq!(remote.stat().unwrap().packs, 0);
    push(&remote, "threads/main", note).unwrap();

    let there = Local::new();
    let remote = there.remote(&server);
    let report = remote.fetch(&FetchOptions { dry_run: true, ..everything() }, &Notes, &Silent).unwrap();
    assert_eq!(report.objects, 6);
    assert!(there.store.refs().list("").unwrap().is_empty());
    assert!(!there.store.contains(&note).unwrap());
}

#[test]
fn a_second_fetch_brings_only_what_is_new() {
    let (server, here, there) = (server(), Local::new(), Local::new());
    let first = here.note("threads/main", "first", 50, None);
    push(&here.remote(&server), "threads/main", first).unwrap();
    let remote = there.remote(&server);
    remote.fetch(&everything(), &Notes, &Silent).unwrap();
    let second = here.note("threads/main", "second", 3, Some(first));
    push(&here.remote(&server), "threads/main", second).unwrap();
    let report = remote.fetch(&everything(), &Notes, &Silent).unwrap();
    assert_eq!(report.objects, 4);
    assert_eq!(report.refs[0].movement, Movement::Forward);
    let report = remote.fetch(&everything(), &Notes, &Silent).unwrap();
    assert_eq!((report.objects, report.refs[0].movement), (0, Movement::Same));
}

#[test]
fn a_thread_that_went_another_way_is_not_overwritten() {
    let (server, here, there) = (server(), Local::new(), Local::new());
    let first = here.note("threads/main", "first", 1, None);
    push(&here.remote(&server), "threads/main", first).unwrap();
    let remote = there.remote(&server);
    remote.fetch(&everything(), &Notes, &Silent).unwrap();
    let mine = here.note("threads/main", "mine", 1, Some(first));
    let theirs = there.note("threads/main", "theirs", 1, Some(first));
    push(&here.remote(&server), "threads/main", mine).unwrap();
    let refused = push(&remote, "threads/main", theirs);
    assert!(
        matches!(refused, Err(RemoteError::RefMoved { found, .. }) if found == Some(mine)),
        "{refused:?}"
    );
    assert_eq!(remote.get_ref("threads/main").unwrap(), Some(mine));
    let pushed = [Pushed { name: "threads/main".to_owned(), target: theirs, seen: None, force: true }];
    remote.push(&pushed, &Notes, false, &Silent).unwrap();
    assert_eq!(remote.get_ref("threads/main").unwrap(), Some(theirs));
}

#[test]
fn a_push_that_is_behind_changes_nothing() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let first = here.note("threads/main", "first", 1, None);
    let second = here.note("threads/main", "second", 1, Some(first));
    push(&remote, "threads/main", second).unwrap();
    assert_eq!(push(&remote, "threads/main", first).unwrap().unchanged.len(), 1);
    assert_eq!(remote.get_ref("threads/main").unwrap(), Some(second));
}

#[test]
fn many_pushes_leave_few_segments_and_names_of_all_sorts_work() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let (mut last, mut chain) = (None, 0);
    for n in 0..40 {
        let note = here.note("threads/π and more", &format!("note {n}"), 2, last);
        push(&remote, "threads/π and more", note).unwrap();
        (last, chain) = (Some(note), chain + 1);
    }
    let stat = remote.stat().unwrap();
    assert_eq!(stat.entries, 120);
    assert!(stat.segments.values().sum::<usize>() < 24, "{stat:?}");
    assert_fetchable(&server, "threads/π and more", last.unwrap(), chain);
    assert_whole(&remote);
}

fn encryption(key: &[u8]) -> Encryption {
    Encryption { unlocks: vec![Unlock::KeyFile(key.to_vec().into())], cost: KdfCost::for_tests() }
}

#[test]
fn an_encrypted_store_sends_nothing_that_can_be_read() {
    let (server, key) = (server(), encryption(&[7; 32]));
    let here = Local::with(Some(&key));
    // A store with the same secret on another machine: a copy of the keyring.
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let copied = std::process::Command::new("cp").arg("-a").arg(here.store.root()).arg(&root).status();
    assert!(copied.unwrap().success());
    let remote = here.remote(&server);
    let note = here.note("threads/main", "a secret that nobody shall see", 5, None);
    push(&remote, "threads/main", note).unwrap();
    assert_whole(&remote);
    assert!(remote.stat().unwrap().sealed);
    for listed in ["packs/", "index/", "refs/"].iter().flat_map(|prefix| server.list(prefix).unwrap()) {
        let (bytes, _) = server.get(&listed.key, 1 << 30).unwrap().unwrap();
        assert!(!bytes.windows(8).any(|window| window == b"a secret"), "{}", listed.key);
    }

    let options = OpenOptions { unlock: Some(key.unlocks[0].clone()), ..OpenOptions::default() };
    let there = Store::open(&root, options).unwrap();
    let remote = Remote::open(server.clone(), there.clone(), patience()).unwrap();
    remote.fetch(&everything(), &Notes, &Silent).unwrap();
    assert!(there.get(super::NOTE, &note).unwrap().starts_with(b"a secret"));

    for other in [Local::new(), Local::with(Some(&encryption(&[8; 32])))] {
        let refused = Remote::open(server.clone(), other.store.clone(), patience());
        assert!(matches!(refused, Err(RemoteError::OtherDomain { sealed: true })), "{refused:?}");
    }
}

#[test]
fn a_place_without_a_remote_is_said_to_be_one() {
    let refused = Remote::open(server(), Local::new().store, patience());
    assert!(matches!(refused, Err(RemoteError::NotARemote)));
}
