//! What is asked for, in the engine's words.

use std::ffi::OsString;

use api::{SessionPatch, Signal, SignalName, Start, Text};

/// The most that a snapshot takes of a workspace, unless the caller says otherwise.
const TREE_BYTES: u64 = 10 << 30;

/// What to run.
pub(crate) fn start(start: Start) -> lifecycle::Start {
    match start {
        Start::Command { argv } => lifecycle::Start::Command(words(argv)),
        Start::Kernel { spec, argv, interrupt_mode, language } => {
            let own = argv.map(|argv| lifecycle::KernelStart {
                argv: words(argv),
                interrupt_mode: match interrupt_mode.unwrap_or_default() {
                    api::InterruptMode::Signal => lifecycle::InterruptMode::Signal,
                    api::InterruptMode::Message => lifecycle::InterruptMode::Message,
                },
                language: language.unwrap_or_default(),
            });
            lifecycle::Start::Kernel { spec, own }
        }
    }
}

/// A signal's number on Linux.
pub(crate) fn signal_number(signal: Signal) -> i32 {
    match signal {
        Signal::Name(SignalName::Hup) => 1,
        Signal::Name(SignalName::Int) => 2,
        Signal::Name(SignalName::Kill) => 9,
        Signal::Name(SignalName::Usr1) => 10,
        Signal::Name(SignalName::Usr2) => 12,
        Signal::Name(SignalName::Term) => 15,
        Signal::Number(number) => number,
    }
}

/// What is to be noted otherwise.
pub(crate) fn notes_change(patch: SessionPatch) -> lifecycle::NotesChange {
    lifecycle::NotesChange {
        name: patch.name,
        labels: patch.labels.unwrap_or_default(),
        notebook: patch.notebook.map(|notebook| notebook.map(Into::into)),
        // None at all is as good as one with everything off.
        policy: patch.policy.map(|policy| policy.map(session_policy).unwrap_or_default()),
        mark: patch.mark,
    }
}

/// What happens by itself.
pub(crate) fn session_policy(policy: api::SessionPolicy) -> lifecycle::SessionPolicy {
    lifecycle::SessionPolicy {
        snapshot_every_s: policy.snapshot_every_s,
        snapshot_after_idle_s: policy.snapshot_after_idle_s,
        suspend_after_idle_s: policy.suspend_after_idle_s,
        suspend_only_gpu: policy.suspend_only_gpu,
        keep: policy.keep.map(|keep| lifecycle::Keep {
            last: keep.last,
            hourly: keep.hourly,
            daily: keep.daily,
        }),
    }
}

/// Which GPUs.
pub(crate) fn gpu_wish(wish: api::GpuWish) -> lifecycle::GpuWish {
    match wish {
        api::GpuWish::All => lifecycle::GpuWish::All,
        api::GpuWish::None => lifecycle::GpuWish::None,
        api::GpuWish::List { gpus } => lifecycle::GpuWish::List(gpus),
    }
}

/// Which files.
pub(crate) fn policy(policy: api::FilePolicy) -> lifecycle::FilePolicy {
    match policy {
        api::FilePolicy::Open => lifecycle::FilePolicy::Open,
        api::FilePolicy::Tree { include, exclude, max_bytes } => {
            lifecycle::FilePolicy::Tree { include, exclude, max_bytes: max_bytes.unwrap_or(TREE_BYTES) }
        }
        api::FilePolicy::None => lifecycle::FilePolicy::None,
    }
}

/// A command.
pub(crate) fn words(argv: Vec<Text>) -> Vec<OsString> {
    argv.into_iter().map(OsString::from).collect()
}

/// Variables.
pub(crate) fn environment(variables: Vec<api::EnvVar>) -> Vec<(OsString, OsString)> {
    variables.into_iter().map(|variable| (variable.name.into(), variable.value.into())).collect()
}
