//! A tree that is followed from dump to dump.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::proc::Stat;

use checkpoint_criu::MapId;
use lifecycle::ports::explain;
use memory_path::back::Begun;
use memory_path::{
    Ahead, Copies, Frozen, Injector, MemoryError, Prints, Process, Rest, Round, Run, Sample, Settled, Spool,
    StandsStill, Task, Until,
};
use sandbox::process::{Identity, tree};

use super::gentle::Gentle;
use super::quiet::Quiet;

/// Rounds are made until so little is left that it can be copied in some milliseconds (8 MiB), or until they do not help.
const UNTIL: Until = Until { pages: 2048, rounds: 6 };
/// Room for the rest that is made ready before the freeze, beside twice what the last round has found: touching fresh memory costs
/// as much as copying it.
const SPARE: u64 = 4096;

/// How long the threads of a tree that rests may take to stop. One that waits for a disk would keep the others waiting; on a busy machine
/// each takes some milliseconds.
const PATIENCE: Duration = Duration::from_millis(50);

/// Which pages were written, and what the store has of the others.
#[derive(Debug, Default)]
pub(super) struct Course {
    ahead: Ahead,
    prints: Prints,
    stored: BTreeMap<Task, Stored>,
    /// What was copied while the tree rested.
    waiting: Option<Spool>,
    /// Where such a thing may be: where the last dump or restore had its images.
    place: Option<PathBuf>,
    /// Whether it is time to copy.
    pub(super) quiet: Quiet,
    /// The processor time that its processes had used when they stood still for the last time.
    used: Duration,
}

/// What the store has of a task's memory.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// As what.
    pub(super) map: MapId,
    /// These pages, in order.
    pub(super) pages: Vec<Run>,
}

impl Course {
    /// Of a tree that was filled before it ran; `map` is what the store has of a task, and was filled from.
    pub(super) fn begun(begun: Begun, map: impl Fn(Task) -> Option<MapId>, images: &Path) -> Self {
        let Begun { ahead, prints, filled, .. } = begun;
        let stored =
            filled.into_iter().filter_map(|(task, pages)| Some((task, Stored { map: map(task)?, pages })));
        Self {
            ahead,
            prints,
            stored: stored.collect(),
            waiting: None,
            place: beside(images),
            // What CRIU has brought is to be copied.
            quiet: Quiet::with_work(),
            used: Duration::ZERO,
        }
    }

    pub(super) fn inject_by(&mut self, injector: Injector) {
        self.ahead.inject_by(injector);
    }

    /// Gives up the tasks of which the newest snapshot has not what this course believes: they begin anew.
    pub(super) fn agree_with(&mut self, snapshot: &BTreeMap<Task, MapId>) {
        let known: Vec<Task> = self.ahead.tasks().chain(self.stored.keys().copied()).collect();
        for task in known {
            let believed = self.stored.get(&task).map(|stored| &stored.map);
            if believed.is_none() || believed != snapshot.get(&task) {
                self.give_up(task);
            }
        }
    }

    fn give_up(&mut self, task: Task) {
        self.ahead.give_up(task);
        self.prints.forget(task);
        self.stored.remove(&task);
        if let Some(waiting) = &mut self.waiting {
            waiting.forget(task);
        }
    }

    /// Where a dump into this directory keeps its pages: what was copied while the tree rested is there already.
    pub(super) fn spool_for(&mut self, images: &Path) -> Result<Spool, String> {
        self.place = beside(images);
        self.waiting.take().map_or_else(|| spool_in(images), Ok)
    }

    /// Whether it is time to copy what it has written, with nobody waiting for it.
    pub(super) fn rests(&mut self, now: Duration) -> bool {
        // One that stands, because its time has not come or because its user has stopped it, is left alone: whoever sets it going must not
        // find it in our hands.
        let stands =
            self.ahead.pids().any(|pid| matches!(Stat::of(pid), Ok(Some(stat)) if stat.is_stopped()));
        let used = self.time_used();
        self.place.is_some() && !stands && self.quiet.look(now, used)
    }

    fn time_used(&self) -> Duration {
        self.ahead.pids().map(time_used).sum()
    }

