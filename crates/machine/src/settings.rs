//! How the engines of this machine are to be used.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use checkpoint_criu::MemoryPath;
use gpu_plan::GpuConfig;
use memory_path::Injector;

use crate::ahead::Courses;
use crate::filling::Filling;

/// Settings of the engines. The defaults are those of an installation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `infinijup-box`, if it is not to be looked for.
    pub program: Option<PathBuf>,
    /// CRIU, if it is not to be looked for.
    pub criu: Option<PathBuf>,
    /// How long CRIU may take for a dump or a restore.
    pub criu_limit: Duration,
    /// Whether memory is copied while a session runs.
    pub copy_ahead: CopyAhead,
    /// The sessions whose writes are followed.
    pub following: Arc<Courses>,
    /// Whether the newest snapshot of the kernel that was used last is kept restored, so that going back to it is a switch.
    pub standby: bool,
    /// How the memory of sessions comes back.
    pub way_back: Arc<dyn MemoryPath>,
    /// How the GPU's driver is talked to.
    pub gpu: GpuConfig,
}

impl Default for Settings {
    fn default() -> Self {
        Self::injecting_by(Injector::default())
    }
}

impl Settings {
    /// The defaults, with somebody else to make the calls that are needed to follow what runs.
    pub fn injecting_by(injector: Injector) -> Self {
        let following = Arc::new(Courses::by(injector));
        Self {
            program: None,
            criu: None,
            criu_limit: Duration::from_secs(600),
            copy_ahead: CopyAhead::default(),
            standby: true,
            way_back: Arc::new(Filling { courses: Arc::clone(&following) }),
            following,
            gpu: GpuConfig::default(),
        }
    }
}

/// Whether memory is copied while a session runs, so that it stands still only for the rest.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CopyAhead {
    /// It is. Some of the pages that were not written are compared all the same.
    #[default]
    On,
    /// It is, and every page is compared. A session stands still for as long as reading all of its memory takes.
    Checked,
    /// CRIU copies all of it while the session stands still.
    Off,
}
