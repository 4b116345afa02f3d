//! The rounds, and the last look.
//!
//! A round goes through the processes of a tree one by one: the process is stopped for a moment (a millisecond or two) in which new mappings
//! are registered and written pages are listed and protected again; then it runs on while these pages are copied. A page that is written
//! while it is copied may be copied half old and half new. That does no harm: the write lifts its protection, and the
//! next round copies it again. When little is left, whoever dumps the tree freezes it, and the last look copies the rest into memory of
//! ours; it reaches the sink after the tree goes on.
//!
//! **What is owed.** Between being listed and being in the sink a page is protected, looks clean, and is nowhere. Whatever is listed is
//! owed first, and no longer only when the sink has it. A round that fails, a sink that is full, a [`Rest`] that is dropped: the next round
//! copies what is owed, too. A page that could not be read is forgotten by the sink, and stays owed for as long as it is there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use base::proc;

use super::copy::{bytes, copy, put};
use super::sample::{Clean, Sample, Verdict, judge, take};
use super::sink::PageSink;
use crate::error::{MemoryError, Result};
use crate::injector::Injector;
use crate::memory::Memory;
use crate::pages::{PAGE, Run, Task, difference, merged, pages_in};
use crate::standing::{STOP_LIMIT, Standing, StandsStill};
use crate::tracker::Tracker;

/// A process of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Process {
    /// Its number for us.
    pub pid: i32,
    /// Its number for itself.
    pub task: Task,
}

impl Process {
    /// Asks `/proc` for the number that a process has for itself.
    pub fn of(pid: i32) -> Result<Self> {
        let gone = || MemoryError::Gone { pid };
        let status = proc::read_text(pid, "status").map_err(MemoryError::system("read the status", pid))?;
        let numbers: Vec<i32> = proc::numbers_of(&status.ok_or_else(gone)?, "NSpid").unwrap_or_default();
        Ok(Self { pid, task: Task(*numbers.last().ok_or_else(gone)?) })
    }
}

/// Copies the memory of a tree ahead.
#[derive(Default, Debug)]
pub struct Ahead {
    injector: Injector,
    followed: BTreeMap<Task, Followed>,
    /// For the last look, so that it need not wait for memory.
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Followed {
    tracker: Tracker,
    /// Pages that were listed and are not in the sink.
    owed: Vec<Run>,
}

/// What a round has done.
#[derive(Default, Debug)]
pub struct Round {
    /// Pages that were copied.
    pub copied: u64,
    /// For how long a process stood still, at most.
    pub longest_stop: Duration,
    /// For how long processes stood still, all together.
    pub stood: Duration,
    /// Processes of which nothing was copied in this round. Of those that are not followed a dump copies all memory.
    pub left_out: Vec<(Process, MemoryError)>,
}

/// When rounds have done what they can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Until {
    /// So few pages were left to copy in the last one.
    pub pages: u64,
    /// So many rounds were made.
    pub rounds: usize,
}

impl Ahead {
    /// Follows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on this one makes the calls that are needed to follow a process.
    pub fn inject_by(&mut self, injector: Injector) {
        self.injector = injector;
    }

    /// Copies what was written since the last round, and everything of processes that are new. Those that are no longer in the tree are
    /// forgotten.
    pub fn round(&mut self, tree: &[Process], sink: &mut dyn PageSink) -> Result<Round> {
        self.round_within(STOP_LIMIT, tree, sink)
    }

    /// The same for whoever is in no hurry: a process whose threads do not stop within this time goes on at once and is left out.
    pub fn round_within(
        &mut self,
        limit: Duration,
        tree: &[Process],
        sink: &mut dyn PageSink,
    ) -> Result<Round> {
        self.followed
            .retain(|task, followed| tree.contains(&Process { pid: followed.tracker.pid(), task: *task }));
        let mut round = Round::default();
        for process in tree {
            match self.copy_from(*process, limit, sink, &mut round) {
                Ok(()) | Err(MemoryError::Gone { .. }) => {}
                Err(error @ MemoryError::Sink { .. }) => return Err(error),
                Err(error) => {
                    // One that could not be stopped now is followed on: what it has written is listed the next time.
                    if !matches!(error, MemoryError::TooSlow { .. } | MemoryError::Busy { .. }) {
                        self.followed.remove(&process.task);
                    }
                    round.left_out.push((*process, error));
                }
            }
        }
        Ok(round)
    }

