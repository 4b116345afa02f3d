//! Filling processes that stand still.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use memory_path::back::{Begun, Filled, Source, Target, fill, fill_and_follow, fill_then};
use memory_path::{
    Copies, Frozen, MemoryError, PAGE, PAGE_BYTES, Process, Run, Sample, SinkError, Spool, StandsStill, Task,
    Verdict,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Victim, as_somebody};

/// What is missing, and what is given for it: a page of this byte, from several threads at once.
struct Given {
    missing: BTreeMap<Task, Vec<Run>>,
    pages: BTreeMap<u64, u8>,
    /// Pages of zeros are called so.
    says_zero: bool,
}

impl Given {
    fn new(task: Task, runs: &[Run]) -> Self {
        let pages = runs.iter().flat_map(Run::addresses).zip((0_u8..7).cycle()).collect();
        Self { missing: BTreeMap::from([(task, runs.to_vec())]), pages, says_zero: true }
    }
}

impl Source for Given {
    fn missing(&self) -> BTreeMap<Task, Vec<Run>> {
        self.missing.clone()
    }

    fn give(&self, _: Task, to: &Target) -> Result<(), SinkError> {
        let pages: Vec<(&u64, &u8)> = self.pages.iter().collect();
        std::thread::scope(|scope| {
            let half = pages.len() / 2;
            let (one, other) = pages.split_at(half);
            let give = |pages: &[(&u64, &u8)]| -> std::io::Result<()> {
                for (address, byte) in pages {
                    match byte {
                        0 if self.says_zero => to.zeros(**address, PAGE)?,
                        _ => to.pages(**address, &[**byte; PAGE_BYTES])?,
                    }
                }
                Ok(())
            };
            let beside = scope.spawn(move || give(other));
            give(one)?;
            beside.join().unwrap()?;
            Ok(())
        })
    }
}

fn signal(victim: &Victim, signal: Signal) {
    kill_process(Pid::from_raw(victim.pid()).unwrap(), signal).unwrap();
}

/// Waits until it has stopped. One that its tracer lets go of while it is stopped looks for a moment as if it ran, on its way back.
fn stands(victim: &Victim) -> Frozen {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        match Frozen::look(victim.pid()) {
            Err(MemoryError::NotStill { .. }) if Instant::now() < deadline => std::thread::yield_now(),
            looked => break looked.unwrap(),
        }
    }
}

/// A process that stands still, with so many pages of new memory, and after a hole as many that it has written to.
fn stopped(pages: u64) -> (Victim, Task, [Run; 2]) {
    let mut victim = Victim::new();
    let touched = victim.pages(pages);
    let start = victim.number("map", &[pages]);
    let new = Run { start, end: start + pages * PAGE };
    signal(&victim, Signal::STOP);
    stands(&victim);
    let task = Process::of(victim.pid()).unwrap().task;
    let mut runs = [new, touched];
    runs.sort();
    // The kernel puts one below the other: then they are one mapping.
    if runs[0].end == runs[1].start {
        runs[0].end -= PAGE;
    }
    (victim, task, runs)
}

fn filled(victim: &Victim, source: &Given) -> Result<Filled, MemoryError> {
    as_somebody(&victim.user, || fill(victim.pid(), source))
}

fn assert_has(victim: &Victim, pages: &BTreeMap<u64, u8>) {
    let memory = File::open(format!("/proc/{}/mem", victim.pid())).unwrap();
    let mut page = [0xff; PAGE_BYTES];
    for (address, byte) in pages {
        memory.read_exact_at(&mut page, *address).unwrap();
        assert!(page.iter().all(|found| found == byte), "{address:x}");
    }
}

#[test]
fn every_page_arrives_and_what_was_there_is_gone() {
    let (mut victim, task, runs) = stopped(700);
    let source = Given::new(task, &runs);
    let done = filled(&victim, &source).unwrap();
    assert_eq!(done.missing, source.pages.len() as u64 * PAGE);
    // Zeros are written where something was, and only there.
    let zeros = source.pages.values().filter(|byte| **byte == 0).count() as u64 * PAGE;
    assert!(done.written < done.missing && done.written > done.missing - zeros, "{done:?}");
    assert_has(&victim, &source.pages);
    signal(&victim, Signal::CONT);
    victim.write(runs[0].start, 0x55);
    assert_has(&victim, &BTreeMap::from([(runs[0].start, 0x55), (runs[0].start + PAGE, 1)]));
}

