//! A pipeline is a value: a list of stages, and each stage a list of named steps. Whoever runs one and whoever puts one right that was
//! cut short read the same list, so there is no second place that knows what an operation does.
//!
//! A *stage* is what one line of the [journal](session_record::journal) stands for. The line is on disk before the first of its steps begins, and
//! is replaced by that of the next stage. A *step* has a name, something that it does, and perhaps a way to take it back. Taking
//! back must also cope with a step that was done by half or never begun: after a crash nobody knows how far it was.
//!
//! Each stage says which way leads out of it ([`WayOut`]), after an error of one of its steps and after a crash:
//!
//! | way out | after an error | after a crash |
//! |---|---|---|
//! | `Back` | its steps are taken back, the last first, from the one that failed | all of its steps are taken back, the last first |
//! | `On` | nothing more: the line stays for the next start | its steps are run from the first, and then the stages after it |
//! | `OnOr` | its steps are taken back; then what is named here | as with `On` |
//! | `Settle` | its steps are taken back; then what is named here | what is named here |
//!
//! So a step of a stage that leads on must be one that can be done again. The last step of a pipeline writes down how it ended; if that
//! fails, nothing is taken back any more: it has happened, and the line says so to the next start.
//!
//! When everything is over, the line goes away. It stays if something could not be taken back, and after
//! [`LifecycleError::GpuStuck`], which says that processes are still off the GPU.

use session_record::Record;
use session_record::journal::{Entry, Phase};

use crate::effects::happened;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::steps::{NoWatch, Steps};

/// Something that is done to a session. `C` is what the run of a pipeline knows so far.
pub(crate) type Act<C> = fn(&mut Work<'_>, &mut C) -> Result<()>;

/// One step.
pub(crate) struct Step<C: 'static> {
    pub(crate) name: &'static str,
    told: Told,
    when: Option<fn(&Work<'_>, &C) -> bool>,
    run: Act<C>,
    undo: Option<Act<C>>,
    is_last: bool,
}

/// What whoever waits is told of a step.
#[derive(Clone, Copy)]
enum Told {
    /// That it begins and ends, under its name.
    Itself,
    /// What it tells by itself: its parts, or nothing. They stand here for the documentation, and a test holds them.
    Parts(
        #[cfg_attr(not(test), expect(dead_code, reason = "only documentation names them"))]
        &'static [&'static str],
    ),
}

impl<C> Step<C> {
    /// One that is told of under its name.
    pub(crate) const fn shown(name: &'static str, run: Act<C>) -> Self {
        Self { name, told: Told::Itself, when: None, run, undo: None, is_last: false }
    }

    /// One that tells of its parts by itself.
    pub(crate) const fn parts(name: &'static str, parts: &'static [&'static str], run: Act<C>) -> Self {
        Self { told: Told::Parts(parts), ..Self::shown(name, run) }
    }

    /// One that nobody is told of.
    pub(crate) const fn quiet(name: &'static str, run: Act<C>) -> Self {
        Self::parts(name, &[], run)
    }

    /// The one that writes down how it ended.
    pub(crate) const fn last(name: &'static str, run: Act<C>) -> Self {
        Self { is_last: true, ..Self::quiet(name, run) }
    }

    /// How it is taken back, wherever it was cut short.
    pub(crate) const fn undo(self, undo: Act<C>) -> Self {
        Self { undo: Some(undo), ..self }
    }

    /// When it is done at all.
    pub(crate) const fn when(self, when: fn(&Work<'_>, &C) -> bool) -> Self {
        Self { when: Some(when), ..self }
    }
}

/// The steps of one line of the journal.
pub(crate) struct Stage<C: 'static> {
    /// Without one, the journal says nothing while it runs: a crash costs nothing that anybody had.
    line: Option<JournalLine<C>>,
    when: Option<fn(&C) -> bool>,
    out: WayOut<C>,
    steps: &'static [Step<C>],
}

/// What the journal says while a stage runs.
struct JournalLine<C: 'static> {
    phase: &'static str,
    of: fn(&C) -> Phase,
}

