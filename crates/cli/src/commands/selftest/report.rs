//! What was tried, and how it went.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::{CliError, DaemonError};
use crate::format;

/// How a check went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Passed,
    Failed,
    Skipped,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

/// One claim that was tried.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Check {
    /// Stable, for comparing reports.
    pub(super) name: &'static str,
    pub(super) state: State,
    /// What was seen, why it failed, or why it was not tried.
    pub(super) detail: String,
    pub(super) micros: u64,
}

impl Check {
    /// One line, for progress and for the table.
    pub(super) fn row(&self) -> Vec<String> {
        let took = Duration::from_micros(self.micros).as_secs_f64();
        let took = if self.state == State::Skipped { String::new() } else { format!("{took:.2} s") };
        vec![self.state.word().to_owned(), self.name.to_owned(), took, format::safe(&self.detail)]
    }
}

/// A GPU, for the report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct GpuLine {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) pci_id: String,
    pub(super) memory_bytes: u64,
}

/// Everything, as it is written to the file.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    /// Whether nothing failed.
    pub(super) passed: bool,
    pub(super) time: String,
    /// The versions of this command, the daemon, CRIU, the kernel, the driver, CUDA and what is in the Python.
    pub(super) versions: std::collections::BTreeMap<String, Option<String>>,
    pub(super) gpus: Vec<GpuLine>,
    /// Bytes on each GPU that were carried through every step.
    pub(super) bytes_per_gpu: u64,
    pub(super) checks: Vec<Check>,
    /// The daemon's findings about the machine.
    pub(super) doctor: Vec<api::Finding>,
    /// Ctrl-C was pressed: nothing more is begun.
    #[serde(skip)]
    pub(super) interrupted: bool,
}

/// Why a check has no verdict: it could not be tried here.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Skip(pub(super) String);

/// For a check that makes no sense here.
pub(super) fn skip<T>(reason: impl Into<String>) -> anyhow::Result<T> {
    Err(Skip(reason.into()).into())
}

impl Report {
    /// Tries something and keeps how it went; gives the value if it went well.
    pub(super) fn check<T>(
        &mut self,
        name: &'static str,
        tell: impl FnOnce(&Check),
        attempt: impl FnOnce() -> anyhow::Result<(T, String)>,
    ) -> Option<T> {
        let begun = Instant::now();
        let tried = if self.interrupted { skip("interrupted") } else { attempt() };
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (state, detail, value) = match tried {
            Ok((value, detail)) => (State::Passed, detail, Some(value)),
            Err(error) => match error.downcast_ref::<Skip>() {
                Some(Skip(reason)) => (State::Skipped, reason.clone(), None),
                None => {
                    self.interrupted |= matches!(
                        error.downcast_ref(),
                        Some(CliError::Interrupted | CliError::JobGoesOn { .. })
                    );
                    (State::Failed, chain(&error), None)
                }
            },
        };
        let check = Check { name, state, detail, micros };
        tell(&check);
        self.checks.push(check);
        value
    }

    /// Names of the checks that failed.
    pub(super) fn failed(&self) -> Vec<String> {
        let failed = self.checks.iter().filter(|check| check.state == State::Failed);
        failed.map(|check| check.name.to_owned()).collect()
    }

    /// The table at the end.
    pub(super) fn table(&self) -> Vec<String> {
        let mut rows = vec![["RESULT", "CHECK", "TIME", "DETAIL"].map(str::to_owned).to_vec()];
        rows.extend(self.checks.iter().map(Check::row));
        let mut lines = format::table(&rows, &[false, false, true, false]);
        let count = |state: State| self.checks.iter().filter(|check| check.state == state).count();
        lines.push(format!(
            "{} passed, {} failed, {} skipped",
            count(State::Passed),
            count(State::Failed),
            count(State::Skipped)
        ));
        lines
    }
}

/// An error with its causes, in one line.
fn chain(error: &anyhow::Error) -> String {
    let mut said = error.chain().map(ToString::to_string).collect::<Vec<_>>();
    if let Some(DaemonError(body)) = error.downcast_ref() {
        said.extend(body.causes.iter().cloned());
        said.push(format!("[{}]", body.code));
    }
    said.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_counted_and_what_is_skipped_is_not_held_against_anyone() {
        let mut report = Report::default();
        let quiet = |_: &Check| {};
        assert_eq!(report.check("one", quiet, || Ok((7, "seven".to_owned()))), Some(7));
        assert_eq!(report.check::<()>("two", quiet, || skip("no second GPU")), None);
        assert!(report.failed().is_empty());
        let failed = report.check::<()>("three", quiet, || {
            Err(anyhow::anyhow!("the deeper reason").context("it did not come back"))
        });
        assert!(failed.is_none());
        assert_eq!(report.failed(), ["three"]);
        let table = report.table();
        assert!(table[1].starts_with("passed") && table[1].ends_with("seven"), "{table:?}");
        assert!(table[2].contains("no second GPU"), "{table:?}");
        assert!(table[3].ends_with("it did not come back: the deeper reason"), "{table:?}");
        assert_eq!(table[4], "1 passed, 1 failed, 1 skipped");
    }
}
