//! Every request of a push and of a collection fails, loses its answer, or is the last one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cas_core::ObjectId;
use cas_core::progress::Silent;

use super::faulty::{Fate, Faulty};
use super::{Local, Notes, PROMPT, RUTHLESS, assert_fetchable, assert_whole, gc, push, server};
use crate::bucket::Objects;

/// A remote with one note, and a store with two more.
fn begun() -> (Arc<dyn Objects>, Local, [ObjectId; 2]) {
    let (server, here) = (server(), Local::new());
    let first = here.note("threads/main", "first", 3, None);
    push(&here.remote(&server), "threads/main", first).unwrap();
    let second = here.note("threads/main", "second", 3, Some(first));
    (server, here, [first, second])
}

/// How many requests a push makes when nothing goes wrong.
fn requests_of_a_push() -> u64 {
    let (server, here, [_, second]) = begun();
    let counting = Faulty::new(server, |_| Fate::Well);
    push(&here.open(counting.clone()), "threads/main", second).unwrap();
    counting.requests.load(Ordering::Relaxed)
}

#[test]
fn a_push_survives_any_single_failure_and_any_lost_answer() {
    for number in 0..requests_of_a_push() {
        for fate in [Fate::Fails, Fate::LosesAnswer] {
            let (server, here, [_, second]) = begun();
            let faulty =
                Faulty::new(
                    server.clone(),
                    move |request| if request.number == number { fate } else { Fate::Well },
                );
            let report = push(&here.open(faulty), "threads/main", second)
                .unwrap_or_else(|error| panic!("{fate:?} at {number}: {error}"));
            assert_eq!(report.moved, ["threads/main"], "{fate:?} at {number}");
            assert_whole(&here.remote(&server));
            assert_fetchable(&server, "threads/main", second, 2);
        }
    }
}

#[test]
fn a_push_that_dies_at_any_request_leaves_the_old_state_or_the_new_one() {
    for number in 0..requests_of_a_push() {
        for fate in [Fate::Dies, Fate::DiesAfter] {
            let (server, here, [first, second]) = begun();
            let faulty = Faulty::new(server.clone(), move |request| match request.number {
                n if n < number => Fate::Well,
                n if n == number => fate,
                _ => Fate::Dies,
            });
            let died = push(&here.open(faulty), "threads/main", second);
            let remote = here.remote(&server);
            let now = remote.get_ref("threads/main").unwrap();
            assert!(now == Some(first) || now == Some(second), "{fate:?} at {number}: {now:?}");
            if died.is_ok() {
                assert_eq!(now, Some(second));
            }
            assert_whole(&remote);
            // Collections take away what it left, and nothing else; the next push goes through.
            (0..3).for_each(|_| _ = gc(&remote, &RUTHLESS));
            assert_whole(&remote);
            push(&remote, "threads/main", second).unwrap();
            (0..3).for_each(|_| _ = gc(&remote, &RUTHLESS));
            let stat = remote.stat().unwrap();
            assert_eq!((stat.writers, stat.condemned), (0, 0), "{fate:?} at {number}");
            assert_fetchable(&server, "threads/main", second, 2);
        }
    }
}

#[test]
fn a_push_that_was_cut_short_is_continued() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let note = here.note("threads/main", "large", 12_000, None);
    let faulty = Faulty::new(server.clone(), |request| {
        // The second time that packs are published.
        let dies = request.verb == "put" && request.key == "root" && request.number > 25;
        if dies { Fate::Dies } else { Fate::Well }
    });
    let died = push(&here.open(faulty), "threads/main", note);
    let whole = remote.push(
        &[crate::push::Pushed { name: "threads/main".to_owned(), target: note, seen: None, force: false }],
        &Notes,
        true,
        &Silent,
    );
    let left = whole.unwrap().objects;
    if died.is_err() {
        assert!(left <= 12_001, "{left}");
    }
    push(&remote, "threads/main", note).unwrap();
    assert_fetchable(&server, "threads/main", note, 1);
}

