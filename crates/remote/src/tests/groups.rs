//! Writers that commit in groups: whoever dies, stalls or is given up meanwhile, nothing is lost, and nothing is published that is not there.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use cas_core::ObjectId;
use cas_core::progress::Silent;

use super::faulty::{Fate, Faulty};
use super::{Local, Notes, PROMPT, RUTHLESS, assert_fetchable, assert_whole, gc, push, server};
use crate::bucket::{Condition, Edit, Objects, Patience, Put};
use crate::error::RemoteError;
use crate::lease::{Lease, LeaseBody};
use crate::offer::Offer;
use crate::remote::Remote;
use crate::root::{ROOT, Root};
use crate::token::Token;
use crate::turn::Watch;

/// Somebody else who has a lease, and does nothing: from now on nobody is alone.
fn bystander(remote: &Remote) {
    let generation = remote.root().unwrap().generation;
    drop(Lease::take(&remote.bucket, remote.hasher(), generation, Vec::new()).unwrap());
}

/// Somebody takes the turn, and dies.
fn die_leading(remote: &Remote) {
    let root = Root::read(&remote.bucket, remote.hasher()).unwrap().write();
    remote.take_turn(&mut Watch::new(root), Token::random().unwrap()).unwrap().unwrap();
}

/// A writer that is dead as soon as what it pushes is on offer.
fn leave_offer(server: &Arc<dyn Objects>, here: &Local, name: &str, note: ObjectId) {
    let remote = here.remote(server);
    let before = offers(&remote);
    if before == 0 {
        die_leading(&remote);
    }
    let mut leases = 0;
    let dies = Faulty::new(server.clone(), move |request| {
        leases += u32::from(request.verb == "put" && request.key.starts_with("leases/"));
        match leases {
            0 | 1 => Fate::Well,
            2 if request.verb == "put" && request.key.starts_with("leases/") => Fate::DiesAfter,
            _ => Fate::Dies,
        }
    });
    push(&here.open(dies), name, note).unwrap_err();
    assert_eq!(offers(&remote), before + 1, "nothing is on offer");
}

/// How many offers there are that were not taken up.
fn offers(remote: &Remote) -> usize {
    let taken = remote.root().unwrap().taken;
    let leases = crate::lease::list(&remote.bucket, remote.hasher()).unwrap();
    let offers = leases.iter().filter_map(|(_, lease)| lease.body().offer.as_ref());
    offers.filter(|offer| !taken.contains(&offer.id)).count()
}

/// A remote with one note, one that is on offer by somebody who is dead, and one that nobody has pushed yet.
fn begun() -> (Arc<dyn Objects>, Local, [ObjectId; 3]) {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let notes = ["first", "second", "third"].map(|text| here.note(&format!("threads/{text}"), text, 3, None));
    push(&remote, "threads/first", notes[0]).unwrap();
    bystander(&remote);
    leave_offer(&server, &here, "threads/second", notes[1]);
    (server, here, notes)
}

fn requests_of_a_push() -> u64 {
    let (server, here, [_, _, third]) = begun();
    let counting = Faulty::new(server, |_| Fate::Well);
    push(&here.open(counting.clone()), "threads/third", third).unwrap();
    counting.requests.load(Ordering::Relaxed)
}

/// Everything that the index names is there, and nothing is in it twice.
#[track_caller]
fn assert_index_true(server: &Arc<dyn Objects>, remote: &Remote) {
    let there: HashSet<String> = server.list("packs/").unwrap().into_iter().map(|one| one.key).collect();
    let mut entries = HashSet::new();
    let view = remote.view().unwrap();
    view.index
        .for_each(&mut |_, entry| {
            assert!(there.contains(&format!("packs/{}", entry.pack)), "the index names a pack that is gone");
            assert!(entries.insert((entry.id, entry.pack)), "an entry is in the index twice");
        })
        .unwrap();
    assert_whole(remote);
}