    /// Rounds until little is left, or until they do not help any more: a program that writes faster than its pages are copied is not
    /// caught up with. Gives what each has done.
    pub fn rounds(
        &mut self,
        mut tree: impl FnMut() -> Result<Vec<Process>>,
        until: Until,
        sink: &mut dyn PageSink,
    ) -> Result<Vec<Round>> {
        let mut done: Vec<Round> = Vec::new();
        while done.len() < until.rounds {
            let round = self.round(&tree()?, sink)?;
            let (now, before) = (round.copied, done.last().map_or(u64::MAX, |round| round.copied));
            done.push(round);
            if now <= until.pages || now > before / 4 * 3 {
                break;
            }
        }
        Ok(done)
    }

    fn copy_from(
        &mut self,
        process: Process,
        limit: Duration,
        sink: &mut dyn PageSink,
        round: &mut Round,
    ) -> Result<()> {
        let Process { pid, task } = process;
        let start = || Tracker::start_by(&self.injector, limit, pid);
        let (followed, is_new) = match self.followed.entry(task) {
            Entry::Occupied(known) => (known.into_mut(), false),
            Entry::Vacant(place) => (place.insert(Followed { tracker: start()?, owed: Vec::new() }), true),
        };
        let mut listed = |followed: &mut Followed, may_be_another: bool| {
            let began = Instant::now();
            let listed = Standing::within(limit, pid, |standing| {
                let registered = followed.tracker.register(standing)?;
                match may_be_another && registered.mappings == 0 {
                    true => Ok(None),
                    false => followed.list(standing).map(Some),
                }
            });
            let stood = began.elapsed();
            round.longest_stop = round.longest_stop.max(stood);
            round.stood += stood;
            listed
        };
        let runs = match listed(followed, !is_new)? {
            Some(runs) => runs,
            None => {
                followed.tracker = start()?;
                listed(followed, false)?.unwrap_or_default()
            }
        };
        copy(&Memory::open(pid)?, task, &runs, sink, &mut followed.owed)?;
        round.copied += pages_in(&runs) - pages_in(&followed.owed);
        Ok(())
    }

    /// Follows a process that stands still and has never run. Of what is in its memory, somebody has exactly what is `known`, in order:
    /// these pages are copied when they are written. All others are owed.
    pub(crate) fn begin(&mut self, task: Task, standing: &Standing, known: &[Run]) -> Result<()> {
        let mut tracker = Tracker::start_in(standing)?;
        tracker.register(standing)?;
        let owed = difference(&tracker.written(standing)?, known);
        self.followed.insert(task, Followed { tracker, owed });
        Ok(())
    }

    /// The tasks that are followed: those whose memory CRIU may leave to us.
    pub fn tasks(&self) -> impl Iterator<Item = Task> {
        self.followed.keys().copied()
    }

