//! What happens to a session by itself: when it is snapshotted or put to sleep ([`plan`], and [`schedule`] for all of them), and which of
//! those snapshots go again ([`retention`]). Those that nobody asked for are left out where they would be in the way ([`pause`], [`plan::Spared`]).
//!
//! [`pushing`] says what is sent to a remote. [`standby`] says of which one a copy stands by, and hands it to whoever wants it.
//!
//! These are rules and nothing else. They know neither a clock nor a store: they are told what is known at a moment, and say what is to be
//! done. Whoever looks after sessions asks them, does it, and tells how it went.

#![forbid(unsafe_code)]

pub mod pause;
pub mod plan;
pub mod pushing;
pub mod retention;
pub mod schedule;
pub mod standby;

use serde::{Deserialize, Serialize};

pub use retention::Keep;

/// What happens to a session by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionPolicy {
    /// A snapshot every so many seconds, if anything ran since the last.
    pub snapshot_every_s: Option<u64>,
    /// A snapshot when its kernel has been idle for so many seconds.
    pub snapshot_after_idle_s: Option<u64>,
    /// It is suspended when its kernel has been idle for so many seconds.
    pub suspend_after_idle_s: Option<u64>,
    /// Only what holds GPU memory is suspended so.
    pub suspend_only_gpu: bool,
    /// Which automatic snapshots are kept; all if `None`.
    pub keep: Option<Keep>,
}

impl Default for SessionPolicy {
    fn default() -> Self {
        Self {
            snapshot_every_s: None,
            snapshot_after_idle_s: None,
            suspend_after_idle_s: None,
            suspend_only_gpu: true,
            keep: None,
        }
    }
}
