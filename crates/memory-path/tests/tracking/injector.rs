//! Whoever follows a process may be killed at any moment, and the process goes on.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use memory_path::{Injector, MemoryError, NotHere, Tracker, lead};

use crate::common::{Victim, as_somebody, command};

/// This test is the program that leads, the one that follows and is killed, and the one that looks on.
const NAME: &str = "injector::whoever_follows_may_be_killed_at_any_moment";
const FOLLOWED: &str = "INFINIJUP_TEST_FOLLOWED";

/// This program as the one that leads.
fn beside() -> Injector {
    let program = std::env::current_exe().unwrap();
    Injector::Beside { program, arguments: vec!["--exact".into(), NAME.into()] }
}

#[test]
fn whoever_follows_may_be_killed_at_any_moment() {
    let numbers: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    if let [pid, limit] = numbers[..] {
        lead(i32::try_from(pid).unwrap(), limit).unwrap();
        return;
    }
    let limit = Duration::from_secs(2);
    if let Ok(pid) = std::env::var(FOLLOWED) {
        println!("begins");
        loop {
            let tracker = Tracker::start_by(&beside(), limit, pid.parse().unwrap());
            assert!(!matches!(tracker, Err(MemoryError::Gone { .. })), "{tracker:?}");
        }
    }
    let mut victim = Victim::new();
    let before = base::proc::descriptors(victim.pid()).unwrap().unwrap().len();
    for round in 0_u64..40 {
        let mut follower = command(&victim.user, &std::env::current_exe().unwrap());
        let mut follower = follower
            .args(["--exact", NAME, "--nocapture"])
            .env(FOLLOWED, victim.pid().to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(follower.stdout.take().unwrap()).lines();
        assert!(output.any(|line| line.unwrap().ends_with("begins")), "it did not begin");
        std::thread::sleep(Duration::from_micros(round * 733 % 29_000));
        follower.kill().unwrap();
        follower.wait().unwrap();
        assert_eq!(victim.number("errors", &[]), 0, "it answers");
    }
    // Whoever led it when the last one was killed may need a moment, and until then it is not ours to trace.
    let deadline = Instant::now() + Duration::from_secs(20);
    let follow = || as_somebody(&victim.user, || Tracker::start_by(&beside(), limit, victim.pid()));
    while let Err(error) = follow() {
        assert!(matches!(error, MemoryError::NotHere { .. }) && Instant::now() < deadline, "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let open = base::proc::descriptors(victim.pid()).unwrap().unwrap().len();
    assert_eq!(open, before, "a descriptor was left in it");
}

#[test]
fn what_cannot_be_done_is_said_across() {
    let mut victim = Victim::new();
    victim.does("filter", &[]);
    let (pid, limit) = (victim.pid(), Duration::from_secs(2));
    let error = as_somebody(&victim.user, || Tracker::start_by(&beside(), limit, pid)).unwrap_err();
    let MemoryError::NotHere { reason: NotHere::Told { detail }, .. } = &error else { panic!("{error}") };
    assert_eq!(*detail, NotHere::Filtered.to_string());
    let nobody = Injector::Beside { program: "/bin/false".into(), arguments: Vec::new() };
    let victim = Victim::new();
    let error = as_somebody(&victim.user, || Tracker::start_by(&nobody, limit, victim.pid())).unwrap_err();
    assert!(matches!(error, MemoryError::System { .. }), "{error}");
}

#[test]
fn a_program_that_is_followed_from_beside_keeps_nothing() {
    let mut victim = Victim::new();
    let (pid, limit) = (victim.pid(), Duration::from_secs(2));
    let open = base::proc::descriptors(pid).unwrap().unwrap().len();
    as_somebody(&victim.user, || {
        for _ in 0..10 {
            drop(Tracker::start_by(&beside(), limit, pid).unwrap());
        }
    });
    assert_eq!(base::proc::descriptors(pid).unwrap().unwrap().len(), open);
    assert_eq!(victim.number("errors", &[]), 0, "a call was cut short");
}