/// After collections nothing is left of whatever happened.
#[track_caller]
fn assert_tidy(server: &Arc<dyn Objects>, remote: &Remote) {
    for _ in 0..5 {
        gc(remote, &RUTHLESS);
        assert_index_true(server, remote);
    }
    let stat = remote.stat().unwrap();
    assert_eq!((stat.writers, stat.condemned), (0, 0));
    assert_eq!(stat.segments.values().sum::<usize>(), server.list("index/").unwrap().len());
}

#[test]
fn many_writers_need_few_changes_of_root() {
    const WRITERS: usize = 16;
    let (server, here) = (server(), Local::new());
    here.remote(&server);
    let notes: Vec<ObjectId> =
        (0..WRITERS).map(|n| here.note(&format!("threads/{n}"), &format!("writer {n}"), 2, None)).collect();
    let (start, changes) = (Barrier::new(WRITERS), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (n, note) in notes.iter().enumerate() {
            let (server, store, start, changes) = (&server, &here.store, &start, &changes);
            scope.spawn(move || {
                let seen = Arc::new(AtomicU64::new(0));
                let counts = seen.clone();
                let counting = Faulty::new(server.clone(), move |request| {
                    let change = request.verb == "put" && request.key == ROOT;
                    counts.fetch_add(u64::from(change), Ordering::Relaxed);
                    Fate::Well
                });
                let patience = Patience { tries: 10, pause: Duration::from_millis(20) };
                let remote = Remote::open(counting, store.clone(), patience).unwrap();
                start.wait();
                let report = push(&remote, &format!("threads/{n}"), *note).unwrap();
                assert_eq!((report.objects, report.moved.len()), (3, 1));
                changes.fetch_add(seen.load(Ordering::Relaxed), Ordering::Relaxed);
            });
        }
    });
    let changes = changes.into_inner();
    assert!(changes <= WRITERS as u64 / 2, "{changes} changes of root by {WRITERS} writers");
    let remote = here.remote(&server);
    for (n, note) in notes.iter().enumerate() {
        assert_eq!(remote.get_ref(&format!("threads/{n}")).unwrap(), Some(*note));
    }
    assert_eq!(remote.stat().unwrap().writers, 0);
    assert_index_true(&server, &remote);
    assert_fetchable(&server, "threads/7", notes[7], 1);
    // Whoever is next forgets what they were: nobody offers it any more.
    let more = here.note("threads/more", "more", 1, None);
    push(&remote, "threads/more", more).unwrap();
    assert_eq!(remote.root().unwrap().taken, []);
}

#[test]
fn what_a_dead_writer_offered_is_published_by_the_next_one_and_once() {
    let (server, here, [_, second, third]) = begun();
    let remote = here.remote(&server);
    push(&remote, "threads/third", third).unwrap();
    assert_eq!(offers(&remote), 0);
    let fourth = here.note("threads/fourth", "fourth", 3, None);
    push(&remote, "threads/fourth", fourth).unwrap();
    assert_index_true(&server, &remote);
    assert_eq!(remote.stat().unwrap().entries, 4 * 4);
    // The one who died need not send it again.
    assert_eq!(push(&remote, "threads/second", second).unwrap().objects, 0);
    assert_fetchable(&server, "threads/second", second, 1);
    // As long as its lease is there, `root` remembers.
    assert_eq!((offers(&remote), remote.root().unwrap().taken.len()), (0, 1));
    assert_tidy(&server, &remote);
    let fifth = here.note("threads/fifth", "fifth", 3, None);
    push(&remote, "threads/fifth", fifth).unwrap();
    assert_eq!(remote.root().unwrap().taken, []);
}

