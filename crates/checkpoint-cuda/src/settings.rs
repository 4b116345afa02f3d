//! What a caller decides: where things are, how long they may take, how to lock.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where things are, and how long they may take.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program `infinijup-gpu`.
    pub worker: PathBuf,
    /// The driver's library; the loader's `libcuda.so.1` if none is named.
    pub library: Option<PathBuf>,
    /// The `cuda-checkpoint` program, for machines where the library lacks the calls. Looked for in `PATH` if none is named.
    pub tool: Option<PathBuf>,
    /// How long the driver's calls may take.
    pub limits: Limits,
}

impl Settings {
    /// The usual library and limits.
    pub fn new(worker: impl AsRef<Path>) -> Self {
        Self { worker: worker.as_ref().to_path_buf(), library: None, tool: None, limits: Limits::default() }
    }
}

/// How long the driver's calls may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// State, restore thread.
    pub question: Duration,
    /// Lock; the driver is given nine tenths of it, so that its own answer comes first.
    pub lock: Duration,
    /// Checkpoint and restore, to which a second is added for each 256 MiB of device memory.
    pub step: Duration,
    /// Unlock.
    pub unlock: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            question: Duration::from_secs(5),
            lock: Duration::from_secs(10),
            step: Duration::from_secs(60),
            unlock: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// For a checkpoint or restore of this much device memory.
    pub fn step_for(&self, vram_bytes: u64) -> Duration {
        self.step.saturating_add(Duration::from_secs(vram_bytes / (256 << 20)))
    }
}

/// How to lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockOptions {
    /// Let frozen processes run for the time they are needed, and freeze them again afterwards, instead of refusing them.
    pub thaw: bool,
    /// See that there is room for the device memory ([`crate::host_memory::check`]). Only custom storage can do without.
    pub room: bool,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self { thaw: false, room: true }
    }
}