/// What becomes of a stage that was cut short.
pub(crate) enum WayOut<C: 'static> {
    Back,
    On,
    OnOr(fn(&mut Work<'_>, &mut C, LifecycleError) -> Result<LifecycleError>),
    Settle(Act<C>),
}

/// A whole operation.
pub(crate) type Pipeline<C> = &'static [Stage<C>];

impl<C> Stage<C> {
    /// With a line in the journal.
    pub(crate) const fn new(
        phase: &'static str,
        of: fn(&C) -> Phase,
        out: WayOut<C>,
        steps: &'static [Step<C>],
    ) -> Self {
        Self { line: Some(JournalLine { phase, of }), when: None, out, steps }
    }

    /// Without one.
    pub(crate) const fn unwritten(steps: &'static [Step<C>]) -> Self {
        Self { line: None, when: None, out: WayOut::On, steps }
    }

    /// When it is entered at all.
    pub(crate) const fn when(self, when: fn(&C) -> bool) -> Self {
        Self { when: Some(when), ..self }
    }

    fn is_phase(&self, phase: &Phase) -> bool {
        self.line.as_ref().is_some_and(|line| line.phase == phase.as_str())
    }
}

/// One run of a pipeline: on which session, with which line in the journal, and who watches.
pub(crate) struct Work<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) record: &'a mut Record,
    pub(crate) steps: Steps<'a>,
    entry: Option<Entry>,
}

impl<'a> Work<'a> {
    /// One that begins.
    pub(crate) fn new(engine: &'a Engine, record: &'a mut Record, steps: Steps<'a>) -> Self {
        Self { engine, record, steps, entry: None }
    }

    /// One that somebody began who is gone.
    pub(crate) fn found(engine: &'a Engine, record: &'a mut Record, entry: Entry) -> Self {
        Self { engine, record, steps: Steps::new(&NoWatch), entry: Some(entry) }
    }

    /// The line in the journal.
    pub(crate) fn entry(&self) -> Result<&Entry> {
        self.entry.as_ref().ok_or_else(unwritten)
    }

    /// The same, and whoever is told of steps.
    pub(crate) fn noted(&mut self) -> Result<(&Entry, &mut Steps<'a>)> {
        Ok((self.entry.as_ref().ok_or_else(unwritten)?, &mut self.steps))
    }

    /// Runs a pipeline, or what is left of one.
    pub(crate) fn run<C>(&mut self, pipeline: &[Stage<C>], known: &mut C) -> Result<()> {
        let mut before: Option<&Stage<C>> = None;
        for stage in pipeline {
            if stage.when.is_some_and(|when| !when(known)) {
                continue;
            }
            if let Err(error) = self.enter(stage, known) {
                // What was done until now is known to the journal, and what comes now must not be done without.
                return Err(match before {
                    Some(before) => self.way_out(before, before.steps, known, error),
                    None => error,
                });
            }
            self.run_stage(stage, known)?;
            before = Some(stage);
        }
        self.over()
    }

    /// Puts right what a run of this pipeline left that was cut short in `phase`.
    pub(crate) fn recover<C>(&mut self, pipeline: &[Stage<C>], known: &mut C, phase: &Phase) -> Result<()> {
        let at = pipeline.iter().position(|stage| stage.is_phase(phase));
        let Some((stage, rest)) = at.and_then(|at| Some((pipeline.get(at)?, pipeline.get(at..)?))) else {
            return Err(LifecycleError::Bug(format!("no stage of the pipeline is {}", phase.as_str())));
        };
        match stage.out {
            WayOut::Back => {
                if let Err(error) = self.undo(stage.steps, known) {
                    self.note_trouble(&error)?;
                    return Err(error);
                }
            }
            WayOut::On | WayOut::OnOr(_) => return self.run(rest, known),
            WayOut::Settle(settle) => settle(self, known)?,
        }
        self.over()
    }

    /// The record says how it ended: the line goes away.
    pub(crate) fn over(&mut self) -> Result<()> {
        Ok(self.entry.take().map_or(Ok(()), Entry::done)?)
    }

    fn enter<C>(&mut self, stage: &Stage<C>, known: &C) -> Result<()> {
        let Some(line) = &stage.line else { return self.over() };
        let phase = (line.of)(known);
        match &self.entry {
            Some(entry) => entry.enter(&phase)?,
            None => self.entry = Some(self.engine.inner.journal.begin(&self.record.id, &phase)?),
        }
        Ok(())
    }

