//! What is found, in words that serialise.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a process has to do with the GPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// A CUDA context with standard allocations.
    Context,
    /// Mappings of `/dev/nvidia-uvm`.
    Uvm,
    /// Managed memory (`cudaMallocManaged`).
    Managed,
    /// CUDA memory shared between processes.
    Ipc,
    /// Collective communication.
    Nccl,
    /// The multi-process service.
    Mps,
    /// A slice of a partitioned GPU.
    Mig,
    /// The gdrcopy driver.
    Gdrcopy,
    /// RDMA device descriptors beside a CUDA context.
    Rdma,
    /// A PCI window (BAR) of a GPU, mapped by the process itself.
    BarMapping,
    /// Device descriptors that came by `fork` and belong to the parent's context.
    InheritedDescriptors,
    /// Monitoring by NVML in a process without CUDA.
    Monitoring,
    /// OpenGL, EGL or Vulkan.
    Graphics,
}

impl Kind {
    /// The word in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Uvm => "uvm",
            Self::Managed => "managed",
            Self::Ipc => "ipc",
            Self::Nccl => "nccl",
            Self::Mps => "mps",
            Self::Mig => "mig",
            Self::Gdrcopy => "gdrcopy",
            Self::Rdma => "rdma",
            Self::BarMapping => "bar-mapping",
            Self::InheritedDescriptors => "inherited-descriptors",
            Self::Monitoring => "monitoring",
            Self::Graphics => "graphics",
        }
    }

    /// What it is, for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Context => "CUDA context",
            Self::Uvm => "mappings of unified memory",
            Self::Managed => "managed memory",
            Self::Ipc => "CUDA memory shared between processes",
            Self::Nccl => "NCCL",
            Self::Mps => "multi-process service (MPS)",
            Self::Mig => "GPU instance (MIG)",
            Self::Gdrcopy => "gdrcopy",
            Self::Rdma => "RDMA",
            Self::BarMapping => "PCI window of a GPU",
            Self::InheritedDescriptors => "GPU descriptors inherited by fork",
            Self::Monitoring => "GPU monitoring without CUDA",
            Self::Graphics => "graphics (OpenGL, EGL or Vulkan)",
        }
    }
}

/// How sure a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Something else explains the evidence as well.
    Possible,
    /// Little else explains it.
    Likely,
    /// Nothing else explains it.
    Certain,
}

impl Confidence {
    /// The word in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

/// One thing that was found in one process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// How sure that is.
    pub confidence: Confidence,
    /// What was seen, a line each.
    pub evidence: Vec<String>,
    /// How to run the work without it.
    pub way_out: Option<String>,
    /// Whether the driver's checkpoint does not work with it.
    pub blocks: bool,
}

/// How the GPU state of a process or a tree can be taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Strategy {
    /// There is none.
    Skip,
    /// By the driver, into the memory of the process.
    Driver,
    /// By the driver (CUDA 13.4), straight into storage.
    DriverToStorage,
    /// It cannot.
    Refuse {
        /// Why, a sentence each.
        reasons: Vec<String>,
    },
}

/// One process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Its number, as the reader of `/proc` sees it.
    pub pid: i32,
    /// Its name, at most 15 characters.
    pub comm: String,
    /// Its cgroup, which tells the container or session; empty if it uses no GPU.
    #[serde(default)]
    pub cgroup: String,
    /// Whether it holds anything of a GPU.
    pub uses_gpu: bool,
    /// The GPUs it has open, by UUID; empty where NVML is not there to name them.
    pub gpus: Vec<String>,
    /// Its device memory by NVML's word; 0 where NVML does not say.
    pub vram_bytes: u64,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What fits it.
    pub strategy: Strategy,
}

/// A process that could not be looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unreadable {
    /// Its number.
    pub pid: i32,
    /// Its name, at most 15 characters; empty if that cannot be read either.
    pub comm: String,
    /// What could not be read, and why.
    pub reason: String,
}

/// Several processes: a tree, or all of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Of a tree, each of its processes; of a machine, those that have to do with a GPU. By number.
    pub processes: Vec<ProcessReport>,
    /// Those that could not be looked at; they may use a GPU unseen.
    pub unreadable: Vec<Unreadable>,
    /// How many were looked at.
    pub looked_at: usize,
    /// What fits all together: one process that cannot be taken refuses the tree.
    pub strategy: Strategy,
    /// How long the look took.
    #[serde(rename = "took_us", with = "microseconds")]
    pub took: Duration,
}

mod microseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(took: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(took.as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}
