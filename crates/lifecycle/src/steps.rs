//! Steps of a pipeline: named, timed, and reported to whoever waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::TimedStep;
use cas_core::progress::{Progress, Task};

use crate::effects::happened;
use crate::error::Result;
use crate::words::micros;

/// Who wants to know how far it is.
pub trait Watch: Send + Sync {
    /// A step began, went on or ended.
    fn step(&self, step: &'static str, state: StepState);

    /// Something happened that may surprise whoever asked for it.
    fn warned(&self, _warning: &str) {}
}

/// How a step is getting on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepState {
    /// It began.
    Begun,
    /// So many bytes of so many are done.
    Progress {
        /// Bytes that are done.
        done: u64,
        /// Of how many; 0 if not known.
        total: u64,
    },
    /// It ended, well or not.
    Ended {
        /// How long it took.
        took: Duration,
        /// Whether it did what it should.
        ok: bool,
    },
}

/// Nobody.
#[derive(Clone, Copy, Debug)]
pub struct NoWatch;

impl Watch for NoWatch {
    fn step(&self, _: &'static str, _: StepState) {}
}

/// The steps of one run of a pipeline.
pub struct Steps<'a> {
    watch: &'a dyn Watch,
    done: Vec<TimedStep>,
    warnings: Vec<String>,
}

/// A step that has begun.
pub(crate) struct Begun {
    step: &'static str,
    at: Instant,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(watch: &'a dyn Watch) -> Self {
        Self { watch, done: Vec::new(), warnings: Vec::new() }
    }

    /// Runs one step.
    pub fn run<T>(&mut self, step: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = self.begin(step);
        let result = work();
        self.end(begun, result.is_ok());
        result
    }

    /// A step begins.
    pub(crate) fn begin(&self, step: &'static str) -> Begun {
        self.watch.step(step, StepState::Begun);
        happened(&format!("{step}: begun"));
        Begun { step, at: Instant::now() }
    }

    /// It ends.
    pub(crate) fn end(&mut self, Begun { step, at }: Begun, ok: bool) {
        let took = at.elapsed();
        happened(&format!("{step}: over"));
        self.watch.step(step, StepState::Ended { took, ok });
        self.done.push(TimedStep { name: step.to_owned(), micros: micros(took) });
    }

    pub(crate) fn watch(&self) -> &'a dyn Watch {
        self.watch
    }

    /// Notes something that may surprise the caller.
    pub fn warn(&mut self, warning: String) {
        self.watch.warned(&warning);
        self.warnings.push(warning);
    }

    /// What was noted so far.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// What was done, in order.
    pub(crate) fn timings(self) -> Vec<TimedStep> {
        self.done
    }
}

/// Hands the store's progress on to whoever watches the step.
pub(crate) struct StepProgress<'a> {
    watch: &'a dyn Watch,
    step: &'static str,
    total: AtomicU64,
    done: AtomicU64,
}

impl<'a> StepProgress<'a> {
    pub(crate) fn new(watch: &'a dyn Watch, step: &'static str) -> Self {
        Self { watch, step, total: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    fn tell(&self) {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        self.watch.step(self.step, StepState::Progress { done, total });
    }
}

impl Progress for StepProgress<'_> {
    fn begin(&self, _: Task, total: Option<u64>) {
        self.total.fetch_add(total.unwrap_or(0), Ordering::Relaxed);
        self.tell();
    }

    fn advance(&self, _: Task, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
        self.tell();
    }

    fn end(&self, _: Task) {}
}