#[test]
fn what_does_not_come_is_said() {
    let (victim, task, runs) = stopped(100);
    let mut source = Given::new(task, &runs);
    source.pages.pop_last();
    let error = filled(&victim, &source).unwrap_err();
    let wanted = source.pages.len() as u64 * PAGE + PAGE;
    assert!(
        matches!(error, MemoryError::NotAll { given, wanted: all, .. } if given == wanted - PAGE && all == wanted),
        "{error}"
    );
}

#[test]
fn nothing_is_written_where_nothing_is_missing() {
    for (address, len) in [(0, PAGE), (1, PAGE), (0, 100), (u64::MAX - 4095, PAGE)] {
        struct Beside(BTreeMap<Task, Vec<Run>>, u64, u64);
        impl Source for Beside {
            fn missing(&self) -> BTreeMap<Task, Vec<Run>> {
                self.0.clone()
            }
            fn give(&self, _: Task, to: &Target) -> Result<(), SinkError> {
                let bytes = vec![7; usize::try_from(self.2)?];
                to.zeros(self.1, self.2).unwrap_err();
                Ok(to.pages(self.1, &bytes)?)
            }
        }
        let (victim, task, runs) = stopped(10);
        // The last page of each run is not among what is missing.
        let missing = runs.map(|run| Run { end: run.end - PAGE, ..run });
        let outside = if address == 0 { runs[0].end - PAGE } else { address };
        let source = Beside(BTreeMap::from([(task, missing.to_vec())]), outside, len);
        let error = as_somebody(&victim.user, || fill(victim.pid(), &source)).unwrap_err();
        assert!(matches!(error, MemoryError::Source { .. }), "{error}");
    }
}

#[test]
fn a_process_without_room_or_that_is_not_there_is_refused() {
    let (mut victim, task, runs) = stopped(10);
    let source = Given::new(task, &[Run { start: runs[0].start, end: runs[0].start + (1 << 28) }]);
    assert!(matches!(filled(&victim, &source), Err(MemoryError::NoRoom { .. })));
    let source = Given::new(Task(task.0 + 1), &runs);
    assert!(matches!(filled(&victim, &source), Err(MemoryError::NoTask { .. })));
    // Memory of a file is not its own, whatever is in the way.
    signal(&victim, Signal::CONT);
    let start = victim.number("map-file", &[1]);
    signal(&victim, Signal::STOP);
    stands(&victim);
    let source = Given::new(task, &[Run::page(start)]);
    assert!(matches!(filled(&victim, &source), Err(MemoryError::NoRoom { .. })));
}

#[test]
fn a_process_that_runs_is_not_filled() {
    let mut victim = Victim::new();
    let run = victim.pages(10);
    let task = Process::of(victim.pid()).unwrap().task;
    let error = filled(&victim, &Given::new(task, &[run])).unwrap_err();
    assert!(matches!(error, MemoryError::NotStill { .. }), "{error}");
    assert_has(&victim, &run.addresses().map(|address| (address, 0x11)).collect());
}

#[test]
fn a_signal_in_the_middle_lets_go_what_is_whole_and_not_before() {
    struct Letting<'a>(Given, &'a Victim);
    impl Source for Letting<'_> {
        fn missing(&self) -> BTreeMap<Task, Vec<Run>> {
            self.0.missing()
        }
        fn give(&self, task: Task, to: &Target) -> Result<(), SinkError> {
            signal(self.1, Signal::CONT);
            for _ in 0..100 {
                assert!(Frozen::look(self.1.pid()).is_ok(), "it runs with holes in its memory");
                std::thread::yield_now();
            }
            self.0.give(task, to)
        }
    }
    let (mut victim, task, runs) = stopped(10);
    let source = Letting(Given::new(task, &runs), &victim);
    fill(victim.pid(), &source).unwrap();
    let Letting(Given { pages, .. }, _) = source;
    assert_has(&victim, &pages);
    victim.write(runs[0].start, 0x55);
}

#[test]
fn one_that_was_killed_while_it_waited_is_not_there_when_it_is_wanted() {
    let (victim, task, runs) = stopped(8);
    let source = Given::new(task, &runs);
    let waited = as_somebody(&victim.user, || fill_then(victim.pid(), &source, false, || "wanted"));
    let (_, begun, answer) = waited.unwrap();
    assert!(answer == "wanted" && begun.filled.is_empty(), "{begun:?}");
    let killed = as_somebody(&victim.user, || {
        fill_then(victim.pid(), &source, true, || signal(&victim, Signal::KILL)).map(drop)
    });
    let error = killed.unwrap_err();
    assert!(matches!(error, MemoryError::Gone { .. } | MemoryError::NotStill { .. }), "{error}");
}

