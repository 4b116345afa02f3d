//! Steps of a pipeline: named, timed, and reported to whoever waits.

use std::time::Instant;

use api::TimedStep;
pub(crate) use session_record::watch::{NoWatch, StepProgress, StepState, Watch};

use crate::effects::happened;
use crate::error::Result;
use crate::words::micros;

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
