//! What is listed as written: the pages that were, and no page too few.

use memory_path::{MemoryError, NotHere, PAGE, Run, Standing, Tracker, pages_in};

use crate::common::{Victim, as_somebody, within};

/// A tracker that has seen everything once.
fn follow(victim: &Victim) -> Tracker {
    as_somebody(&victim.user, || {
        let mut tracker = Tracker::start(victim.pid()).unwrap();
        look(&mut tracker);
        tracker
    })
}

/// Registers and lists, as a round does.
fn look(tracker: &mut Tracker) -> Vec<Run> {
    Standing::with(tracker.pid(), |standing| {
        tracker.register(standing)?;
        tracker.written(standing)
    })
    .unwrap()
}

fn look_as(victim: &Victim, tracker: &mut Tracker) -> Vec<Run> {
    as_somebody(&victim.user, || look(tracker))
}

/// Lists without registering anything, as in a freeze that somebody else has made.
fn look_only(victim: &Victim, tracker: &mut Tracker) -> Vec<Run> {
    as_somebody(&victim.user, || Standing::with(tracker.pid(), |standing| tracker.written(standing)).unwrap())
}

fn page(run: Run, number: u64) -> Run {
    Run::page(run.start + number * PAGE)
}

#[test]
fn pages_that_were_written_are_listed_once_and_no_others() {
    let mut victim = Victim::new();
    let pages = victim.pages(32);
    let mut tracker = follow(&victim);
    assert_eq!(within(&look_as(&victim, &mut tracker), pages), []);
    victim.write(page(pages, 3).start, 1);
    victim.write(page(pages, 30).start, 2);
    assert_eq!(within(&look_as(&victim, &mut tracker), pages), [page(pages, 3), page(pages, 30)]);
    assert_eq!(within(&look_as(&victim, &mut tracker), pages), []);
    // By the kernel on its behalf.
    victim.does("read-file", &[page(pages, 7).start, 2]);
    let (start, end) = (page(pages, 7).start, page(pages, 8).end);
    assert_eq!(within(&look_as(&victim, &mut tracker), pages), [Run { start, end }]);
}

#[test]
fn a_mapping_that_is_new_counts_as_written_until_it_is_followed() {
    let mut victim = Victim::new();
    let old = victim.pages(8);
    let mut tracker = follow(&victim);
    // Right beside one that is followed, if the kernel puts it there.
    let new = victim.pages(8);
    for _ in 0..2 {
        let listed = look_only(&victim, &mut tracker);
        assert_eq!((within(&listed, old), within(&listed, new)), (vec![], vec![new]));
    }
    assert_eq!(within(&look_as(&victim, &mut tracker), new), [new]);
    assert_eq!(within(&look_as(&victim, &mut tracker), new), []);
    victim.write(page(new, 5).start, 9);
    assert_eq!(within(&look_as(&victim, &mut tracker), new), [page(new, 5)]);
}

#[test]
fn a_mapping_that_was_emptied_and_filled_again_is_listed() {
    let mut victim = Victim::new();
    let pages = victim.pages(16);
    let mut tracker = follow(&victim);
    victim.does("drop", &[pages.start, 4]);
    assert_eq!(within(&look_as(&victim, &mut tracker), pages), []);
    victim.write(page(pages, 2).start, 1);
    assert_eq!(within(&look_as(&victim, &mut tracker), pages), [page(pages, 2)]);
}

#[test]
fn growing_mappings_are_never_split() {
    let mut victim = Victim::new();
    let mut tracker = follow(&victim);
    victim.does("grow", &[]);
    for _ in 0..300 {
        look_as(&victim, &mut tracker);
    }
    assert!(victim.number("rounds", &[]) > 10);
    assert_eq!(victim.number("errors", &[]), 0, "an mremap failed");
}

#[test]
fn more_pieces_than_fit_into_one_answer_are_all_listed() {
    let mut victim = Victim::new();
    let count = 50_000;
    let start = victim.number("map", &[count]);
    let whole = Run { start, end: start + count * PAGE };
    let mut tracker = follow(&victim);
    for _ in 0..2 {
        victim.does("fill", &[start, count, 2, 1]);
        assert_eq!(pages_in(&within(&look_as(&victim, &mut tracker), whole)), count / 2);
    }
    assert_eq!(within(&look_as(&victim, &mut tracker), whole), []);
}

