//! What is asked for, in the engine's words.

use std::ffi::OsString;

use api::Text;

/// The most that a snapshot takes of a workspace, unless the caller says otherwise.
const TREE_BYTES: u64 = 10 << 30;

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
