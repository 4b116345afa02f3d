//! What the library knows: devices, contexts, addresses, streams.
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::code::{Code, Result};
use crate::wire::{GpuInfo, Host};

/// A device, by ordinal. A restore on other GPUs puts other ones here.
#[derive(Debug, Clone)]
pub struct Device {
    /// What the server says about it; `gpu.index` is the server's number.
    pub gpu: GpuInfo,
    /// Its primary context, while that is alive.
    pub primary: Option<u64>,
    /// How often the primary context is retained.
    pub retained: u32,
    /// Flags for the primary context.
    pub flags: u32,
}

/// A context.
#[derive(Debug, Clone)]
pub struct Context {
    /// The device's ordinal.
    pub device: usize,
    /// As `cuCtxCreate`.
    pub flags: u32,
    /// Is it the device's primary one?
    pub primary: bool,
}

/// Device memory at an address of its own.
#[derive(Debug, Clone, Copy)]
pub struct Allocation {
    /// Bytes asked for.
    pub bytes: u64,
    /// The context.
    pub context: u64,
}

/// A stream.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    /// The context.
    pub context: u64,
    /// As `cuStreamCreate`.
    pub flags: u32,
    /// As `cuStreamCreateWithPriority`.
    pub priority: i32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Tables {
    /// By ordinal.
    pub devices: Vec<Device>,
    /// By handle.
    pub contexts: HashMap<u64, Context>,
    /// By address.
    pub allocations: BTreeMap<u64, Allocation>,
    /// By handle.
    pub streams: HashMap<u64, Stream>,
    last: u64,
}

impl Tables {
    /// The devices that this process may open, in the order that `CUDA_VISIBLE_DEVICES` says.
    ///
    /// # Errors
    /// NO_DEVICE if there is none.
    pub fn new(dev: &Path, host: &Host) -> Result<Self> {
        let devices: Vec<Device> = host
            .gpus
            .iter()
            .filter(|gpu| open_nodes(dev, &[&format!("nvidia{}", gpu.index)]).is_ok())
            .map(|gpu| Device { gpu: gpu.clone(), primary: None, retained: 0, flags: 0 })
            .collect();
        if devices.is_empty() {
            return Err(Code::NO_DEVICE);
        }
        Ok(Self { devices, ..Self::default() })
    }

    /// A number for a new handle: never 0, nor one of the special streams, never used again.
    pub fn handle(&mut self) -> u64 {
        self.last += 0x10;
        0x0005_0000_0000 + self.last
    }
}

/// The device files that a process opens at `cuInit`.
pub const COMMON_NODES: &[&str] = &["nvidiactl", "nvidiactl", "nvidiactl", "nvidia-uvm", "nvidia-uvm"];
/// How often it opens the file of a GPU that it has a context on.
pub const NODES_PER_GPU: usize = 4;

/// Opens device nodes, as often as they are named.
///
/// # Errors
/// NO_DEVICE.
pub fn open_nodes(dev: &Path, names: &[&str]) -> Result<Vec<File>> {
    let open = |name: &&str| {
        OpenOptions::new().read(true).write(true).open(dev.join(name)).map_err(|_| Code::NO_DEVICE)
    };
    names.iter().map(open).collect()
}