/// `mremap` takes the registration away from the mapping that it makes, also if that has merged with a neighbour, whose pages
/// keep their bits. A write does not clear them then.
#[test]
fn bits_that_outlive_their_registration_are_not_believed() {
    for registers_before_looking in [false, true] {
        let mut victim = Victim::new();
        let both = victim.pages(32);
        let (stays, goes) =
            (Run { end: page(both, 16).start, ..both }, Run { start: page(both, 16).start, ..both });
        let elsewhere = victim.number("map", &[16]);
        victim.does("move", &[goes.start, 16, elsewhere]);
        let mut tracker = follow(&victim);
        assert_eq!(within(&look_as(&victim, &mut tracker), stays), []);
        // Back beside its first half, with which it becomes one again.
        victim.does("move", &[elsewhere, 16, goes.start]);
        victim.write(page(stays, 3).start, 7);
        victim.write(page(goes, 3).start, 7);
        let listed = match registers_before_looking {
            true => look_as(&victim, &mut tracker),
            false => look_only(&victim, &mut tracker),
        };
        for written in [page(stays, 3), page(goes, 3)] {
            assert_eq!(within(&listed, written), [written], "registered before: {registers_before_looking}");
        }
        // And from then on it is followed as before.
        look_as(&victim, &mut tracker);
        victim.write(page(stays, 5).start, 8);
        assert_eq!(within(&look_as(&victim, &mut tracker), both), [page(stays, 5)]);
    }
}

#[test]
fn another_tracker_begins_with_everything() {
    let mut victim = Victim::new();
    let pages = victim.pages(16);
    drop(follow(&victim));
    let mut second = as_somebody(&victim.user, || Tracker::start(victim.pid()).unwrap());
    assert_eq!(within(&look_as(&victim, &mut second), pages), [pages]);
    assert_eq!(within(&look_as(&victim, &mut second), pages), []);
}

#[test]
fn a_program_that_follows_another_is_followed_anew() {
    let mut victim = Victim::new();
    victim.pages(4);
    let mut tracker = follow(&victim);
    victim.tell("exec");
    victim.is_ready_again();
    let pages = victim.pages(8);
    assert_eq!(within(&look_only(&victim, &mut tracker), pages), [pages]);
    let registered = as_somebody(&victim.user, || {
        Standing::with(victim.pid(), |standing| tracker.register(standing)).unwrap()
    });
    assert_eq!(registered.mappings, 0, "the tracker is of the program before");
    let mut tracker = as_somebody(&victim.user, || Tracker::start(victim.pid()).unwrap());
    assert_eq!(within(&look_as(&victim, &mut tracker), pages), [pages]);
    victim.write(page(pages, 1).start, 3);
    assert_eq!(within(&look_as(&victim, &mut tracker), pages), [page(pages, 1)]);
}

#[test]
fn what_may_not_be_read_is_listed_when_it_may() {
    let mut victim = Victim::new();
    let pages = victim.pages(4);
    let mut tracker = follow(&victim);
    victim.write(page(pages, 1).start, 3);
    victim.does("protect", &[pages.start, 4, 0]);
    assert_eq!(within(&look_as(&victim, &mut tracker), pages), []);
    victim.does("protect", &[pages.start, 4, 3]);
    assert_eq!(within(&look_as(&victim, &mut tracker), pages), [page(pages, 1)]);
}

#[test]
fn a_process_has_one_tracker() {
    let victim = Victim::new();
    let _first = follow(&victim);
    as_somebody(&victim.user, || {
        let mut second = Tracker::start(victim.pid()).unwrap();
        let error = Standing::with(victim.pid(), |standing| second.register(standing)).unwrap_err();
        assert!(matches!(error, MemoryError::NotHere { reason: NotHere::FollowedTwice, .. }), "{error}");
    });
}

#[test]
fn whoever_would_be_harmed_is_left_alone() {
    for (command, reason) in [("ignore-trap", NotHere::TrapIgnored), ("filter", NotHere::Filtered)] {
        let mut victim = Victim::new();
        victim.does(command, &[]);
        let error = as_somebody(&victim.user, || Tracker::start(victim.pid()).unwrap_err());
        assert!(
            matches!(&error, MemoryError::NotHere { reason: found, .. } if *found == reason),
            "{command}: {error}"
        );
    }
}

#[test]
fn whoever_administers_the_machine_follows_one_that_is_filtered() {
    let mut victim = Victim::new();
    let pages = victim.pages(4);
    // Everything but reading and writing would end it.
    victim.does("filter", &[]);
    let pid = victim.pid();
    let started = Tracker::start(pid);
    if !rustix::process::geteuid().is_root() {
        assert!(
            matches!(started, Err(MemoryError::NotHere { reason: NotHere::Filtered, .. })),
            "{started:?}"
        );
        return;
    }
    let mut tracker = started.unwrap();
    let mut look = || {
        Standing::with(pid, |standing| {
            tracker.register(standing)?;
            tracker.written(standing)
        })
        .unwrap()
    };
    assert_eq!(within(&look(), pages), [pages]);
    victim.write(page(pages, 1).start, 3);
    assert_eq!(within(&look(), pages), [page(pages, 1)]);
    let status = base::proc::read_text(pid, "status").unwrap().unwrap();
    assert_eq!(base::proc::number_of::<u32>(&status, "Seccomp"), Some(1));
    // Its filter is asked again.
    victim.tell("errors");
    victim.tell("fork");
    assert_eq!(victim.ended_by(), Some(9));
}
