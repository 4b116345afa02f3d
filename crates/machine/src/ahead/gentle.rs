//! Copying that disturbs nobody.
//!
//! After each millisecond of work it sleeps twice as long as that took. So it takes a third of a processor at most, and less on a machine that is
//! busy, where the same work takes longer. It stops at once when a dump wants the tree.
//!
//! What waits for a dump takes room where the dump will be: an eighth of what is free there, and a GiB at most. If a program writes more, the
//! rest is left for the dump.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memory_path::{Copies, PageSink, Run, SinkError, Task};

/// How long it works before it sleeps.
const PIECE: Duration = Duration::from_millis(1);
/// How much longer than it worked it sleeps.
const SLEEPS: u32 = 2;
/// What is slept for at most, however slow the disk was.
const LONGEST: Duration = Duration::from_millis(100);
/// The most that waits for a dump.
const MOST: u64 = 1 << 30;
/// The part of what is free that may wait for a dump.
const PART: u64 = 8;

/// Takes its time, and stops when somebody waits.
pub(super) struct Gentle<'a> {
    sink: Copies<'a>,
    wanted: &'a AtomicBool,
    /// Bytes that may be put yet.
    room: u64,
    last: Instant,
}

impl<'a> Gentle<'a> {
    /// Copies of what waits for a dump, in a directory with so much room.
    pub(super) fn new(sink: Copies<'a>, wanted: &'a AtomicBool, free: u64) -> Self {
        let there = sink.spool.bytes();
        let room = MOST.min(free.saturating_add(there) / PART).saturating_sub(there);
        Self { sink, wanted, room, last: Instant::now() }
    }
}

impl PageSink for Gentle<'_> {
    fn put(&mut self, task: Task, start: u64, pages: &[u8]) -> Result<(), SinkError> {
        if self.wanted.load(Ordering::Acquire) {
            return Err("a dump wants the tree".into());
        }
        let bytes = pages.len() as u64;
        self.room = self.room.checked_sub(bytes).ok_or("there is no room for more")?;
        self.sink.put(task, start, pages)?;
        let worked = self.last.elapsed();
        if worked >= PIECE {
            thread::sleep(worked.min(LONGEST) * SLEEPS);
            self.last = Instant::now();
        }
        Ok(())
    }

    fn forget(&mut self, task: Task, run: Run) -> Result<(), SinkError> {
        self.sink.forget(task, run)
    }

    fn holds(&mut self, task: Task, address: u64, page: &[u8]) -> Result<bool, SinkError> {
        self.sink.holds(task, address, page)
    }
}
