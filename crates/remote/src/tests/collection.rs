//! The failures that others had with collections in object stores, each by its name, and what a collection does when nothing goes wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cas_core::ObjectId;
use cas_core::progress::Silent;

use super::faulty::{Fate, Faulty};
use super::{Local, Notes, PROMPT, RUTHLESS, assert_fetchable, assert_whole, gc, push, server};
use crate::bucket::{Edit, Objects};
use crate::error::RemoteError;
use crate::gc::GcOptions;
use crate::lease::{Lease, LeaseBody};
use crate::refs::{RefBody, key_of};
use crate::remote::Remote;

impl Remote {
    /// What an administrator does: moves a ref anywhere, or takes it away.
    pub(super) fn force_ref(&self, name: &str, target: Option<ObjectId>) {
        let key = key_of(name).unwrap();
        self.bucket
            .change::<RefBody>(self.hasher(), &key, &|| Ok(()), &mut |_| {
                Ok(Edit::Set(RefBody::new(name, target)))
            })
            .unwrap();
    }
}

/// Calls `act` once, before the first request of this kind.
fn before(
    server: &Arc<dyn Objects>,
    verb: &'static str,
    key: &'static str,
    act: impl Fn() + Send + 'static,
) -> Arc<dyn Objects> {
    let done = AtomicBool::new(false);
    Faulty::new(server.clone(), move |request| {
        if request.verb == verb && request.key.starts_with(key) && !done.swap(true, Ordering::Relaxed) {
            act();
        }
        Fate::Well
    })
}

/// SlateDB RFC 0026: a writer stands still, a collection deletes what it wrote, it wakes up and its put succeeds.
#[test]
fn failure_1_a_stalled_writer_cannot_put_back_what_was_collected() {
    for key in ["refs/threads/main", "root", "index/", "packs/"] {
        let (server, here) = (server(), Local::new());
        let collector = here.remote(&server);
        let note = here.note("threads/main", "first", 3, None);
        let stalls = before(&server, "put", key, move || (0..4).for_each(|_| _ = gc(&collector, &RUTHLESS)));
        push(&here.open(stalls), "threads/main", note).unwrap();
        let remote = here.remote(&server);
        assert_whole(&remote);
        (0..4).for_each(|_| _ = gc(&remote, &RUTHLESS));
        assert_whole(&remote);
        assert_fetchable(&server, "threads/main", note, 1);
    }
}

/// The same with the last request on its way for hours: it arrives when everything was collected, and must not succeed.
#[test]
fn failure_1_a_request_that_arrives_late_does_not_move_a_ref() {
    for existing in [false, true] {
        let (server, here) = (server(), Local::new());
        let remote = here.remote(&server);
        let first = here.note("threads/main", "first", 3, None);
        if existing {
            push(&remote, "threads/main", first).unwrap();
        }
        let second = here.note("threads/main", "second", 3, Some(first));
        let late: Arc<std::sync::Mutex<Option<crate::bucket::Condition>>> = Arc::default();
        let key = key_of("threads/main").unwrap();
        let version = server.get(&key, 1 << 20).unwrap().map(|(_, version)| version);
        *late.lock().unwrap() =
            Some(version.map_or(crate::bucket::Condition::Absent, crate::bucket::Condition::Is));
        // The process dies with its put on the way.
        let dies = Faulty::new(server.clone(), |request| {
            if request.verb == "put" && request.key.starts_with("refs/") { Fate::Dies } else { Fate::Well }
        });
        push(&here.open(dies), "threads/main", second).unwrap_err();
        (0..4).for_each(|_| _ = gc(&remote, &RUTHLESS));
        let condition = late.lock().unwrap().take().unwrap();
        let arrived = server.put(&key, b"whatever it was".to_vec(), &condition).unwrap();
        assert_eq!(arrived, crate::bucket::Put::Refused, "existing: {existing}");
        assert_eq!(remote.get_ref("threads/main").unwrap(), existing.then_some(first));
        assert_whole(&remote);
    }
}

/// SlateDB RFC 0029: packs are there before anything names them, and a collection takes them for garbage.
#[test]
fn failure_2_packs_that_are_not_published_yet_are_not_collected() {
    for key in ["index/", "root", "refs/"] {
        let (server, here) = (server(), Local::new());
        let collector = here.remote(&server);
        let note = here.note("threads/main", "first", 3, None);
        let deleted = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = deleted.clone();
        let slow = before(&server, "put", key, move || {
            for _ in 0..4 {
                count.fetch_add(gc(&collector, &PROMPT).deleted, Ordering::Relaxed);
            }
        });
        push(&here.open(slow), "threads/main", note).unwrap();
        assert_eq!(deleted.load(Ordering::Relaxed), 0, "{key}");
        let remote = here.remote(&server);
        (0..4).for_each(|_| _ = gc(&remote, &RUTHLESS));
        assert_whole(&remote);
        assert_fetchable(&server, "threads/main", note, 1);
    }
}