    /// Copies what was written, while the tree rests, until it is wanted.
    pub(super) fn copy_resting(&mut self, root: Identity, wanted: &AtomicBool) -> memory_path::Result<Round> {
        let failed =
            |source: std::io::Error| MemoryError::Sink { task: Task(root.pid), source: source.into() };
        let place = self.place.as_deref().unwrap_or(Path::new("/nonexistent"));
        let free = rustix::fs::statvfs(place).map_err(|error| failed(error.into()))?;
        if self.waiting.is_none() {
            self.waiting = Some(Spool::in_directory(place).map_err(failed)?);
        }
        let Some(spool) = &mut self.waiting else { return Ok(Round::default()) };
        let copies = Copies { spool, prints: &mut self.prints };
        let free = free.f_bavail.saturating_mul(free.f_frsize);
        self.ahead.round_within(PATIENCE, &processes(root), &mut Gentle::new(copies, wanted, free))
    }

    /// The memory that fingerprints take, and what waits for a dump, in bytes.
    pub(super) fn takes(&self) -> (u64, u64) {
        (self.prints.bytes(), self.waiting.as_ref().map_or(0, Spool::bytes))
    }

    /// Copies what was written, while the tree runs.
    pub(super) fn copy_ahead(&mut self, root: Identity, spool: &mut Spool) -> Result<Vec<Round>, String> {
        let mut sink = Copies { spool: &mut *spool, prints: &mut self.prints };
        let processes = || Ok(processes(root));
        let rounds = self.ahead.rounds(processes, UNTIL, &mut sink).map_err(|error| explain(&error))?;
        let last = rounds.last().map_or(0, |round| round.copied);
        self.ahead.prepare(2 * last + SPARE);
        // A task may have gone, and its number be another's.
        let followed: Vec<Task> = self.ahead.tasks().collect();
        let gone: Vec<Task> = self.stored.keys().copied().filter(|task| !followed.contains(task)).collect();
        for task in gone {
            self.give_up(task);
            spool.forget(task);
        }
        Ok(rounds)
    }

    /// The tasks whose memory CRIU may leave to us.
    pub(super) fn tasks(&self) -> Vec<Task> {
        self.ahead.tasks().collect()
    }

    /// Copies what is left, while CRIU keeps the tree from running.
    pub(super) fn last_look(&mut self, root: Identity, sample: Sample) -> Result<Rest, String> {
        let words = |error| explain(&error);
        self.used = self.time_used();
        let frozen: Vec<Frozen> = processes(root)
            .iter()
            .map(|process| Frozen::look(process.pid))
            .collect::<Result<_, _>>()
            .map_err(words)?;
        let still: Vec<&dyn StandsStill> = frozen.iter().map(|frozen| frozen as &dyn StandsStill).collect();
        self.ahead.last_look(&still, sample).map_err(words)
    }

    /// The rest goes to the others, and the sample is compared.
    pub(super) fn settle(&mut self, rest: Rest, spool: &mut Spool) -> Result<Settled, String> {
        let mut sink = Copies { spool, prints: &mut self.prints };
        self.ahead.settle(rest, &mut sink).map_err(|error| explain(&error))
    }

    /// What the store has of a task.
    pub(super) fn stored(&self, task: Task) -> Option<&Stored> {
        self.stored.get(&task)
    }

    /// Whose memory is in the store now, and as what.
    pub(super) fn is_stored(&mut self, stored: BTreeMap<Task, Stored>) {
        for (task, stored) in &stored {
            self.prints.keep_near(*task, &stored.pages);
        }
        self.stored = stored;
        self.quiet = Quiet::since(self.used);
    }
}

/// Where the directories of images are.
fn beside(images: &Path) -> Option<PathBuf> {
    images.parent().map(Path::to_owned)
}

/// The processor time that a process has used; nothing for one that is gone.
fn time_used(pid: i32) -> Duration {
    Stat::of(pid).ok().flatten().map(|stat| stat.time_used).unwrap_or_default()
}

/// The processes of a tree that still run. Those that end meanwhile are not needed.
fn processes(root: Identity) -> Vec<Process> {
    let all = tree(root.pid).unwrap_or_default();
    let living = all.iter().filter(|process| !process.is_zombie());
    living.filter_map(|process| Process::of(process.pid).ok()).collect()
}

/// An empty spool beside the images.
pub(super) fn spool_in(images: &Path) -> Result<Spool, String> {
    Spool::in_directory(images)
        .map_err(|error| format!("no file for pages could be made in `{}`: {error}", images.display()))
}