    /// The processes that are followed, by their numbers for us.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.followed.values().map(|followed| followed.tracker.pid())
    }

    /// Stops following a task. A dump copies all of its memory.
    pub fn give_up(&mut self, task: Task) {
        self.followed.remove(&task);
    }

    /// Has memory at hand for so many pages, so that the last look need not wait for it.
    pub fn prepare(&mut self, pages: u64) {
        let length = usize::try_from(pages.saturating_mul(PAGE)).unwrap_or(usize::MAX);
        if self.buffer.len() < length {
            // Zeros would be had without memory behind them.
            self.buffer = vec![0xff; length];
        }
    }

    /// Copies what is left into memory of ours, while the whole tree is frozen, with a sample of what is called clean.
    ///
    /// There must be a proof for every process that is followed and still there.
    pub fn last_look(&mut self, still: &[&dyn StandsStill], sample: Sample) -> Result<Rest> {
        let mut rest =
            Rest { parts: Vec::new(), samples: Vec::new(), contents: std::mem::take(&mut self.buffer) };
        let mut used = 0;
        for (task, followed) in &mut self.followed {
            let pid = followed.tracker.pid();
            let Some(proof) = still.iter().find(|still| still.pid() == pid) else {
                match proc::Stat::of(pid).map_err(MemoryError::system("look", pid))? {
                    Some(stat) if !stat.is_over() => {
                        return Err(MemoryError::NotStill { pid, thread: pid, state: stat.state });
                    }
                    _ => continue,
                }
            };
            // In this order: a process that stands can still get pages, of zeros, when the kernel makes a huge page of small ones. After
            // the list they would look clean.
            let present = followed.tracker.present(*proof)?;
            let runs = followed.list(*proof)?;
            let memory = Memory::open(pid)?;
            let clean = difference(&present, &runs);
            rest.samples.push(take(&memory, *task, &clean, sample));
            let length: usize = runs.iter().map(|run| bytes(*run)).sum();
            if rest.contents.len() < used + length {
                rest.contents.resize(used + length, 0);
            }
            let unreadable =
                memory.read(&runs, rest.contents.get_mut(used..used + length).unwrap_or_default());
            rest.parts.push(Part { task: *task, runs, unreadable, from: used });
            used += length;
        }
        Ok(rest)
    }

    /// Gives the rest to the sink, after the tree goes on, and compares the sample.
    ///
    /// A verdict that something is stale means: a plain dump, and [`Ahead::give_up`] for that task.
    pub fn settle(&mut self, rest: Rest, sink: &mut dyn PageSink) -> Result<Settled> {
        let mut settled = Settled { tasks: Vec::new(), copied: 0, verdict: Verdict::Trusted { compared: 0 } };
        for Part { task, runs, unreadable, from } in &rest.parts {
            let contents = rest.contents.get(*from..).unwrap_or_default();
            put(*task, runs, contents, unreadable, sink)?;
            settled.tasks.push(*task);
            settled.copied += pages_in(runs) - pages_in(unreadable);
            if let Some(followed) = self.followed.get_mut(task) {
                followed.owed = merged(unreadable.clone());
            }
        }
        settled.verdict = judge(&rest.samples, sink)?;
        self.buffer = rest.contents;
        Ok(settled)
    }
}

impl Followed {
    /// What is to be copied now: what was written, and what is owed and still there. All of it is owed from now on.
    fn list(&mut self, still: &dyn StandsStill) -> Result<Vec<Run>> {
        let mut runs = self.tracker.written(still)?;
        if !self.owed.is_empty() {
            let gone = difference(&self.owed, &self.tracker.present(still)?);
            runs.extend(difference(&self.owed, &gone));
        }
        self.owed = merged(runs);
        Ok(self.owed.clone())
    }
}

/// What was left at the freeze. It is owed until it is settled.
#[derive(Debug)]
#[must_use]
pub struct Rest {
    parts: Vec<Part>,
    samples: Vec<Clean>,
    contents: Vec<u8>,
}

#[derive(Debug)]
struct Part {
    task: Task,
    runs: Vec<Run>,
    unreadable: Vec<Run>,
    from: usize,
}

impl Rest {
    /// How many pages it has.
    pub fn pages(&self) -> u64 {
        self.parts.iter().map(|part| pages_in(&part.runs)).sum()
    }
}

/// The sink has everything.
#[derive(Debug)]
#[must_use]
pub struct Settled {
    /// The tasks that were looked at while they stood still. Of these, and no others, the sink has all pages.
    pub tasks: Vec<Task>,
    /// Pages that were copied while the tree was frozen.
    pub copied: u64,
    /// What the comparison has come to.
    pub verdict: Verdict,
}
