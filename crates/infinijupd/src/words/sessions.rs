//! Sessions, and what happens to them.

use std::time::Duration;

use api::TimedStep;
use lifecycle::Timing;

use crate::operations::Happening;

/// What happened, in the words of the wire.
pub(crate) fn happening(event: lifecycle::EngineEvent) -> Happening {
    let mut activity = None;
    let (kind, state, commit) = match event.kind {
        lifecycle::EventKind::State(now) => (api::EventKind::SessionState, Some(now), None),
        lifecycle::EventKind::Snapshot { commit } => (api::EventKind::SnapshotTaken, None, Some(commit)),
        lifecycle::EventKind::RolledBack { commit } => (api::EventKind::RolledBack, None, Some(commit)),
        lifecycle::EventKind::Changed => (api::EventKind::SessionChanged, None, None),
        lifecycle::EventKind::Activity(now) => {
            activity = Some(now);
            (api::EventKind::SessionActivity, None, None)
        }
        lifecycle::EventKind::History => (api::EventKind::HistoryChanged, None, None),
        lifecycle::EventKind::Removed => (api::EventKind::SessionRemoved, None, None),
    };
    Happening { kind, state, session: event.session.to_string(), commit, activity }
}

/// How long the steps took.
pub(crate) fn timed(steps: Vec<Timing>) -> Vec<TimedStep> {
    steps
        .into_iter()
        .map(|timing| TimedStep { name: timing.step.to_owned(), micros: micros(timing.took) })
        .collect()
}

/// A duration.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
