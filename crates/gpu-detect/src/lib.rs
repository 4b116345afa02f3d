//! What a process has on the GPU, from `/proc` and NVML, and which strategy fits it.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::Duration;

pub mod error;
pub mod host;
mod nvml;
pub mod report;

pub use error::{Class, DetectError, Result};
pub use host::{GpuUse, Host, HostGpu};
pub use report::{Confidence, Finding, Kind, ProcessReport, Report, Strategy, Unreadable};

/// The driver and its GPUs, by NVML.
///
/// NVML can hang on a GPU that fell off the bus, so it is asked in a thread of its own that is left behind when `limit` has
/// passed. A driver that is not there is [`DetectError::NoDriver`].
pub fn host(limit: Duration) -> Result<Host> {
    nvml::host(limit)
}

/// Looks into `/proc`.
#[derive(Clone, Debug)]
pub struct Detector {
    proc: PathBuf,
    host: Option<Host>,
}

impl Detector {
    /// Looks into `proc` (`/proc`, or a copy of one) with what is known of the machine's GPUs.
    pub fn new(proc: &Path, host: Option<Host>) -> Self {
        Self { proc: proc.to_path_buf(), host }
    }

    /// One process, by itself.
    pub fn process(&self, pid: i32) -> Result<ProcessReport> {
        let _ = (&self.proc, &self.host);
        Err(DetectError::NoProcess { pid })
    }

    /// A process and all its descendants.
    pub fn tree(&self, root: i32) -> Result<Report> {
        Err(DetectError::NoProcess { pid: root })
    }

    /// Every process that this one may read.
    pub fn all(&self) -> Result<Report> {
        Err(DetectError::io("read", &self.proc)(std::io::Error::other("not yet")))
    }
}