    fn run_stage<C>(&mut self, stage: &Stage<C>, known: &mut C) -> Result<()> {
        for (at, step) in stage.steps.iter().enumerate() {
            if step.when.is_some_and(|when| !when(self, known)) {
                continue;
            }
            let Err(error) = self.run_step(step, known) else { continue };
            if step.is_last {
                return Err(error);
            }
            // Whoever says that the GPU is stuck has tried everything.
            let from = if is_stuck(&error) { at } else { at + 1 };
            return Err(self.way_out(stage, stage.steps.get(..from).unwrap_or_default(), known, error));
        }
        Ok(())
    }

    fn run_step<C>(&mut self, step: &Step<C>, known: &mut C) -> Result<()> {
        let Told::Itself = step.told else {
            let result = (step.run)(self, known);
            happened(&format!("{}: over", step.name));
            return result;
        };
        let begun = self.steps.begin(step.name);
        let result = (step.run)(self, known);
        self.steps.end(begun, result.is_ok());
        result
    }

    /// After an error: leads out of a stage of which these steps were begun. What is said is the error, or what came of it.
    fn way_out<C>(
        &mut self,
        stage: &Stage<C>,
        begun: &[Step<C>],
        known: &mut C,
        error: LifecycleError,
    ) -> LifecycleError {
        let said = match stage.out {
            WayOut::On => return error,
            WayOut::Back => self.undo(begun, known).map(|()| error),
            WayOut::OnOr(or) => self.undo(begun, known).and_then(|()| or(self, known, error)),
            WayOut::Settle(settle) => {
                self.undo(begun, known).and_then(|()| settle(self, known)).map(|()| error)
            }
        };
        let is_back = said.is_ok();
        let (Ok(said) | Err(said)) = said;
        let written = match is_back && !is_stuck(&said) {
            true => self.over(),
            false => self.note_trouble(&said),
        };
        written.err().unwrap_or(said)
    }

    /// Takes steps back, the last first.
    fn undo<C>(&mut self, steps: &[Step<C>], known: &mut C) -> Result<()> {
        for (name, undo) in steps.iter().rev().filter_map(|step| Some((step.name, step.undo?))) {
            undo(self, known)?;
            happened(&format!("{name}: taken back"));
        }
        Ok(())
    }

    /// Says so in the record if processes are still off the GPU.
    fn note_trouble(&mut self, error: &LifecycleError) -> Result<()> {
        if is_stuck(error) { self.engine.note_gpu_trouble(self.record, error) } else { Ok(()) }
    }
}

fn unwritten() -> LifecycleError {
    LifecycleError::Bug("a step needs a line in the journal, and there is none".to_owned())
}

fn is_stuck(error: &LifecycleError) -> bool {
    matches!(error, LifecycleError::GpuStuck { .. })
}

/// As documentation shows it, and as tests ask for it.
#[cfg(test)]
impl<C> Stage<C> {
    /// The phase, the steps, and the way out.
    pub(crate) fn row(&self) -> [String; 3] {
        let phase = self.line.as_ref().map_or("-", |line| line.phase);
        let steps: Vec<String> = self.steps.iter().map(Step::words).collect();
        let out = match self.out {
            WayOut::Back => "back",
            WayOut::On if self.line.is_none() => "gone",
            WayOut::On => "on",
            WayOut::OnOr(_) => "on, or else to what it was",
            WayOut::Settle(_) => "whole or none",
        };
        let phase = if self.when.is_some() { format!("{phase}, if need be") } else { phase.to_owned() };
        [phase, steps.join(", "), out.to_owned()]
    }

    /// The steps that are always done.
    pub(crate) fn always(&self) -> impl Iterator<Item = &'static str> {
        let steps = if self.when.is_some() { &[] } else { self.steps };
        steps.iter().filter(|step| step.when.is_none()).map(|step| step.name)
    }

    /// Every name that whoever waits is told of.
    pub(crate) fn told(&self) -> impl Iterator<Item = &'static str> {
        self.steps
            .iter()
            .flat_map(|step| match &step.told {
                Told::Itself => std::slice::from_ref(&step.name),
                Told::Parts(parts) => parts,
            })
            .copied()
    }
}

#[cfg(test)]
impl<C> Step<C> {
    fn words(&self) -> String {
        let parts = match self.told {
            Told::Parts(parts @ [_, ..]) => format!(" ({})", parts.join(", ")),
            _ => String::new(),
        };
        let undo = if self.undo.is_some() { " ↶" } else { "" };
        format!("{}{parts}{undo}", self.name)
    }
}
