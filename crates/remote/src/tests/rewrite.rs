//! Packs that are mostly dead are written anew, whatever else happens at the time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cas_core::ObjectId;
use cas_core::progress::Silent;

use super::faulty::{Fate, Faulty};
use super::{Local, Notes, PROMPT, RUTHLESS, assert_fetchable, assert_whole, gc, push, server};
use crate::bucket::{Condition, Objects};
use crate::error::RemoteError;
use crate::gc::GcOptions;
use crate::push::Pushed;

/// A remote with a pack of data and one of metadata of which little is needed: `kept` has 2 pieces of data, `dropped` had 18.
fn worn() -> (Arc<dyn Objects>, Local, [ObjectId; 2]) {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let kept = here.note("threads/kept", "kept", 2, None);
    let dropped = here.note("threads/dropped", "dropped", 18, None);
    let one = |name: &str, target| Pushed { name: name.to_owned(), target, seen: None, force: false };
    let both = [one("threads/kept", kept), one("threads/dropped", dropped)];
    remote.push(&both, &Notes, false, &Silent).unwrap();
    assert_eq!(remote.stat().unwrap().packs, 2, "one of data, one of metadata");
    remote.force_ref("threads/dropped", None);
    (server, here, [kept, dropped])
}

/// Nothing is left but what is needed, once.
#[track_caller]
fn assert_tidy(server: &Arc<dyn Objects>, here: &Local, objects: u64) {
    let remote = here.remote(server);
    (0..4).for_each(|_| _ = gc(&remote, &RUTHLESS));
    let stat = remote.stat().unwrap();
    assert_eq!((stat.entries, stat.condemned, stat.writers), (objects, 0, 0));
    assert_eq!(stat.segments.values().sum::<usize>(), server.list("index/").unwrap().len());
    assert_whole(&remote);
}

#[test]
fn what_is_needed_moves_and_the_rest_goes() {
    let (server, here, [kept, _]) = worn();
    let remote = here.remote(&server);
    let before = remote.stat().unwrap().bytes;
    let planned = gc(&remote, &GcOptions { dry_run: true, ..RUTHLESS });
    assert_eq!((planned.rewritten, remote.stat().unwrap().bytes), (2, before));
    let first = gc(&remote, &RUTHLESS);
    assert_eq!((first.rewritten, first.deleted), (2, 0), "{first:?}");
    assert!(first.moved_bytes > 6000 && first.moved_bytes < 7000, "{first:?}");
    assert_fetchable(&server, "threads/kept", kept, 1);
    let second = gc(&remote, &RUTHLESS);
    assert_eq!((second.rewritten, second.deleted), (0, 2), "{second:?}");
    assert_fetchable(&server, "threads/kept", kept, 1);
    assert_tidy(&server, &here, 3);
    assert!(remote.stat().unwrap().bytes < before / 5);
}

#[test]
fn a_pack_that_is_mostly_needed_stays() {
    let (server, here, _) = worn();
    let remote = here.remote(&server);
    remote.force_ref("threads/kept", None);
    let again = here.store.refs().get("threads/dropped").unwrap();
    remote.force_ref("threads/dropped", again);
    assert_eq!(gc(&remote, &RUTHLESS).rewritten, 0);
    assert_whole(&remote);
}

#[test]
fn a_collection_that_dies_while_it_moves_things_harms_nothing_and_leaves_nothing() {
    let (server, here, _) = worn();
    let counting = Faulty::new(server, |_| Fate::Well);
    gc(&here.open(counting.clone()), &RUTHLESS);
    for number in 0..counting.requests.load(Ordering::Relaxed) {
        for fate in [Fate::Dies, Fate::DiesAfter, Fate::LosesAnswer, Fate::Fails] {
            let (server, here, [kept, _]) = worn();
            let faulty = Faulty::new(server.clone(), move |request| match request.number {
                n if n < number => Fate::Well,
                n if n == number => fate,
                _ if matches!(fate, Fate::Dies | Fate::DiesAfter) => Fate::Dies,
                _ => Fate::Well,
            });
            let _ = here.open(faulty).gc(&RUTHLESS, &Notes, &Silent);
            assert_whole(&here.remote(&server));
            assert_fetchable(&server, "threads/kept", kept, 1);
            assert_tidy(&server, &here, 3);
            assert_fetchable(&server, "threads/kept", kept, 1);
        }
    }
}

