//! How far a long job is: a bar on a terminal, a line now and then in a log, JSON for programs, or nothing.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cas_core::progress::{Progress, Task};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::args::Global;
use crate::format;

/// How often a log gets a line.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// How often a program gets one.
const JSON_EVERY: Duration = Duration::from_secs(1);

/// A job that is shorter does not flash up a bar.
pub(crate) const BAR_AFTER: Duration = Duration::from_millis(500);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Bar,
    Lines,
    Json,
    Nothing,
}

/// Shows progress on stderr.
#[derive(Debug)]
pub(crate) struct Meter {
    mode: Mode,
    running: Mutex<Vec<Running>>,
}

/// A task that has begun. Few run at a time.
#[derive(Debug)]
struct Running {
    task: Task,
    total: Option<u64>,
    done: u64,
    begun: Instant,
    shown: Instant,
    bar: Option<ProgressBar>,
}

#[derive(Serialize)]
struct Message {
    message_type: &'static str,
    task: &'static str,
    unit: &'static str,
    done: u64,
    total: Option<u64>,
    finished: bool,
}

impl Meter {
    pub(crate) fn new(global: &Global) -> Self {
        let mode = if global.no_progress || (global.quiet && !global.json) {
            Mode::Nothing
        } else if global.json {
            Mode::Json
        } else if io::stderr().is_terminal() {
            Mode::Bar
        } else if global.verbose {
            Mode::Lines
        } else {
            Mode::Nothing
        };
        Self { mode, running: Mutex::default() }
    }

    /// How progress is shown.
    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, running: &Running, finished: bool) {
        let (task, unit, done) = (running.task, unit(running.task), running.done);
        // Progress that cannot be shown is not worth failing for.
        let _ = match self.mode {
            Mode::Json => {
                let message_type = "progress";
                let message =
                    Message { message_type, task: task.name(), unit, done, total: running.total, finished };
                serde_json::to_string(&message).map(|line| writeln!(io::stderr(), "{line}")).map(drop).ok()
            }
            Mode::Lines => {
                let amount =
                    |number| if unit == "bytes" { format::size(number) } else { format::count(number) };
                let total = running.total.map(|total| format!(" of {}", amount(total))).unwrap_or_default();
                writeln!(io::stderr(), "{}: {}{total}", title(task), amount(done)).ok()
            }
            Mode::Bar | Mode::Nothing => None,
        };
    }

    fn interval(&self) -> Duration {
        if self.mode == Mode::Json { JSON_EVERY } else { LINE_EVERY }
    }
}

impl Progress for Meter {
    fn begin(&self, task: Task, total: Option<u64>) {
        if self.mode == Mode::Nothing {
            return;
        }
        let bar = (self.mode == Mode::Bar).then(|| bar(task, total));
        let begun = Instant::now();
        self.running().push(Running { task, total, done: 0, begun, shown: begun, bar });
    }

    fn advance(&self, task: Task, done: u64) {
        if self.mode == Mode::Nothing {
            return;
        }
        let mut all = self.running();
        let Some(running) = all.iter_mut().rev().find(|running| running.task == task) else { return };
        running.done += done;
        match &running.bar {
            Some(bar) => {
                if bar.is_hidden() && running.begun.elapsed() >= BAR_AFTER {
                    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(8));
                }
                bar.inc(done);
            }
            None if running.shown.elapsed() >= self.interval() => {
                running.shown = Instant::now();
                self.show(running, false);
            }
            None => {}
        }
    }

    fn end(&self, task: Task) {
        let mut all = self.running();
        let Some(at) = all.iter().rposition(|running| running.task == task) else { return };
        let running = all.remove(at);
        match &running.bar {
            Some(bar) => bar.finish_and_clear(),
            // A log is not told about what took no time.
            None if self.mode == Mode::Json => self.show(&running, true),
            None => {}
        }
    }
}

fn bar(task: Task, total: Option<u64>) -> ProgressBar {
    let template = match (total.is_some(), unit(task)) {
        (true, "bytes") => "{msg:>16} {wide_bar:.cyan} {binary_bytes} of {binary_total_bytes}, {eta} left",
        (true, _) => "{msg:>16} {wide_bar:.cyan} {human_pos} of {human_len}, {eta} left",
        (false, "bytes") => "{msg:>16} {spinner} {binary_bytes}, {binary_bytes_per_sec}",
        (false, _) => "{msg:>16} {spinner} {human_pos}",
    };
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(title(task));
    bar
}

/// What people call it.
const fn title(task: Task) -> &'static str {
    match task {
        Task::IngestMemory => "storing memory",
        Task::IngestFiles => "storing files",
        Task::Read => "reading",
        Task::Verify => "checking",
        Task::Mark => "following refs",
        Task::Repack => "repacking",
        Task::Rebuild => "reading packs",
        Task::Transfer => "copying",
        _ => "working",
    }
}

/// What is counted.
const fn unit(task: Task) -> &'static str {
    match task {
        Task::Mark => "objects",
        Task::Rebuild => "packs",
        _ => "bytes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_may_nest_and_advance_without_a_beginning_does_no_harm() {
        let meter = Meter { mode: Mode::Lines, running: Mutex::default() };
        meter.advance(Task::Read, 5);
        meter.begin(Task::Verify, Some(10));
        meter.begin(Task::Mark, None);
        meter.advance(Task::Verify, 3);
        meter.advance(Task::Mark, 1);
        meter.end(Task::Mark);
        assert_eq!(meter.running().iter().map(|one| one.done).collect::<Vec<_>>(), [3]);
        meter.end(Task::Verify);
        meter.end(Task::Verify);
        assert!(meter.running().is_empty());
    }
}
