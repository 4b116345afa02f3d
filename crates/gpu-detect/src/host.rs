//! The machine's GPUs.

use serde::{Deserialize, Serialize};

/// The driver and its GPUs, by NVML's word.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// For example `580.95.05`.
    pub driver_version: String,
    /// The newest CUDA that the driver speaks, as CUDA writes it: 13000 is 13.0.
    pub cuda_version: u32,
    /// Those that answered, by index.
    pub gpus: Vec<HostGpu>,
    /// What could not be learnt, a line each: a lost GPU, a question the driver does not know.
    #[serde(default)]
    pub trouble: Vec<String>,
}

/// One GPU.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostGpu {
    /// NVML's number, the one of `nvidia-smi`.
    pub index: u32,
    /// The number in the name of its device node, `/dev/nvidiaN`.
    pub minor: u32,
    /// For example `GPU-5a3c…`.
    pub uuid: String,
    /// Vendor and device, for example `10de:2330`; the same for two GPUs of the same chip.
    pub pci_id: String,
    /// For example `00000000:3B:00.0`.
    pub bus_id: String,
    /// For example `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// All of its memory.
    pub memory_bytes: u64,
    /// What nobody holds.
    pub free_bytes: u64,
    /// For example `9.0`.
    pub compute_capability: String,
    /// UUIDs or bus ids of what its active `NVLink`s lead to.
    pub nvlink_peers: Vec<String>,
    /// UUIDs of its instances where it is partitioned (MIG); `None` where it is not.
    pub mig: Option<Vec<String>>,
    /// Persistence mode; `None` where the driver does not say.
    pub persistence: Option<bool>,
    /// Confidential computing; `None` where the driver does not say.
    #[serde(default)]
    pub confidential: Option<bool>,
    /// Whether processes reach it through the multi-process service.
    pub mps: bool,
    /// Per cent of the last sample period; `None` where the driver does not say.
    pub utilisation: Option<u32>,
    /// Who uses it.
    pub processes: Vec<GpuUse>,
}

/// A process on a GPU.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GpuUse {
    /// Its number.
    pub pid: u32,
    /// Its device memory; `None` where the driver does not say.
    pub bytes: Option<u64>,
    /// Whether it comes through the multi-process service.
    #[serde(default)]
    pub mps: bool,
    /// Whether it draws.
    #[serde(default)]
    pub graphics: bool,
}