/// Icechunk #2099: the answer to a conditional put is lost, it is put again, and that looks like somebody else's change.
#[test]
fn failure_3_a_lost_answer_is_not_taken_for_a_conflict() {
    for key in ["leases/", "root", "refs/"] {
        let (server, here) = (server(), Local::new());
        here.remote(&server);
        let note = here.note("threads/main", "first", 3, None);
        let loses = Faulty::new(server.clone(), move |request| {
            let lost = request.verb == "put" && request.key.starts_with(key) && request.number % 2 == 0;
            if lost { Fate::LosesAnswer } else { Fate::Well }
        });
        assert_eq!(push(&here.open(loses), "threads/main", note).unwrap().moved.len(), 1, "{key}");
        assert_fetchable(&server, "threads/main", note, 1);
    }
}

/// The same when somebody else has moved the ref on before we look: our update was done, and theirs follows it.
#[test]
fn failure_3_a_lost_answer_is_found_behind_a_later_change() {
    let (server, here) = (server(), Local::new());
    let other = here.remote(&server);
    let first = here.note("threads/main", "first", 1, None);
    let second = here.note("threads/main", "second", 1, Some(first));
    let moved = AtomicBool::new(false);
    let next_get = AtomicBool::new(false);
    let faulty = Faulty::new(server.clone(), move |request| {
        let is_ref = request.key.starts_with("refs/");
        if request.verb == "put" && is_ref && !moved.swap(true, Ordering::Relaxed) {
            next_get.store(true, Ordering::Relaxed);
            return Fate::LosesAnswer;
        }
        if is_ref && next_get.swap(false, Ordering::Relaxed) {
            push(&other, "threads/main", second).unwrap();
        }
        Fate::Well
    });
    let report = push(&here.open(faulty), "threads/main", first).unwrap();
    assert_eq!(report.moved, ["threads/main"]);
    assert_eq!(here.remote(&server).get_ref("threads/main").unwrap(), Some(second));
}

/// infino #549, icechunk #1369: a collection decides by what it saw, others change it, and it deletes or overwrites their work.
#[test]
fn failure_4_a_collection_with_an_old_view_deletes_and_overwrites_nothing() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let old = here.note("threads/old", "old", 3, None);
    push(&remote, "threads/old", old).unwrap();
    remote.force_ref("threads/old", None);
    // It has marked. Before it writes down what is garbage, that becomes a thread's again, and something new is published.
    let new = here.note("threads/new", "new", 3, Some(old));
    let writer = here.remote(&server);
    let stale = before(&server, "put", "root", move || {
        push(&writer, "threads/again", old).unwrap();
        push(&writer, "threads/new", new).unwrap();
    });
    let report = gc(&here.open(stale), &PROMPT);
    assert!(report.condemned > 0);
    for _ in 0..4 {
        gc(&remote, &RUTHLESS);
        assert_whole(&remote);
    }
    assert_fetchable(&server, "threads/again", old, 1);
    assert_fetchable(&server, "threads/new", new, 2);
    assert_eq!(remote.stat().unwrap().condemned, 0);
}

/// slatedb #604: who reads an old state loses its objects. The grace time is for that.
#[test]
fn failure_4_a_reader_has_the_grace_time_to_finish() {
    let (server, here, there) = (server(), Local::new(), Local::new());
    let remote = here.remote(&server);
    let old = here.note("threads/old", "old", 3, None);
    push(&remote, "threads/old", old).unwrap();
    let collector = here.remote(&server);
    let graceful = GcOptions { grace: Duration::from_secs(3600), ..RUTHLESS };
    // Between the reading of `root` and that of packs, the thread goes away and is collected.
    let slow = before(&server, "get", "packs/", move || {
        collector.force_ref("threads/old", None);
        for _ in 0..4 {
            assert_eq!(gc(&collector, &graceful).deleted, 0);
        }
    });
    there.open(slow).fetch(&super::transfer::everything(), &Notes, &Silent).unwrap();
    assert!(there.store.contains(&old).unwrap());
    // After it, reading says so.
    (0..4).for_each(|_| _ = gc(&remote, &RUTHLESS));
    assert_eq!(remote.stat().unwrap().packs, 0);
}

