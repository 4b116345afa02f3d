//! Sessions, and what happens to them.

use std::time::Duration;

use api::{SessionView, Text, TimedStep};
use lifecycle::Timing;

use crate::operations::Happening;

/// What happened, in the words of the wire.
pub(crate) fn happening(event: lifecycle::EngineEvent) -> Happening {
    let mut activity = None;
    let (kind, state, commit) = match event.kind {
        lifecycle::EventKind::State(now) => (api::EventKind::SessionState, Some(state(now)), None),
        lifecycle::EventKind::Snapshot { commit } => (api::EventKind::SnapshotTaken, None, Some(commit)),
        lifecycle::EventKind::RolledBack { commit } => (api::EventKind::RolledBack, None, Some(commit)),
        lifecycle::EventKind::Changed => (api::EventKind::SessionChanged, None, None),
        lifecycle::EventKind::Activity(now) => {
            activity = Some(kernel_activity(now));
            (api::EventKind::SessionActivity, None, None)
        }
        lifecycle::EventKind::History => (api::EventKind::HistoryChanged, None, None),
        lifecycle::EventKind::Removed => (api::EventKind::SessionRemoved, None, None),
    };
    Happening { kind, state, session: event.session.to_string(), commit, activity }
}

fn kernel_activity(activity: lifecycle::Activity) -> api::Activity {
    api::Activity {
        state: match activity.doing {
            lifecycle::Doing::Busy => api::ActivityState::Busy,
            lifecycle::Doing::Idle => api::ActivityState::Idle,
            lifecycle::Doing::Unknown => api::ActivityState::Unknown,
        },
        since: activity.since.to_string(),
        number: activity.number,
        cell: activity.cell,
    }
}

/// A session.
pub(crate) fn session(view: lifecycle::SessionView) -> SessionView {
    SessionView {
        id: view.id.to_string(),
        name: view.name,
        state: state(view.state),
        command: view.command.into_iter().map(Text::from).collect(),
        cwd: view.cwd.into(),
        workspace: Some(view.workspace.into()),
        pid: view.pid,
        network: match view.network {
            lifecycle::Network::Private => api::Network::Private,
            lifecycle::Network::Host => api::Network::Host,
        },
        kernel: view.kernel.map(|kernel| api::KernelView {
            connection_file: kernel.connection_file.into(),
            kernel_name: Some(kernel.kernel_name),
            language: kernel.language,
            interrupt_mode: match kernel.interrupt_mode {
                lifecycle::InterruptMode::Signal => api::InterruptMode::Signal,
                lifecycle::InterruptMode::Message => api::InterruptMode::Message,
            },
        }),
        thread: view.thread,
        head: view.head,
        parent: view
            .parent
            .map(|origin| api::Origin { session: origin.session.to_string(), commit: origin.commit }),
        created: view.created.to_string(),
        exit: view.exit,
        files: match view.files {
            lifecycle::FilePolicy::Open => api::FilePolicy::Open,
            lifecycle::FilePolicy::Tree { include, exclude, max_bytes } => {
                api::FilePolicy::Tree { include, exclude, max_bytes: Some(max_bytes) }
            }
            lifecycle::FilePolicy::None => api::FilePolicy::None,
        },
        memory_bytes: view.memory_bytes,
        attached: view.attached,
        gpus: view.gpus,
        vram_bytes: view.vram_bytes,
        gpu_trouble: view.gpu_trouble,
        labels: view.labels,
        notebook: view.notebook.map(Text::from),
        policy: api::SessionPolicy {
            snapshot_every_s: view.policy.snapshot_every_s,
            snapshot_after_idle_s: view.policy.snapshot_after_idle_s,
            suspend_after_idle_s: view.policy.suspend_after_idle_s,
            suspend_only_gpu: view.policy.suspend_only_gpu,
            keep: view.policy.keep.map(|keep| api::Keep {
                last: keep.last,
                hourly: keep.hourly,
                daily: keep.daily,
            }),
        },
        operation: view.operation.map(str::to_owned),
        activity: view.activity.map(kernel_activity),
        mark: view.mark,
    }
}

fn state(state: lifecycle::SessionState) -> api::SessionState {
    match state {
        lifecycle::SessionState::Starting => api::SessionState::Starting,
        lifecycle::SessionState::Running => api::SessionState::Running,
        lifecycle::SessionState::Suspended => api::SessionState::Suspended,
        lifecycle::SessionState::Ended => api::SessionState::Ended,
        lifecycle::SessionState::Failed => api::SessionState::Failed,
    }
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
