//! How far the daemon is with a job: a spinner or a bar with the step's name on a terminal, a line for each step in a log,
//! JSON for programs, or nothing.

use std::io::Write;
use std::time::{Duration, Instant};

use api::Step;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::context::Context;
use crate::format;
use crate::progress::{BAR_AFTER, Mode};

#[derive(Serialize)]
struct StepLine<'a> {
    message_type: &'static str,
    job: &'a str,
    kind: &'a str,
    step: &'a str,
    micros: Option<u64>,
    done: Option<u64>,
    total: Option<u64>,
}

/// Shows the steps of one job on stderr.
pub(super) struct Steps<'a> {
    context: &'a Context,
    job: String,
    kind: &'static str,
    begun: Instant,
    bar: Option<ProgressBar>,
    has_total: bool,
}

impl<'a> Steps<'a> {
    pub(super) fn new(context: &'a Context, job: &str, kind: &'static str) -> Self {
        let bar = (context.meter.mode() == Mode::Bar)
            .then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()));
        let mut steps =
            Self { context, job: job.to_owned(), kind, begun: Instant::now(), bar, has_total: false };
        steps.style(None);
        steps
    }

    /// A step began, went on or ended.
    pub(super) fn show(&mut self, step: &Step) {
        match self.context.meter.mode() {
            Mode::Json => self.context.printer.complain_json(&StepLine {
                message_type: "step",
                job: &self.job,
                kind: self.kind,
                step: &step.name,
                micros: step.micros,
                done: step.done,
                total: step.total,
            }),
            Mode::Lines => {
                if let Some(micros) = step.micros {
                    let line =
                        format!("{}: {} took {}", self.kind, format::safe(&step.name), duration(micros));
                    // Progress that cannot be shown is not worth failing for.
                    let _ = writeln!(std::io::stderr(), "{line}");
                }
            }
            Mode::Bar => self.draw(step),
            Mode::Nothing => {}
        }
    }

    fn draw(&mut self, step: &Step) {
        if step.micros.is_some() {
            return;
        }
        self.style(step.total);
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}: {}", self.kind, format::safe(&step.name)));
            bar.set_position(step.done.unwrap_or(0));
        }
        self.tick();
    }

    /// Turns the spinner. A job that is short does not flash one up.
    pub(super) fn tick(&self) {
        let Some(bar) = &self.bar else { return };
        if bar.is_hidden() && self.begun.elapsed() >= BAR_AFTER {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        }
        bar.tick();
    }

    fn style(&mut self, total: Option<u64>) {
        let Some(bar) = &self.bar else { return };
        let total = total.filter(|total| *total > 0);
        if let Some(total) = total {
            bar.set_length(total);
        }
        let template = match total {
            Some(_) => "{msg:>24} {wide_bar:.cyan} {binary_bytes} of {binary_total_bytes}",
            None => "{msg:>24} {spinner}",
        };
        if self.has_total != total.is_some() || total.is_none() {
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            self.has_total = total.is_some();
        }
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `870 µs`, `12.3 ms`, `4.56 s`.
pub(super) fn duration(micros: u64) -> String {
    let exact = Duration::from_micros(micros);
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", exact.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", exact.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_three_digits_or_so() {
        assert_eq!(
            [870, 12_340, 4_560_000].map(duration),
            ["870 µs".to_owned(), "12.3 ms".to_owned(), "4.56 s".to_owned()]
        );
    }
}