/// The push needs what is dead in the worn pack, has seen it there, and sends nothing of it.
#[test]
fn a_push_that_relies_on_the_dead_part_loses_nothing_whenever_things_are_moved() {
    let (server, here, [_, dropped]) = worn();
    let counting = Faulty::new(server, |_| Fate::Well);
    push(&here.open(counting.clone()), "threads/back", dropped).unwrap();
    for number in 0..counting.requests.load(Ordering::Relaxed) {
        for options in [PROMPT, RUTHLESS] {
            let (server, here, [kept, dropped]) = worn();
            let collector = here.remote(&server);
            let faulty = Faulty::new(server.clone(), move |request| {
                if request.number == number {
                    (0..3).for_each(|_| _ = gc(&collector, &options));
                }
                Fate::Well
            });
            push(&here.open(faulty), "threads/back", dropped).unwrap();
            assert_whole(&here.remote(&server));
            assert_fetchable(&server, "threads/back", dropped, 1);
            (0..4).for_each(|_| _ = gc(&here.remote(&server), &RUTHLESS));
            assert_whole(&here.remote(&server));
            assert_fetchable(&server, "threads/back", dropped, 1);
            assert_fetchable(&server, "threads/kept", kept, 1);
        }
    }
}

/// The collection stands still between any two requests, while another one collects, or somebody pushes what was dead.
#[test]
fn a_collection_that_stands_still_while_it_moves_things_harms_nobody() {
    let (server, here, _) = worn();
    let counting = Faulty::new(server, |_| Fate::Well);
    gc(&here.open(counting.clone()), &PROMPT);
    for number in 0..counting.requests.load(Ordering::Relaxed) {
        for (options, pushes) in [(PROMPT, false), (RUTHLESS, false), (PROMPT, true), (RUTHLESS, true)] {
            let (server, here, [kept, dropped]) = worn();
            let other = here.remote(&server);
            let faulty = Faulty::new(server.clone(), move |request| {
                if request.number == number {
                    if pushes {
                        push(&other, "threads/back", dropped).unwrap();
                    }
                    (0..3).for_each(|_| _ = gc(&other, &options));
                }
                Fate::Well
            });
            // It may be told that it was given up.
            match here.open(faulty).gc(&PROMPT, &Notes, &Silent) {
                Ok(_) | Err(RemoteError::LeaseLost) => {}
                Err(error) => panic!("at {number}: {error}"),
            }
            let remote = here.remote(&server);
            for _ in 0..4 {
                assert_whole(&remote);
                gc(&remote, &RUTHLESS);
            }
            assert_fetchable(&server, "threads/kept", kept, 1);
            if pushes {
                assert_fetchable(&server, "threads/back", dropped, 1);
            }
        }
    }
}

#[test]
fn a_pack_that_does_not_have_what_the_index_says_is_not_given_up() {
    let (server, here, _) = worn();
    let remote = here.remote(&server);
    let packs = server.list("packs/").unwrap();
    let large = packs.iter().max_by_key(|pack| pack.size).unwrap();
    let (mut bytes, _) = server.get(&large.key, 1 << 30).unwrap().unwrap();
    for at in [100, 30_000, bytes.len() - 200] {
        bytes[at] ^= 1;
    }
    server.delete(&large.key).unwrap();
    server.put(&large.key, bytes, &Condition::Absent).unwrap();
    let outcome = remote.gc(&RUTHLESS, &Notes, &Silent);
    assert!(matches!(outcome, Err(RemoteError::Damaged { .. })), "{outcome:?}");
    assert_eq!(remote.stat().unwrap().condemned, 0);
}
