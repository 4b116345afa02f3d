//! What a process has on the GPU, from `/proc` and NVML, and which strategy fits it.
//!
//! Nothing is asked of the process itself, nothing is stopped, and no rights are needed beyond those to read its `/proc`
//! directory. [`Detector`] reads and judges; [`host()`] asks NVML which GPUs there are. Each [`Finding`] carries the lines it
//! rests on and how sure it is, because most of what can be seen from outside has more than one explanation.
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::Duration;
//!
//! let host = gpu_detect::host(Duration::from_secs(5)).ok();
//! let detector = gpu_detect::Detector::new(Path::new("/proc"), host);
//! for process in detector.tree(4242)?.processes {
//!     println!("{} {:?}", process.pid, process.strategy);
//! }
//! # Ok::<(), gpu_detect::DetectError>(())
//! ```
#![forbid(unsafe_code)]

use std::time::Duration;

mod detector;
pub mod error;
#[cfg(any(feature = "forensic", test))]
pub mod forensic;
pub mod host;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only what was read in /proc is judged"))]
mod judge;
mod nvml;
pub mod object;
#[cfg(target_os = "linux")]
mod read;
pub mod report;
mod seen;
pub mod text;

pub use detector::Detector;
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