#[test]
fn one_that_leads_and_dies_at_any_request_holds_nobody_up() {
    for number in 0..requests_of_a_push() {
        for fate in [Fate::Dies, Fate::DiesAfter] {
            let (server, here, [_, second, third]) = begun();
            let dies = Faulty::new(server.clone(), move |request| match request.number {
                n if n < number => Fate::Well,
                n if n == number => fate,
                _ => Fate::Dies,
            });
            let died = push(&here.open(dies), "threads/third", third);
            let remote = here.remote(&server);
            assert_index_true(&server, &remote);
            let fourth = here.note("threads/fourth", "fourth", 3, None);
            push(&remote, "threads/fourth", fourth).unwrap();
            assert_eq!(offers(&remote), 0, "{fate:?} at {number}");
            assert_index_true(&server, &remote);
            if died.is_ok() {
                assert_fetchable(&server, "threads/third", third, 1);
            }
            for (name, note) in [("threads/second", second), ("threads/third", third)] {
                push(&remote, name, note).unwrap();
            }
            assert_tidy(&server, &remote);
            assert_fetchable(&server, "threads/second", second, 1);
            assert_fetchable(&server, "threads/fourth", fourth, 1);
        }
    }
}

#[test]
fn any_single_failure_and_any_lost_answer_is_survived() {
    for number in 0..requests_of_a_push() {
        for fate in [Fate::Fails, Fate::LosesAnswer] {
            let (server, here, [_, _, third]) = begun();
            let faulty =
                Faulty::new(
                    server.clone(),
                    move |request| if request.number == number { fate } else { Fate::Well },
                );
            let report = push(&here.open(faulty), "threads/third", third)
                .unwrap_or_else(|error| panic!("{fate:?} at {number}: {error}"));
            assert_eq!(report.moved, ["threads/third"], "{fate:?} at {number}");
            assert_index_true(&server, &here.remote(&server));
            assert_fetchable(&server, "threads/third", third, 1);
        }
    }
}

/// The one who leads stands still between any two requests. Meanwhile the writer whose offer it may have read is given up and what it sent
/// is deleted, or even the leader itself; or others go on.
#[test]
fn one_that_leads_and_stands_still_publishes_nothing_that_was_collected() {
    for number in 0..requests_of_a_push() {
        for case in 0..3 {
            let (server, here, [first, _, third]) = begun();
            let other = here.remote(&server);
            // What is on offer was condemned when nothing named it, and everybody who is there was not heard of for long: it can go at once.
            assert!(gc(&other, &PROMPT).condemned > 0);
            let old: Vec<String> = server.list("leases/").unwrap().into_iter().map(|one| one.key).collect();
            for key in &old {
                renewed_at(&other, key, 0);
            }
            if case > 0 {
                die_leading(&other);
            }
            let fourth = here.note("threads/fourth", "fourth", 3, None);
            let stalled = Arc::new(AtomicBool::new(false));
            let stalls_now = stalled.clone();
            let stalls = Faulty::new(server.clone(), move |request| {
                if request.number == number {
                    stalls_now.store(true, Ordering::Relaxed);
                    let options = if case == 1 { RUTHLESS } else { PROMPT };
                    (0..3).for_each(|_| _ = gc(&other, &options));
                    if case == 2 {
                        push(&other, "threads/fourth", fourth).unwrap();
                    }
                }
                Fate::Well
            });
            push(&here.open(stalls), "threads/third", third)
                .unwrap_or_else(|error| panic!("case {case} at {number}: {error}"));
            let remote = here.remote(&server);
            assert_index_true(&server, &remote);
            assert_tidy(&server, &remote);
            assert_fetchable(&server, "threads/first", first, 1);
            assert_fetchable(&server, "threads/third", third, 1);
            if case == 2 && stalled.load(Ordering::Relaxed) {
                assert_fetchable(&server, "threads/fourth", fourth, 1);
            }
        }
    }
}

fn renewed_at(remote: &Remote, key: &str, renewed: u64) {
    remote
        .bucket
        .change::<LeaseBody>(remote.hasher(), key, &|| Ok(()), &mut |found| {
            Ok(Edit::Set(LeaseBody { renewed, ..found.unwrap().clone() }))
        })
        .unwrap();
}

