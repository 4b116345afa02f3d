//! Rounds into a sink, and what is promised when something goes wrong between.

use memory_path::{Ahead, Frozen, MemoryError, PAGE, Process, Sample, Settled, Standing, Until, Verdict};

use crate::common::{Kept, Victim, as_somebody};

fn settle(ahead: &mut Ahead, pid: i32, sink: &mut Kept) -> Settled {
    let rest = Standing::with(pid, |standing| ahead.last_look(&[standing], Sample::All)).unwrap();
    ahead.settle(rest, sink).unwrap()
}

#[track_caller]
fn trusted(settled: &Settled, at_least: u64) {
    match settled.verdict {
        Verdict::Trusted { compared } => assert!(compared >= at_least, "{settled:?}"),
        Verdict::Stale { .. } => panic!("{settled:?}"),
    }
}

fn byte(sink: &Kept, process: Process, address: u64) -> u8 {
    sink.pages[&(process.task, address)][0]
}

#[test]
fn rounds_copy_what_was_written_and_the_last_look_the_rest() {
    let mut victim = Victim::new();
    let pages = victim.pages(5000);
    let process = Process::of(victim.pid()).unwrap();
    let (user, mut sink, mut ahead) = (victim.user.clone(), Kept::default(), Ahead::new());
    as_somebody(&user, || {
        let until = Until { pages: 100, rounds: 5 };
        let rounds = ahead.rounds(|| Ok(vec![process]), until, &mut sink).unwrap();
        assert!(rounds[0].copied > 5000 && rounds.len() == 2, "{rounds:?}");
        assert!(rounds[1].copied < 100 && rounds[1].left_out.is_empty(), "{rounds:?}");
        victim.write(pages.start + 7 * PAGE, 0x77);
        ahead.prepare(100);
        let settled = settle(&mut ahead, process.pid, &mut sink);
        trusted(&settled, 4999);
        assert_eq!(settled.tasks, [process.task]);
        assert!(settled.copied < 100, "{settled:?}");
    });
    assert_eq!(byte(&sink, process, pages.start + 7 * PAGE), 0x77);
    assert_eq!(byte(&sink, process, pages.start + 8 * PAGE), 0x11);
}

#[test]
fn what_did_not_reach_the_sink_is_owed() {
    let mut victim = Victim::new();
    let pages = victim.pages(2000);
    let process = Process::of(victim.pid()).unwrap();
    let (user, mut sink, mut ahead) = (victim.user.clone(), Kept::default(), Ahead::new());
    as_somebody(&user, || {
        sink.fails_after = Some(3);
        let error = ahead.round(&[process], &mut sink).unwrap_err();
        assert!(matches!(error, MemoryError::Sink { .. }), "{error}");
        ahead.round(&[process], &mut sink).unwrap();
        trusted(&settle(&mut ahead, process.pid, &mut sink), 1500);

        // A rest that nobody settles.
        victim.write(pages.start + PAGE, 0x22);
        drop(Standing::with(process.pid, |standing| ahead.last_look(&[standing], Sample::Pages(3))).unwrap());
        trusted(&settle(&mut ahead, process.pid, &mut sink), 1500);
    });
    assert_eq!(byte(&sink, process, pages.start + PAGE), 0x22);
}

#[test]
fn a_page_that_is_not_what_was_kept_is_found() {
    let mut victim = Victim::new();
    let pages = victim.pages(64);
    let process = Process::of(victim.pid()).unwrap();
    let (user, mut sink, mut ahead) = (victim.user.clone(), Kept::default(), Ahead::new());
    as_somebody(&user, || {
        ahead.round(&[process], &mut sink).unwrap();
        let address = pages.start + 9 * PAGE;
        sink.pages.get_mut(&(process.task, address)).unwrap()[4095] ^= 1;
        let settled = settle(&mut ahead, process.pid, &mut sink);
        assert_eq!(settled.verdict, Verdict::Stale { task: process.task, address });
        // One that is missing is no better.
        sink.pages.remove(&(process.task, address));
        let settled = settle(&mut ahead, process.pid, &mut sink);
        assert_eq!(settled.verdict, Verdict::Stale { task: process.task, address });
        ahead.give_up(process.task);
        assert_eq!(ahead.tasks().count(), 0);
    });
}

