//! What the library knows: devices, contexts, addresses, streams, events. All of it is the process's own memory, so that a
//! restored process has it again.
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::path::Path;

use super::addresses::Addresses;
use crate::code::{Code, Result};
use crate::server::chips::uuid_text;
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
    /// Are its device files open?
    pub opened: bool,
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
    /// As `cuCtxSetLimit`, where it was called.
    pub limits: HashMap<u32, u64>,
    /// As `cuCtxSetCacheConfig`.
    pub cache: u32,
    /// Contexts whose memory it may touch.
    pub peers: Vec<u64>,
}

/// What is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `cuMemAlloc` and its like.
    Device,
    /// `cuMemAllocAsync` and its like, and the pool.
    Pooled(u64),
    /// Another process's memory.
    Foreign,
    /// `cuMemAllocManaged`.
    Managed,
    /// A VMM mapping of that handle.
    Mapped(u64),
}

/// Device memory at an address.
#[derive(Debug, Clone, Copy)]
pub struct Allocation {
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes of addresses that it takes.
    pub room: u64,
    /// The context; 0 for a VMM mapping.
    pub context: u64,
    /// The device's ordinal.
    pub device: usize,
    /// See there.
    pub kind: Kind,
    /// As `CU_POINTER_ATTRIBUTE_BUFFER_ID`.
    pub id: u64,
}

/// Pinned host memory.
#[derive(Debug, Clone, Copy)]
pub struct Pinned {
    /// Its bytes.
    pub bytes: u64,
    /// As `cuMemHostAlloc` or `cuMemHostRegister`.
    pub flags: u32,
    /// Was it the program's own, registered?
    pub registered: bool,
    /// The context.
    pub context: u64,
    /// As `CU_POINTER_ATTRIBUTE_BUFFER_ID`.
    pub id: u64,
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

/// Physical memory of the VMM calls.
#[derive(Debug, Clone, Copy)]
pub struct Physical {
    /// The device's ordinal.
    pub device: usize,
    /// Its bytes.
    pub bytes: u64,
    /// As `cuMemCreate` and `cuMemRetainAllocationHandle` less `cuMemRelease`.
    pub references: u32,
    /// Mappings of it.
    pub mapped: u32,
}

/// A memory pool: an account, all its allocations are ordinary ones.
#[derive(Debug, Clone, Default)]
pub struct MemoryPool {
    /// The device's ordinal.
    pub device: usize,
    /// As `cuMemPoolSetAttribute`, where it was called.
    pub attributes: HashMap<u32, u64>,
    /// Is it the device's own?
    pub default: bool,
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
    /// By address.
    pub pinned: BTreeMap<u64, Pinned>,
    /// By handle; legacy default streams are not here.
    pub streams: HashMap<u64, Stream>,
    /// By handle: the context.
    pub events: HashMap<u64, u64>,
    /// By handle.
    pub physical: HashMap<u64, Physical>,
    /// Ranges of `cuMemAddressReserve`: address and bytes.
    pub reserved: BTreeMap<u64, u64>,
    /// By handle.
    pub pools: HashMap<u64, MemoryPool>,
    /// The pool that `cuMemAllocAsync` takes, by ordinal, where it was set.
    pub current_pools: HashMap<usize, u64>,
    /// Modules, libraries, functions.
    pub modules: super::modules::Modules,
    /// What streams will free, by address: its bytes of addresses. They are not given out again before that.
    pub leaving: BTreeMap<u64, u64>,
    /// Addresses for allocations.
    pub addresses: Addresses,
    last: u64,
}

impl Tables {
    /// The devices that this process may open, in the order that `CUDA_VISIBLE_DEVICES` says.
    ///
    /// # Errors
    /// NO_DEVICE if there is none.
    pub fn new(dev: &Path, host: &Host) -> Result<Self> {
        let wish = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let devices: Vec<Device> = visible(&host.gpus, wish.as_deref())
            .into_iter()
            .filter(|gpu| open_nodes(dev, &[&format!("nvidia{}", gpu.index)]).is_ok())
            .map(|gpu| Device { gpu, primary: None, retained: 0, flags: 0, opened: false })
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

    /// The device of an ordinal.
    ///
    /// # Errors
    /// INVALID_DEVICE.
    pub fn device(&self, ordinal: i32) -> Result<(usize, &Device)> {
        let ordinal = usize::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)?;
        self.devices.get(ordinal).map(|device| (ordinal, device)).ok_or(Code::INVALID_DEVICE)
    }

    /// The allocation that an address is in, and where that starts.
    #[must_use]
    pub fn allocation_at(&self, address: u64) -> Option<(u64, Allocation)> {
        let (start, allocation) = self.allocations.range(..=address).next_back()?;
        (address - start < allocation.bytes).then_some((*start, *allocation))
    }

    /// The pinned memory that an address is in, and where that starts.
    #[must_use]
    pub fn pinned_at(&self, address: u64) -> Option<(u64, Pinned)> {
        let (start, pinned) = self.pinned.range(..=address).next_back()?;
        (address - start < pinned.bytes).then_some((*start, *pinned))
    }
}

/// `CUDA_VISIBLE_DEVICES`: numbers or (beginnings of) UUIDs; the list ends at the first that is none.
fn visible(gpus: &[GpuInfo], wish: Option<&str>) -> Vec<GpuInfo> {
    let Some(wish) = wish else { return gpus.to_vec() };
    let find = |name: &str| match name.parse::<u32>() {
        Ok(index) => gpus.get(index as usize),
        Err(_) => gpus.iter().find(|gpu| name.len() > 4 && uuid_text(&gpu.uuid).starts_with(name)),
    };
    let mut found: Vec<GpuInfo> = Vec::new();
    for name in wish.split(',') {
        match find(name.trim()) {
            Some(gpu) if !found.contains(gpu) => found.push(gpu.clone()),
            _ => break,
        }
    }
    found
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_devices() {
        let config = crate::server::Config {
            chips: vec!["h100".to_owned(), "h100".to_owned()],
            memory: None,
            level: crate::level::Level::default(),
            uuid_seed: "x".to_owned(),
            pcie: None,
        };
        let gpus = crate::server::Server::new(&config).unwrap().host().gpus;
        let indices = |wish| visible(&gpus, wish).iter().map(|gpu| gpu.index).collect::<Vec<_>>();
        assert_eq!(indices(None), [0, 1]);
        assert_eq!(indices(Some("1,0")), [1, 0]);
        assert_eq!(indices(Some("1,7,0")), [1]);
        assert!(indices(Some("")).is_empty());
        assert!(indices(Some("-1")).is_empty());
        let uuid = uuid_text(&gpus[1].uuid);
        assert_eq!(indices(Some(&uuid)), [1]);
        assert_eq!(indices(Some(&uuid[..12])), [1]);
    }
}