/// The other way round: a writer has made its offer and stands still for hours, others take it up, collect, and go on.
#[test]
fn a_writer_that_comes_back_after_hours_finds_its_offer_taken_up_or_begins_anew() {
    for options in [None, Some(PROMPT), Some(RUTHLESS)] {
        for pushes_first in [false, true] {
            let (server, here, [_, _, third]) = begun();
            let other = here.remote(&server);
            let fourth = here.note("threads/fourth", "fourth", 3, None);
            let (mut leases, mut slept) = (0, false);
            let changes = Arc::new(AtomicU64::new(0));
            let counts = changes.clone();
            let stalls = Faulty::new(server.clone(), move |request| {
                let put = request.verb == "put";
                counts.fetch_add(u64::from(put && request.key == ROOT), Ordering::Relaxed);
                leases += u32::from(put && request.key.starts_with("leases/"));
                if leases == 2 && request.key == ROOT && !slept {
                    slept = true;
                    if pushes_first {
                        push(&other, "threads/fourth", fourth).unwrap();
                    }
                    if let Some(options) = &options {
                        (0..4).for_each(|_| _ = gc(&other, options));
                    }
                    if !pushes_first {
                        push(&other, "threads/fourth", fourth).unwrap();
                    }
                }
                Fate::Well
            });
            let report = push(&here.open(stalls), "threads/third", third).unwrap();
            assert_eq!(report.moved, ["threads/third"]);
            let remote = here.remote(&server);
            if options.is_none_or(|options| options.lease_time > Duration::ZERO) {
                assert_eq!(changes.load(Ordering::Relaxed), 0, "others did it");
            }
            assert_index_true(&server, &remote);
            assert_tidy(&server, &remote);
            assert_fetchable(&server, "threads/third", third, 1);
            assert_fetchable(&server, "threads/fourth", fourth, 1);
        }
    }
}

/// A collection has revoked a writer and died before it has changed `root`: the offer counts no more.
#[test]
fn what_a_revoked_writer_offers_is_not_taken_up() {
    let (server, here, [_, _, third]) = begun();
    let dies = Faulty::new(server.clone(), |request| {
        if request.verb == "put" && request.key == ROOT { Fate::Dies } else { Fate::Well }
    });
    here.open(dies).gc(&RUTHLESS, &Notes, &Silent).unwrap_err();
    let remote = here.remote(&server);
    push(&remote, "threads/third", third).unwrap();
    assert_eq!(offers(&remote), 1);
    assert_eq!(remote.stat().unwrap().entries, 2 * 4);
    assert_tidy(&server, &remote);
}

/// Somebody may have read it, and their change of `root` may be on its way.
#[test]
fn a_lease_with_an_offer_that_is_not_settled_is_not_given_back() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    for settled in [false, true] {
        let lease = Lease::take(&remote.bucket, remote.hasher(), 1, Vec::new()).unwrap();
        lease.offer(&Offer::new(&[], Vec::new()).unwrap()).unwrap();
        if settled {
            lease.settle();
        }
        lease.end().unwrap();
        assert_eq!(server.list("leases/").unwrap().len(), 1, "settled: {settled}");
    }
}

