//! A program that does to its memory whatever can be done, followed while it does, and at random instants compared whole.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use memory_path::{Ahead, Process, Sample, Standing, Verdict};

use crate::common::{Kept, as_somebody, command, compiled, somebody};

/// How often everything is compared; `.ci/full.sh` asks for more.
pub(crate) fn checks() -> u32 {
    let asked = std::env::var("INFINIJUP_MEMORY_CHECKS").ok();
    asked.map_or(100, |text| text.parse().expect("INFINIJUP_MEMORY_CHECKS is a number"))
}

#[test]
fn no_page_is_stale_whatever_the_program_does() {
    let user = somebody();
    let (directory, program) = compiled(include_str!("stress.c"), &[]);
    let file = directory.path().join("file");
    let noise: Vec<u8> =
        (0_u32..700 << 12).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&file, noise).unwrap();
    let mut child =
        command(&user, &program).arg(&file).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let operations = AtomicU64::new(0);

    let compared = std::thread::scope(|scope| {
        scope.spawn(|| {
            for line in output.lines().map_while(Result::ok) {
                operations.store(line.parse().unwrap(), Ordering::Relaxed);
            }
        });
        while operations.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let watched = as_somebody(&user, || follow(pid));
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ended, None, "what it did, it survived");
        watched
    });
    let (compared, operations) = (compared.unwrap(), operations.into_inner());
    println!("{} checks, {compared} pages compared, {operations} operations", checks());
    assert!(compared > 100 * u64::from(checks()), "{compared}");
    assert!(operations > 20 * u64::from(checks()), "{operations}");
}

/// Pages that were compared, or what was wrong.
fn follow(pid: i32) -> Result<u64, String> {
    let process = Process::of(pid).map_err(|error| error.to_string())?;
    let (mut ahead, mut sink) = (Ahead::new(), Kept::default());
    let mut all = 0;
    for number in 0..checks() {
        for _ in 0..1 + number % 2 {
            let round = ahead.round(&[process], &mut sink).map_err(|error| error.to_string())?;
            if !round.left_out.is_empty() {
                return Err(format!("check {number}: {round:?}"));
            }
        }
        let rest = Standing::with(pid, |standing| ahead.last_look(&[standing], Sample::All));
        let settled =
            rest.and_then(|rest| ahead.settle(rest, &mut sink)).map_err(|error| error.to_string())?;
        match settled.verdict {
            Verdict::Trusted { compared } => all += compared,
            Verdict::Stale { .. } => return Err(format!("check {number}: {settled:?}")),
        }
    }
    Ok(all)
}
