//! How the engines of this machine are to be used.

use std::path::PathBuf;
use std::time::Duration;

use gpu_plan::GpuConfig;

/// Settings of the engines. The defaults are those of an installation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `infinijup-box`, if it is not to be looked for.
    pub program: Option<PathBuf>,
    /// CRIU, if it is not to be looked for.
    pub criu: Option<PathBuf>,
    /// How long CRIU may take for a dump or a restore.
    pub criu_limit: Duration,
    /// How the GPU's driver is talked to.
    pub gpu: GpuConfig,
}

impl Default for Settings {
    fn default() -> Self {
        Self { program: None, criu: None, criu_limit: Duration::from_secs(600), gpu: GpuConfig::default() }
    }
}