#[test]
fn a_collection_that_dies_at_any_request_harms_nothing() {
    // Something to delete, something to condemn, a stale lease.
    let begin = || {
        let (server, here, [_, second]) = begun();
        let remote = here.remote(&server);
        let dead = here.note("threads/dead", "dead", 3, None);
        push(&remote, "threads/dead", dead).unwrap();
        remote.force_ref("threads/dead", None);
        gc(&remote, &RUTHLESS);
        let faulty = Faulty::new(server.clone(), |request| {
            if request.verb == "put" && request.key.starts_with("refs/") { Fate::Dies } else { Fate::Well }
        });
        push(&here.open(faulty), "threads/main", second).unwrap_err();
        (server, here, second)
    };
    let (server, here, _) = begin();
    let counting = Faulty::new(server, |_| Fate::Well);
    gc(&here.open(counting.clone()), &RUTHLESS);
    for number in 0..counting.requests.load(Ordering::Relaxed) {
        for fate in [Fate::Dies, Fate::DiesAfter] {
            let (server, here, second) = begin();
            let faulty = Faulty::new(server.clone(), move |request| match request.number {
                n if n < number => Fate::Well,
                n if n == number => fate,
                _ => Fate::Dies,
            });
            let _ = here.open(faulty).gc(&RUTHLESS, &Notes, &Silent);
            let remote = here.remote(&server);
            assert_whole(&remote);
            push(&remote, "threads/main", second).unwrap();
            (0..4).for_each(|_| _ = gc(&remote, &RUTHLESS));
            assert_whole(&remote);
            assert_fetchable(&server, "threads/main", second, 2);
            let stat = remote.stat().unwrap();
            assert_eq!((stat.condemned, stat.writers), (0, 0), "{fate:?} at {number}");
        }
    }
}

#[test]
fn a_collection_beside_a_push_that_is_alive_at_any_request_takes_nothing_from_it() {
    for number in 0..requests_of_a_push() {
        let (server, here, [_, second]) = begun();
        let collector = here.remote(&server);
        let faulty = Faulty::new(server.clone(), move |request| {
            if request.number == number {
                (0..3).for_each(|_| _ = gc(&collector, &PROMPT));
            }
            Fate::Well
        });
        push(&here.open(faulty), "threads/main", second).unwrap();
        assert_whole(&here.remote(&server));
        assert_fetchable(&server, "threads/main", second, 2);
    }
}

#[test]
fn a_push_that_is_taken_for_dead_at_any_request_begins_anew_and_loses_nothing() {
    for number in 0..requests_of_a_push() {
        let (server, here, [_, second]) = begun();
        let collector = here.remote(&server);
        let faulty = Faulty::new(server.clone(), move |request| {
            if request.number == number {
                (0..3).for_each(|_| _ = gc(&collector, &RUTHLESS));
            }
            Fate::Well
        });
        push(&here.open(faulty), "threads/main", second)
            .unwrap_or_else(|error| panic!("at {number}: {error}"));
        let remote = here.remote(&server);
        assert_whole(&remote);
        (0..3).for_each(|_| _ = gc(&remote, &RUTHLESS));
        assert_whole(&remote);
        assert_fetchable(&server, "threads/main", second, 2);
    }
}

#[test]
fn writers_beside_each_other_lose_no_update() {
    let server = server();
    let stores: Vec<Local> = (0..4).map(|_| Local::new()).collect();
    stores[0].remote(&server);
    std::thread::scope(|scope| {
        for (n, local) in stores.iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                let remote = crate::remote::Remote::open(
                    server.clone(),
                    local.store.clone(),
                    crate::bucket::Patience { tries: 10, pause: std::time::Duration::from_millis(1) },
                )
                .unwrap();
                let mut last = None;
                for turn in 0..8 {
                    let note = local.note("threads/own", &format!("writer {n} turn {turn}"), 2, last);
                    push(&remote, &format!("threads/writer-{n}"), note).unwrap();
                    assert_eq!(remote.get_ref(&format!("threads/writer-{n}")).unwrap(), Some(note));
                    last = Some(note);
                }
            });
        }
        let collector = stores[0].remote(&server);
        scope.spawn(move || (0..6).for_each(|_| _ = collector.gc(&PROMPT, &Notes, &Silent)));
    });
    let remote = stores[0].remote(&server);
    assert_whole(&remote);
    for (n, local) in stores.iter().enumerate() {
        let last = local.store.refs().get("threads/own").unwrap().unwrap();
        assert_eq!(remote.get_ref(&format!("threads/writer-{n}")).unwrap(), Some(last));
    }
    let any = stores[2].store.refs().get("threads/own").unwrap().unwrap();
    assert_fetchable(&server, "threads/writer-2", any, 8);
}
