//! The section `gpu`.

use serde::{Deserialize, Serialize};

use super::sections::{attributes, section};
use super::{Section, TypedSection};
use crate::error::Result;
use crate::wire;

/// `gpu`: what each process had on GPUs. The bytes of VRAM are in the section `memory`: in the process's own address space
/// if the driver put them there, under `gpu:<pid>:<uuid>` if not ([`GpuProcess::BESIDE`]).
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct GpuSection {
    /// Processes with CUDA contexts, by pid in their namespace.
    pub processes: Vec<GpuProcess>,
}

/// One process that used GPUs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GpuProcess {
    /// Its pid inside the session's namespace, the one that it has again after a restore.
    pub pid: u32,
    /// UUIDs of the devices that it used.
    pub devices: Vec<String>,
    /// How its GPU state was taken.
    pub strategy: String,
    /// How much memory it had on all of them.
    #[serde(with = "wire::int")]
    pub vram_bytes: u64,
    /// How much on each; empty if that was not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_device: Vec<DeviceMemory>,
}

/// Memory of one process on one device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// UUID of the device.
    pub device: String,
    /// Bytes that it takes there.
    #[serde(with = "wire::int")]
    pub bytes: u64,
}

impl GpuProcess {
    /// The strategy of those whose device memory is not in their own: a restore has to bring it.
    pub const BESIDE: &str = "beside";
}

impl GpuSection {
    /// Whether device memory is beside the processes.
    pub fn is_beside(&self) -> bool {
        self.processes.iter().any(|process| process.strategy == GpuProcess::BESIDE)
    }

    /// The same processes, with their device memory beside them.
    #[must_use]
    pub fn beside(mut self) -> Self {
        for process in &mut self.processes {
            GpuProcess::BESIDE.clone_into(&mut process.strategy);
        }
        self
    }
}

impl TypedSection for GpuSection {
    const NAME: &str = "gpu";
    const VERSION: u32 = 2;

    /// Who knows version 1 only would restore processes without their device memory, so version 2 is for those that have it beside them.
    fn to_section(&self) -> Result<Section> {
        let version = if self.is_beside() { 2 } else { 1 };
        Ok(Section { version, ..section::<Self>(self, Vec::new())? })
    }

    fn read(section: &Section) -> Result<Self> {
        attributes(section)
    }
}
