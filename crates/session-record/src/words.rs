//! What is written down of a session, in the words of the wire and back.
//!
//! Requests and answers are the types of `api`; what a record has must be readable for as long as there are records, so it has types of its
//! own. What people ask of kernels is translated in `lifecycle`.

use std::ffi::OsString;

use api::{EnvVar, Skipped, SnapshotSkipped, Text};
use policy::plan::Spared;
use policy::{Keep, SessionPolicy};
use workspace::FilePolicy;

use crate::session::GpuWish;

/// The most that a snapshot takes of a workspace, unless the caller says otherwise.
pub(crate) const TREE_BYTES: u64 = 10 << 30;

/// A command.
pub fn argv(words: &[Text]) -> Vec<OsString> {
    words.iter().map(|word| word.as_os_str().to_owned()).collect()
}

/// Variables.
pub fn environment(variables: &[EnvVar]) -> Vec<(OsString, OsString)> {
    let owned = |text: &Text| text.as_os_str().to_owned();
    variables.iter().map(|variable| (owned(&variable.name), owned(&variable.value))).collect()
}

/// Which GPUs a session is to have.
pub fn gpu_wish(wish: api::GpuWish) -> GpuWish {
    match wish {
        api::GpuWish::All => GpuWish::All,
        api::GpuWish::None => GpuWish::None,
        api::GpuWish::List { gpus } => GpuWish::List(gpus),
    }
}

/// Which files belong to snapshots.
pub fn file_policy(policy: api::FilePolicy) -> FilePolicy {
    match policy {
        api::FilePolicy::Open => FilePolicy::Open,
        api::FilePolicy::Tree { include, exclude, max_bytes, volumes } => FilePolicy::Tree {
            include,
            exclude,
            max_bytes: max_bytes.unwrap_or(TREE_BYTES),
            volumes: volumes.iter().map(|volume| volume.as_path().to_owned()).collect(),
        },
        api::FilePolicy::Workspace => FilePolicy::Workspace,
        api::FilePolicy::None => FilePolicy::None,
    }
}

/// The same, told.
pub fn tell_file_policy(policy: FilePolicy) -> api::FilePolicy {
    match policy {
        FilePolicy::Open => api::FilePolicy::Open,
        FilePolicy::Tree { include, exclude, max_bytes, volumes } => api::FilePolicy::Tree {
            include,
            exclude,
            max_bytes: Some(max_bytes),
            volumes: volumes.into_iter().map(Text::from).collect(),
        },
        FilePolicy::Workspace => api::FilePolicy::Workspace,
        FilePolicy::None => api::FilePolicy::None,
    }
}

/// Why a snapshot that nobody asked for was left out, of a session whose newest is `head`.
pub fn skipped(head: Option<String>, spared: Spared) -> SnapshotSkipped {
    let (why, expected) = match spared {
        Spared::NothingNew => (Skipped::NothingNew, None),
        Spared::TooLong(expected) => (Skipped::TooLong, Some(expected)),
        Spared::Busy => (Skipped::Busy, None),
        Spared::GivenUp => (Skipped::GivenUp, None),
    };
    let expected_us = expected.map(|expected| u64::try_from(expected.as_micros()).unwrap_or(u64::MAX));
    SnapshotSkipped { why, head, expected_us }
}

/// What happens to a session by itself.
pub fn session_policy(policy: api::SessionPolicy) -> SessionPolicy {
    let keep = |keep: api::Keep| Keep { last: keep.last, hourly: keep.hourly, daily: keep.daily };
    SessionPolicy {
        snapshot_every_s: policy.snapshot_every_s,
        snapshot_after_idle_s: policy.snapshot_after_idle_s,
        suspend_after_idle_s: policy.suspend_after_idle_s,
        suspend_only_gpu: policy.suspend_only_gpu,
        keep: policy.keep.map(keep),
    }
}

/// The same, told.
pub fn tell_session_policy(policy: &SessionPolicy) -> api::SessionPolicy {
    let keep = |keep: Keep| api::Keep { last: keep.last, hourly: keep.hourly, daily: keep.daily };
    api::SessionPolicy {
        snapshot_every_s: policy.snapshot_every_s,
        snapshot_after_idle_s: policy.snapshot_after_idle_s,
        suspend_after_idle_s: policy.suspend_after_idle_s,
        suspend_only_gpu: policy.suspend_only_gpu,
        keep: policy.keep.map(keep),
    }
}
