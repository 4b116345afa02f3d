//! Where the words of the wire meet those of the crates below.
//!
//! Requests and answers are the types of `api`, from the socket to the pipelines. Engines and rooms know nothing of the wire: what they take
//! and what is written down in records has types of their own. Between the two it is translated here, and nowhere else.

use std::ffi::OsString;
use std::time::Duration;

use api::{Activity, ActivityState, EnvVar, InterruptMode, Keep, Text};
use jupyter_bridge::client::{Doing, Variable};
use policy::SessionPolicy;
use workspace::FilePolicy;

use crate::session::GpuWish;

/// The most that a snapshot takes of a workspace, unless the caller says otherwise.
const TREE_BYTES: u64 = 10 << 30;

/// A command.
pub(crate) fn argv(words: &[Text]) -> Vec<OsString> {
    words.iter().map(|word| word.as_os_str().to_owned()).collect()
}

/// Variables.
pub(crate) fn environment(variables: &[EnvVar]) -> Vec<(OsString, OsString)> {
    let owned = |text: &Text| text.as_os_str().to_owned();
    variables.iter().map(|variable| (owned(&variable.name), owned(&variable.value))).collect()
}

/// A duration, in the unit of the wire.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Which GPUs a session is to have.
pub(crate) fn gpu_wish(wish: api::GpuWish) -> GpuWish {
    match wish {
        api::GpuWish::All => GpuWish::All,
        api::GpuWish::None => GpuWish::None,
        api::GpuWish::List { gpus } => GpuWish::List(gpus),
    }
}

/// Which files belong to snapshots.
pub(crate) fn file_policy(policy: api::FilePolicy) -> FilePolicy {
    match policy {
        api::FilePolicy::Open => FilePolicy::Open,
        api::FilePolicy::Tree { include, exclude, max_bytes } => {
            FilePolicy::Tree { include, exclude, max_bytes: max_bytes.unwrap_or(TREE_BYTES) }
        }
        api::FilePolicy::None => FilePolicy::None,
    }
}

/// The same, told.
pub(crate) fn tell_file_policy(policy: FilePolicy) -> api::FilePolicy {
    match policy {
        FilePolicy::Open => api::FilePolicy::Open,
        FilePolicy::Tree { include, exclude, max_bytes } => {
            api::FilePolicy::Tree { include, exclude, max_bytes: Some(max_bytes) }
        }
        FilePolicy::None => api::FilePolicy::None,
    }
}

/// What happens to a session by itself.
pub(crate) fn session_policy(policy: api::SessionPolicy) -> SessionPolicy {
    let keep = |keep: Keep| policy::Keep { last: keep.last, hourly: keep.hourly, daily: keep.daily };
    SessionPolicy {
        snapshot_every_s: policy.snapshot_every_s,
        snapshot_after_idle_s: policy.snapshot_after_idle_s,
        suspend_after_idle_s: policy.suspend_after_idle_s,
        suspend_only_gpu: policy.suspend_only_gpu,
        keep: policy.keep.map(keep),
    }
}

/// The same, told.
pub(crate) fn tell_session_policy(policy: &SessionPolicy) -> api::SessionPolicy {
    let keep = |keep: policy::Keep| Keep { last: keep.last, hourly: keep.hourly, daily: keep.daily };
    api::SessionPolicy {
        snapshot_every_s: policy.snapshot_every_s,
        snapshot_after_idle_s: policy.snapshot_after_idle_s,
        suspend_after_idle_s: policy.suspend_after_idle_s,
        suspend_only_gpu: policy.suspend_only_gpu,
        keep: policy.keep.map(keep),
    }
}

/// What a kernelspec says of interrupts.
pub(crate) fn interrupt_mode(mode: jupyter_bridge::InterruptMode) -> InterruptMode {
    match mode {
        jupyter_bridge::InterruptMode::Signal => InterruptMode::Signal,
        jupyter_bridge::InterruptMode::Message => InterruptMode::Message,
    }
}

/// What a kernel is doing.
pub(crate) fn activity(seen: jupyter_bridge::watch::Activity) -> Activity {
    Activity {
        state: match seen.doing {
            Doing::Busy => ActivityState::Busy,
            Doing::Idle => ActivityState::Idle,
            Doing::Unknown => ActivityState::Unknown,
        },
        since: seen.since.to_string(),
        number: seen.number,
        cell: seen.cell,
    }
}

/// What a kernel says of a variable.
pub(crate) fn variable(Variable { name, kind, size, summary }: Variable) -> api::Variable {
    api::Variable { name, kind, size, summary }
}