#[test]
fn a_page_that_cannot_be_read_any_more_is_forgotten_and_owed() {
    let mut victim = Victim::new();
    let pages = victim.pages(16);
    let process = Process::of(victim.pid()).unwrap();
    let (user, mut sink, mut ahead) = (victim.user.clone(), Kept::default(), Ahead::new());
    as_somebody(&user, || {
        ahead.round(&[process], &mut sink).unwrap();
        victim.does("protect", &[pages.start, 16, 0]);
        ahead.round(&[process], &mut sink).unwrap();
        victim.does("protect", &[pages.start, 16, 3]);
        victim.write(pages.start, 0x33);
        trusted(&settle(&mut ahead, process.pid, &mut sink), 15);
    });
    assert_eq!(byte(&sink, process, pages.start), 0x33);
}

/// The kernel remembers in the place of such a page that it was protected, and it looks like one that is swapped out and clean.
#[test]
fn a_page_of_a_file_that_was_changed_and_thrown_away_is_the_files_again() {
    let mut victim = Victim::new();
    let start = victim.number("map-file", &[2]);
    victim.write(start, 0x55);
    let process = Process::of(victim.pid()).unwrap();
    let (user, mut sink, mut ahead) = (victim.user.clone(), Kept::default(), Ahead::new());
    as_somebody(&user, || {
        ahead.round(&[process], &mut sink).unwrap();
        ahead.round(&[process], &mut sink).unwrap();
        victim.does("drop", &[start, 1]);
        trusted(&settle(&mut ahead, process.pid, &mut sink), 1);
        victim.write(start, 0x66);
        trusted(&settle(&mut ahead, process.pid, &mut sink), 1);
    });
    assert_eq!(byte(&sink, process, start), 0x66);
}

#[test]
fn children_are_copied_whole_and_followed_from_then_on() {
    let mut victim = Victim::new();
    let pages = victim.pages(256);
    let parent = Process::of(victim.pid()).unwrap();
    let child = i32::try_from(victim.number("fork", &[])).unwrap();
    let child = Process::of(child).unwrap();
    let (user, mut sink, mut ahead) = (victim.user.clone(), Kept::default(), Ahead::new());
    as_somebody(&user, || {
        ahead.round(&[parent], &mut sink).unwrap();
        let both = [parent, child];
        let round = ahead.round(&both, &mut sink).unwrap();
        assert!(round.copied > 256 && round.left_out.is_empty(), "{round:?}");
        assert!(ahead.round(&both, &mut sink).unwrap().copied < 100);
        // Their pages are shared until one of them writes.
        victim.write(pages.start, 0x44);
        let unproven = Standing::with(parent.pid, |first| ahead.last_look(&[first], Sample::All));
        assert!(matches!(unproven, Err(MemoryError::NotStill { .. })), "the child runs: {unproven:?}");
        // A tracer is a thread, and each process has its own here, as if somebody else had frozen them.
        let rest = Standing::with(parent.pid, |_| {
            Standing::with(child.pid, |_| {
                let (first, second) = (Frozen::look(parent.pid)?, Frozen::look(child.pid)?);
                ahead.last_look(&[&first, &second], Sample::All)
            })
        });
        let settled = ahead.settle(rest.unwrap(), &mut sink).unwrap();
        trusted(&settled, 500);
        assert_eq!(settled.tasks.len(), 2);
    });
    assert_eq!((byte(&sink, parent, pages.start), byte(&sink, child, pages.start)), (0x44, 0x11));
}
