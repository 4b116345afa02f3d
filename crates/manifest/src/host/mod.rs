//! What a machine is, as far as a restore cares, and whether a snapshot of one can run on another.
//!
//! A restored process continues in the middle of its code. It has already chosen its instructions by the CPU's features,
//! knows the size of a page, and holds a CUDA context for GPUs of one chip. None of this can be chosen again, so what
//! differs must be found before the old process is ended.

mod compare;
mod gpus;
pub mod probe;
mod verdict;
mod version;

pub use compare::compare;
pub use gpus::{GpuPair, pair_gpus};
pub use verdict::{Reason, Verdict};

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::wire;

/// What is known of a machine. [`probe::probe`] fills in what `/proc` says; GPUs, driver and CRIU are given by the caller.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct HostFingerprint {
    /// For people only: it takes no part in the comparison.
    pub hostname: String,
    /// `x86_64`, `aarch64` …
    pub architecture: String,
    /// The processor.
    pub cpu: Cpu,
    /// `uname -r`.
    pub kernel_release: String,
    /// Bytes per page.
    pub page_size: u32,
    /// CRIU that dumps or restores; absent if no processes were dumped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criu_version: Option<String>,
    /// NVIDIA driver; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// GPUs that the driver shows to the session, in any order. Empty for a session that uses none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
}

/// A processor.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Cpu {
    /// `GenuineIntel`, `AuthenticAMD` …
    pub vendor: String,
    /// What it is sold as.
    pub model_name: String,
    /// Family number.
    pub family: u32,
    /// Model number.
    pub model: u32,
    /// Stepping number.
    pub stepping: u32,
    /// Feature flags, as the kernel names them.
    pub features: BTreeSet<String>,
}

/// A GPU.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Gpu {
    /// `GPU-…`.
    pub uuid: String,
    /// Vendor and device, `10de:2330`. Two GPUs with the same are the same chip.
    pub pci_id: String,
    /// Where it is plugged in, `00000000:1b:00.0`.
    pub bus_id: String,
    /// What it is sold as.
    pub name: String,
    /// How much memory it has.
    #[serde(with = "wire::int")]
    pub memory_bytes: u64,
    /// UUIDs of the GPUs that it has NVLink to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nvlink_peers: BTreeSet<String>,
    /// Profiles of its MIG instances, in any order; absent if MIG is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<Vec<String>>,
    /// `9.0`.
    pub compute_capability: String,
}
