//! Who waits for an operation, and how far it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cas_core::progress::{Progress, Task};

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

/// Hands the store's progress on to whoever watches the step.
pub struct StepProgress<'a> {
    watch: &'a dyn Watch,
    step: &'static str,
    total: AtomicU64,
    done: AtomicU64,
}

impl<'a> StepProgress<'a> {
    /// For one step.
    pub fn new(watch: &'a dyn Watch, step: &'static str) -> Self {
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