#[test]
fn what_cannot_be_read_or_makes_no_sense_stops_no_writer() {
    let (server, here, [_, _, third]) = begun();
    let remote = here.remote(&server);
    push(&remote, "threads/third", third).unwrap();
    let taken = remote.root().unwrap().taken;
    let put = |key: &str, bytes: &[u8]| {
        server.delete(key).unwrap();
        assert!(matches!(server.put(key, bytes.to_vec(), &Condition::Absent).unwrap(), Put::Done(_)));
    };
    put("turn", b"nobody's");
    put("leases/00000000000000000000000000000001", b"no lease");
    let lease = Lease::take(&remote.bucket, remote.hasher(), 1, Vec::new()).unwrap();
    let mut senseless = serde_json::to_value(Offer::new(&[], Vec::new()).unwrap()).unwrap();
    senseless["entries"] = "00".into();
    lease.offer(&serde_json::from_value(senseless).unwrap()).unwrap();
    let fourth = here.note("threads/fourth", "fourth", 3, None);
    push(&remote, "threads/fourth", fourth).unwrap();
    assert_index_true(&server, &remote);
    assert_fetchable(&server, "threads/fourth", fourth, 1);
    // What was taken up before may be in the lease that nobody can read.
    let now = remote.root().unwrap().taken;
    assert!(taken.iter().all(|id| now.contains(id)), "{taken:?} {now:?}");
    let refused = remote.gc(&PROMPT, &Notes, &Silent);
    assert!(matches!(refused, Err(RemoteError::Damaged { .. })), "{refused:?}");
}

#[test]
fn segments_are_merged_by_one() {
    for renewed in [crate::lease::now(), 0] {
        let (server, here) = (server(), Local::new());
        let remote = here.remote(&server);
        // Somebody says that it merges.
        let lease = Lease::take(&remote.bucket, remote.hasher(), 1, Vec::new()).unwrap();
        lease.set_merging(true);
        lease.renew().unwrap();
        let key = server.list("leases/").unwrap()[0].key.clone();
        renewed_at(&remote, &key, renewed);
        for n in 0..12 {
            let note = here.note("threads/main", &format!("note {n}"), 1, None);
            push(&remote, &format!("threads/{n}"), note).unwrap();
        }
        let segments = remote.root().unwrap().segments.len();
        assert_eq!(segments, if renewed == 0 { 1 } else { 12 });
        assert_index_true(&server, &remote);
        server.delete(&key).unwrap();
        let note = here.note("threads/main", "last", 1, None);
        push(&remote, "threads/last", note).unwrap();
        assert!(remote.root().unwrap().segments.len() < 3);
        assert_index_true(&server, &remote);
    }
}

#[test]
fn a_remote_says_that_it_is_newer_when_an_offer_was_taken_up() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let first = here.note("threads/first", "first", 3, None);
    push(&remote, "threads/first", first).unwrap();
    assert_eq!(remote.root().unwrap().version, 1);
    let (server, here, [_, _, third]) = begun();
    let remote = here.remote(&server);
    push(&remote, "threads/third", third).unwrap();
    assert_eq!(remote.root().unwrap().version, 2);
    // One that is newer still is neither read nor written, not even by who is at work already.
    remote
        .bucket
        .change::<Root>(remote.hasher(), ROOT, &|| Ok(()), &mut |found| {
            Ok(Edit::Set(Root { version: 3, ..found.unwrap().clone() }))
        })
        .unwrap();
    let lease = Lease::take(&remote.bucket, remote.hasher(), 1, Vec::new()).unwrap();
    let changed = remote.change_root(&lease, &mut |_| true);
    assert!(matches!(changed, Err(RemoteError::TooNew { found: 3, supported: 2 })), "{changed:?}");
    let note = here.note("threads/more", "more", 1, None);
    assert!(matches!(push(&remote, "threads/more", note), Err(RemoteError::TooNew { .. })));
}

/// A push of many objects offers segments of its own.
#[test]
fn many_entries_are_offered_as_a_segment() {
    let (server, here, [_, second, _]) = begun();
    let many = here.note("threads/many", "many", 300, None);
    leave_offer(&server, &here, "threads/many", many);
    let remote = here.remote(&server);
    let fourth = here.note("threads/fourth", "fourth", 3, None);
    push(&remote, "threads/fourth", fourth).unwrap();
    assert_eq!(remote.stat().unwrap().entries, 3 * 4 + 301);
    assert_eq!(push(&remote, "threads/many", many).unwrap().objects, 0);
    push(&remote, "threads/second", second).unwrap();
    assert_tidy(&server, &remote);
    assert_fetchable(&server, "threads/many", many, 1);
}
