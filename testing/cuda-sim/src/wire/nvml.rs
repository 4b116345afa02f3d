//! Requests of the management library.
use serde::{Deserialize, Serialize};

use super::GpuInfo;

/// A question of the stand-in for NVML.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nvml {
    /// Answer: [`Machine`], all that the library ever wants to know.
    Machine,
    /// Persistence mode of a GPU, by index. NOT_PERMITTED unless the caller is root.
    SetPersistence {
        /// The GPU's index.
        gpu: u32,
        /// The new mode.
        on: bool,
    },
}

/// The machine at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// `580.95.05`.
    pub driver: String,
    /// 13000 for CUDA 13.0.
    pub cuda: i32,
    /// Confidential computing.
    pub confidential: bool,
    /// All GPUs, by index.
    pub cards: Vec<Card>,
}

/// A GPU at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// What never changes.
    pub info: GpuInfo,
    /// Bytes in use, by whomever.
    pub used: u64,
    /// It has fallen off the bus.
    pub lost: bool,
    /// Work is queued or being done.
    pub busy: bool,
    /// Persistence mode.
    pub persistence: bool,
    /// Number of MIG instances; `None` where MIG is off.
    pub mig: Option<u32>,
    /// PCI addresses at the other ends of its NVLinks.
    pub links: Vec<[u32; 3]>,
    /// Who has a context on it.
    pub processes: Vec<Use>,
}

/// A process on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// As the server sees it: NVML tells the machine's pids in containers, too.
    pub pid: u32,
    /// Its memory there; `None` where the driver does not say.
    pub bytes: Option<u64>,
    /// It goes through the multi-process service.
    pub mps: bool,
}
