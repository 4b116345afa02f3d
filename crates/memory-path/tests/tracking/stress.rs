//! A program that does to its memory whatever can be done, followed while it does, and at random instants compared whole.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memory_path::{Ahead, MemoryError, PAGE, PAGE_BYTES, Process, Sample, Standing, Verdict};

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
            std::thread::sleep(Duration::from_millis(1));
        }
        let watched = as_somebody(&user, || follow(pid));
        // If it has ended, whoever traced it last has collected it.
        let ended = child.try_wait();
        let _ = child.kill();
        let _ = child.wait();
        let compared = watched.unwrap();
        assert_eq!(ended.unwrap(), None, "what it did, it survived");
        compared
    });
    let operations = operations.into_inner();
    println!("{} checks, {compared} pages compared, {operations} operations", checks());
    assert!(compared > 100 * u64::from(checks()), "{compared}");
    assert!(operations > 20 * u64::from(checks()), "{operations}");
}

/// Pages that were compared, or what was wrong.
fn follow(pid: i32) -> Result<u64, String> {
    let process = Process::of(pid).map_err(|error| error.to_string())?;
    let (mut ahead, mut sink) = (Ahead::new(), Kept::default());
    let mut all = 0;
    let mut slow = 0;
    let mut number = 0;
    while number < checks() {
        for _ in 0..1 + number % 2 {
            let round = ahead.round(&[process], &mut sink).map_err(|error| error.to_string())?;
            match round.left_out.first() {
                None => {}
                // A machine that is busy enough lets a thread wait for its disk for seconds.
                Some((_, MemoryError::TooSlow { .. })) if slow < 1 + checks() / 50 => slow += 1,
                Some(_) => return Err(format!("check {number}: {round:?}")),
            }
        }
        // Settled while it still stands, so that what is wrong can be looked at.
        let settled = Standing::with(pid, |standing| {
            let rest = ahead.last_look(&[standing], Sample::All)?;
            let settled = ahead.settle(rest, &mut sink)?;
            Ok(match settled.verdict {
                Verdict::Trusted { compared } => Ok(compared),
                Verdict::Stale { address, .. } => Err(evidence(process, address, &mut sink)),
            })
        });
        match settled {
            Err(MemoryError::TooSlow { .. }) if slow < 1 + checks() / 50 => {
                slow += 1;
                continue;
            }
            Err(error) => return Err(format!("check {number}: {error}")),
            Ok(settled) => all += settled.map_err(|evidence| format!("check {number}: {evidence}"))?,
        }
        number += 1;
    }
    Ok(all)
}

/// What the kernel says about a page, and how it differs from its copy.
fn evidence(process: Process, address: u64, sink: &mut Kept) -> String {
    let read = |name: &str, at: u64, into: &mut [u8]| {
        let file = fs::File::open(base::proc::path(process.pid, name));
        file.and_then(|file| file.read_exact_at(into, at)).map_err(|error| error.to_string())
    };
    let (mut page, mut kept, mut entry) = ([0; PAGE_BYTES], [0; PAGE_BYTES], [0; 8]);
    let found = sink.get(process.task, address, &mut kept);
    let reading = read("mem", address, &mut page);
    let bits = read("pagemap", address / PAGE * 8, &mut entry).map(|()| u64::from_le_bytes(entry));
    let differ: Vec<usize> = (0..PAGE_BYTES).filter(|at| page[*at] != kept[*at]).collect();
    let smaps = base::proc::read_text(process.pid, "smaps").unwrap_or_default().unwrap_or_default();
    let here = |line: &str| {
        base::proc::Mapping::parse(line.as_bytes()).is_some_and(|m| (m.start..m.end).contains(&address))
    };
    let lines: Vec<&str> = smaps.lines().skip_while(|line| !here(line)).take(26).collect();
    format!(
        "page {address:x} is stale: kept {found:?}, zeros {}, read {reading:?}, pagemap {bits:x?}, {} bytes differ ({:?}..{:?}), kept zeros {}\n{}",
        page == [0; PAGE_BYTES],
        differ.len(),
        differ.first(),
        differ.last(),
        kept == [0; PAGE_BYTES],
        lines.join("\n")
    )
}