/// Duplicacy: the same content is pushed again while its first copy waits for being deleted.
#[test]
fn failure_5_content_that_is_pushed_again_survives_the_end_of_its_first_copy() {
    let (server, here, there) = (server(), Local::new(), Local::new());
    let remote = here.remote(&server);
    let note = here.note("threads/main", "the same", 3, None);
    push(&remote, "threads/main", note).unwrap();
    remote.force_ref("threads/main", None);
    assert!(gc(&remote, &PROMPT).condemned > 0);
    // Another machine has the same content, and pushes it under the same name.
    assert_eq!(there.note("threads/main", "the same", 3, None), note);
    let report = push(&there.remote(&server), "threads/main", note).unwrap();
    assert_eq!(report.objects, 4, "what is condemned does not count");
    let report = gc(&remote, &PROMPT);
    assert!(report.deleted >= 2 && report.pardoned == 0, "{report:?}");
    assert_whole(&remote);
    (0..3).for_each(|_| _ = gc(&remote, &RUTHLESS));
    assert_fetchable(&server, "threads/main", note, 1);
}

/// Garage: a clock that is wrong, or a time from the server that is old, must not decide about data.
#[test]
fn failure_6_clocks_that_are_wrong_cost_time_and_no_data() {
    for renewed in [0, u64::MAX / 2] {
        let (server, here) = (server(), Local::new());
        let remote = here.remote(&server);
        let dead = here.note("threads/dead", "dead", 3, None);
        push(&remote, "threads/dead", dead).unwrap();
        // A writer whose clock is years off, and which is at work all the same.
        let lease = Lease::take(&remote.bucket, remote.hasher(), 1, vec!["threads/main".to_owned()]).unwrap();
        let key = server.list("leases/").unwrap()[0].key.clone();
        remote
            .bucket
            .change::<LeaseBody>(remote.hasher(), &key, &|| Ok(()), &mut |found| {
                Ok(Edit::Set(LeaseBody { renewed, ..found.unwrap().clone() }))
            })
            .unwrap();
        remote.force_ref("threads/dead", None);
        let reports: Vec<_> = (0..4).map(|_| gc(&remote, &PROMPT)).collect();
        if renewed == 0 {
            assert_eq!(reports[0].revoked, 1);
            assert!(matches!(lease.renew(), Err(RemoteError::LeaseLost)));
        } else {
            // It looks as if it had renewed in the future: nobody deletes what it may rely on.
            assert!(reports.iter().all(|report| report.deleted == 0 && report.writers == 1), "{reports:?}");
        }
        let note = here.note("threads/main", "first", 3, None);
        push(&remote, "threads/main", note).unwrap();
        (0..4).for_each(|_| _ = gc(&remote, &PROMPT));
        assert_whole(&remote);
        assert_fetchable(&server, "threads/main", note, 1);
    }
}

#[test]
fn what_no_ref_leads_to_is_condemned_and_then_deleted() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let kept = here.note("threads/kept", "kept", 3, None);
    let gone = here.note("threads/gone", "gone", 3, None);
    push(&remote, "threads/kept", kept).unwrap();
    push(&remote, "threads/gone", gone).unwrap();
    let before = remote.stat().unwrap();
    remote.force_ref("threads/gone", None);
    let dry = GcOptions { dry_run: true, ..PROMPT };
    assert_eq!((gc(&remote, &dry).condemned, remote.stat().unwrap().condemned), (2, 0));
    assert_eq!(gc(&remote, &PROMPT).condemned, 2);
    assert_eq!(remote.stat().unwrap().bytes, before.bytes);
    let report = gc(&remote, &PROMPT);
    assert_eq!((report.deleted, report.live_objects), (2, 4));
    let after = remote.stat().unwrap();
    assert_eq!((after.packs, after.entries), (2, 4));
    assert_eq!(before.bytes - after.bytes, report.deleted_bytes);
    assert_whole(&remote);
}

#[test]
fn a_remote_that_lacks_something_is_not_collected() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let note = here.note("threads/main", "first", 3, None);
    push(&remote, "threads/main", note).unwrap();
    remote.force_ref("threads/broken", Some(ObjectId::from_bytes([9; 32])));
    remote.force_ref("threads/main", None);
    for _ in 0..3 {
        let report = gc(&remote, &RUTHLESS);
        assert_eq!((report.missing.len(), report.condemned, report.deleted), (1, 0, 0));
    }
    assert_eq!(remote.stat().unwrap().packs, 2);
}

#[test]
fn a_writer_at_work_keeps_what_was_condemned_after_it_began() {
    let (server, here) = (server(), Local::new());
    let remote = here.remote(&server);
    let note = here.note("threads/main", "first", 3, None);
    push(&remote, "threads/main", note).unwrap();
    let generation = remote.root().unwrap().generation;
    let lease = Lease::take(&remote.bucket, remote.hasher(), generation, Vec::new()).unwrap();
    remote.force_ref("threads/main", None);
    for _ in 0..3 {
        assert_eq!(gc(&remote, &PROMPT).deleted, 0);
    }
    lease.end().unwrap();
    assert!(gc(&remote, &PROMPT).deleted > 0);
}
