//! Processes that are stopped and go on as if nothing had been.

use memory_path::{Frozen, MemoryError, Standing, Tracker};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Victim, as_somebody};

fn states(pid: i32) -> Vec<char> {
    let threads = base::proc::threads(pid).unwrap().unwrap();
    let stat = |thread| base::proc::read(pid, &format!("task/{thread}/stat")).unwrap();
    threads
        .into_iter()
        .filter_map(|thread| base::proc::Stat::parse(&stat(thread)?))
        .map(|s| s.state)
        .collect()
}

#[test]
fn every_thread_stands_also_those_that_are_just_born() {
    let mut victim = Victim::new();
    for _ in 0..3 {
        victim.does("beget", &[]);
    }
    let pid = victim.pid();
    let before = victim.number("rounds", &[]);
    as_somebody(&victim.user, || {
        for _ in 0..200 {
            Standing::with(pid, |_| {
                let first = states(pid);
                std::thread::yield_now();
                assert_eq!(states(pid), first);
                assert!(first.iter().all(|state| *state == 't'), "{first:?}");
                Frozen::look(pid).map(drop)
            })
            .unwrap();
        }
        assert!(matches!(Frozen::look(pid), Err(MemoryError::NotStill { .. })));
    });
    assert!(victim.number("rounds", &[]) > before, "it goes on");
}

#[test]
fn calls_that_are_interrupted_begin_again_and_nothing_is_left_behind() {
    let mut victim = Victim::new();
    victim.does("wait", &[]);
    victim.does("catch-trap", &[]);
    let pid = victim.pid();
    // Once they all wait.
    while victim.number("rounds", &[]) < 3 {}
    let open = base::proc::descriptors(pid).unwrap().unwrap().len();
    as_somebody(&victim.user, || {
        for _ in 0..300 {
            drop(Tracker::start(pid).unwrap());
        }
    });
    assert_eq!(victim.number("errors", &[]), 0, "a call was cut short");
    assert_eq!(base::proc::descriptors(pid).unwrap().unwrap().len(), open);
    assert_eq!(victim.number("trap", &[]), 1, "its handler of SIGTRAP is still there");
}

#[test]
fn a_stopped_process_stays_stopped() {
    let mut victim = Victim::new();
    let pid = Pid::from_raw(victim.pid()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    while states(victim.pid()) != ['T'] {}
    as_somebody(&victim.user, || drop(Tracker::start(victim.pid()).unwrap()));
    for _ in 0..50 {
        assert_eq!(states(victim.pid()), ['T']);
        std::thread::yield_now();
    }
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(victim.number("errors", &[]), 0);
}

#[test]
fn a_panic_lets_everything_go() {
    let mut victim = Victim::new();
    let pid = victim.pid();
    let died = std::panic::catch_unwind(|| {
        Standing::with(pid, |_| -> memory_path::Result<()> { panic!("on purpose") })
    });
    assert_eq!(died.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
    assert_eq!(victim.number("errors", &[]), 0, "it answers");
}

#[test]
fn a_process_that_ends_is_gone_and_no_trouble() {
    let victim = Victim::new();
    let pid = victim.pid();
    let mut tracker = Tracker::start(pid).unwrap();
    let ended = Standing::with(pid, |standing| {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        while !base::proc::Stat::of(pid).unwrap().is_none_or(|stat| stat.is_over()) {}
        tracker.written(standing)
    });
    assert!(matches!(ended, Err(MemoryError::Gone { .. })), "{ended:?}");
    assert!(matches!(Standing::with(pid, |_| Ok(())), Err(MemoryError::Gone { .. })));
    drop(victim);
    assert!(matches!(Tracker::start(pid), Err(MemoryError::Gone { .. })));
}
