//! What goes wrong here. Who snapshots and restores gives these the codes of its own errors.

use checkpoint_cuda::CudaError;
use gpu_detect::DetectError;
use preflight::Problem;
use sandbox::SandboxError;
use thiserror::Error;

/// Why there is no plan.
#[derive(Debug, Error)]
pub enum GpuPlanError {
    /// The GPU's driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The look at GPUs.
    #[error(transparent)]
    Detect(#[from] DetectError),
    /// The processes could not be looked at.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The driver will not take what is on the GPU.
    #[error("a snapshot would fail: {}", problems.iter().map(|problem| problem.what).collect::<Vec<_>>().join("; "))]
    Refused {
        /// Everything that was found.
        problems: Vec<Problem>,
    },
    /// A name means no GPU of this machine, or several.
    #[error("{detail}")]
    NoSuchGpu {
        /// What was said, and what there is.
        detail: String,
    },
    /// The program that talks to the driver is missing.
    #[error("`infinijup-gpu` is not there; looked for it at {}", looked.join(", "))]
    NoProgram {
        /// The places that were looked at.
        looked: Vec<String>,
    },
    /// A process has a number that no process has.
    #[error("a process has number {number}")]
    StrangeNumber {
        /// The number.
        number: i32,
    },
}

/// The usual result here.
pub type Result<T, E = GpuPlanError> = std::result::Result<T, E>;