/// Stops it, and looks at all that is called clean.
fn last_look(victim: &Victim, begun: &mut Begun, spool: &mut Spool) -> Verdict {
    signal(victim, Signal::STOP);
    let frozen = stands(victim);
    let rest = begun.ahead.last_look(&[&frozen as &dyn StandsStill], Sample::All).unwrap();
    let settled = begun.ahead.settle(rest, &mut Copies { spool, prints: &mut begun.prints }).unwrap();
    signal(victim, Signal::CONT);
    settled.verdict
}

#[test]
fn what_was_filled_is_copied_only_if_it_is_written() {
    copied_only_if_written(|pid, source| fill_and_follow(pid, source).map(|(_, begun)| begun));
}

#[test]
fn what_waited_is_copied_only_if_it_is_written() {
    let waiting = || std::thread::sleep(Duration::from_millis(50));
    copied_only_if_written(|pid, source| fill_then(pid, source, true, waiting).map(|(_, begun, ())| begun));
}

fn copied_only_if_written(fill: impl FnOnce(i32, &Given) -> memory_path::Result<Begun> + Send) {
    let (mut victim, task, runs) = stopped(700);
    let source = Given::new(task, &runs);
    let pid = victim.pid();
    let mut begun = as_somebody(&victim.user, || fill(pid, &source)).unwrap();
    assert!(begun.left_out.is_empty(), "{begun:?}");
    let with_content: Vec<u64> =
        source.pages.iter().filter(|(_, byte)| **byte != 0).map(|(address, _)| *address).collect();
    let filled: Vec<u64> = begun.filled[&task].iter().flat_map(Run::addresses).collect();
    assert_eq!(filled, with_content);
    // It was stopped before, is so again, and goes now.
    stands(&victim);
    signal(&victim, Signal::CONT);
    let written = runs[0].start + PAGE;
    victim.write(written, 0x55);

    let home = tempfile::tempdir().unwrap();
    let mut spool = Spool::in_directory(home.path()).unwrap();
    let mut copies = Copies { spool: &mut spool, prints: &mut begun.prints };
    let round = begun.ahead.round(&[Process { pid, task }], &mut copies).unwrap();
    assert!(round.left_out.is_empty(), "{round:?}");
    let copied: Vec<u64> = spool.pages_of(task).iter().flat_map(Run::addresses).collect();
    let again: Vec<u64> = copied.iter().copied().filter(|page| with_content.contains(page)).collect();
    assert_eq!(again, [written]);
    // The rest of the program was there before anybody filled something.
    assert!(copied.len() > 20, "{}", copied.len());
    let verdict = last_look(&victim, &mut begun, &mut spool);
    assert!(matches!(verdict, Verdict::Trusted { compared } if compared > 1000), "{verdict:?}");
}

/// In a process of its own, because it has to be killed.
const FILLER: &str = "INFINIJUP_TEST_FILLS";

#[test]
fn what_is_not_full_dies_with_whoever_fills_it() {
    if let Ok(words) = std::env::var(FILLER) {
        fill_for_ever(&words);
    }
    let (mut victim, _, runs) = stopped(10);
    let words = format!("{} {:x} {:x}", victim.pid(), runs[0].start, runs[0].end);
    let mut filler = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "back::what_is_not_full_dies_with_whoever_fills_it", "--nocapture"])
        .env(FILLER, words)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(filler.stdout.take().unwrap());
    assert!(std::io::BufRead::lines(output).any(|line| line.unwrap().ends_with("half")), "it did not begin");
    signal(&victim, Signal::CONT);
    filler.kill().unwrap();
    filler.wait().unwrap();
    assert_eq!(victim.ended_by(), Some(9));
}

/// Gives one page, says so, and waits to be killed.
fn fill_for_ever(words: &str) -> ! {
    struct Half(BTreeMap<Task, Vec<Run>>);
    impl Source for Half {
        fn missing(&self) -> BTreeMap<Task, Vec<Run>> {
            self.0.clone()
        }
        fn give(&self, task: Task, to: &Target) -> Result<(), SinkError> {
            to.pages(self.0[&task][0].start, &[7; PAGE_BYTES])?;
            println!("half");
            loop {
                std::thread::park();
            }
        }
    }
    let words: Vec<&str> = words.split(' ').collect();
    let address = |word: &str| u64::from_str_radix(word, 16).unwrap();
    let (pid, run) = (words[0].parse().unwrap(), Run { start: address(words[1]), end: address(words[2]) });
    let task = Process::of(pid).unwrap().task;
    let filled = fill(pid, &Half(BTreeMap::from([(task, vec![run])])));
    panic!("{filled:?}");
}
