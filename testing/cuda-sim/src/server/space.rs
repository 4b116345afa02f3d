//! A process's device addresses and the memory behind them.
//!
//! Plain allocations, VMM mappings and memory opened from another process are all the same here: a range of addresses
//! that shows part of a piece of physical memory. The piece belongs to a GPU and goes back when nobody shows it any more.
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::{Gpu, Region};
use crate::code::{Code, Result};

/// Memory of a GPU.
#[derive(Debug)]
pub struct Physical {
    /// Whose it is.
    pub gpu: Arc<Gpu>,
    /// What is in it.
    pub memory: Region,
    /// Is it in the GPU's account?
    counted: bool,
}

impl Physical {
    /// New memory, zeroed.
    ///
    /// # Errors
    /// OUT_OF_MEMORY, or UNKNOWN for a lost GPU.
    pub fn new(gpu: &Arc<Gpu>, bytes: u64) -> Result<Arc<Self>> {
        gpu.take(bytes)?;
        match Region::new(bytes) {
            Ok(memory) => Ok(Arc::new(Self { gpu: gpu.clone(), memory, counted: true })),
            Err(code) => {
                gpu.give_back(bytes);
                Err(code)
            }
        }
    }

    /// Memory that stands for other memory of the GPU, and is not in its account.
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub(super) fn uncounted(gpu: &Arc<Gpu>, bytes: u64) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { gpu: gpu.clone(), memory: Region::new(bytes)?, counted: false }))
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        if self.counted {
            self.gpu.give_back(self.memory.len());
        }
    }
}

/// Memory that another process may open.
pub(super) type Shared = Weak<Physical>;

/// A range of addresses.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// How many addresses it has.
    pub bytes: u64,
    /// The memory that is seen there.
    pub physical: Arc<Physical>,
    /// Where in that memory it begins.
    pub offset: u64,
    /// The context of a plain allocation; `None` for a VMM mapping.
    pub context: Option<u64>,
    /// Is it another process's memory?
    pub foreign: bool,
    /// A stream will free it.
    pub leaving: bool,
}

/// All ranges of a process, by address.
#[derive(Debug, Default)]
pub struct AddressSpace {
    maps: BTreeMap<u64, Mapping>,
    host: BTreeMap<u64, u64>,
}

/// A part of a range: physical memory, the offset in it, and bytes.
pub type Piece = (Arc<Physical>, u64, u64);

impl AddressSpace {
    /// Adds a range.
    ///
    /// # Errors
    /// INVALID_VALUE if it overlaps another.
    pub fn insert(&mut self, address: u64, mapping: Mapping) -> Result<()> {
        if mapping.bytes == 0 || self.overlapping(address, mapping.bytes).is_some() {
            return Err(Code::INVALID_VALUE);
        }
        self.maps.insert(address, mapping);
        Ok(())
    }

    /// The first range that overlaps this one.
    #[must_use]
    pub fn overlapping(&self, address: u64, bytes: u64) -> Option<(u64, &Mapping)> {
        let end = address.saturating_add(bytes);
        let (start, mapping) = self.maps.range(..end).next_back()?;
        (start + mapping.bytes > address).then_some((*start, mapping))
    }

    /// The range that starts at this address.
    #[must_use]
    pub fn get(&self, address: u64) -> Option<&Mapping> {
        self.maps.get(&address)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, address: u64) -> Option<&mut Mapping> {
        self.maps.get_mut(&address)
    }

    /// Takes the range that starts at this address away.
    pub fn remove(&mut self, address: u64) -> Option<Mapping> {
        self.maps.remove(&address)
    }

    /// All ranges, by address.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Mapping)> {
        self.maps.iter().map(|(address, mapping)| (*address, mapping))
    }

    /// Takes away all that the question picks.
    pub fn retain(&mut self, mut keep: impl FnMut(u64, &Mapping) -> bool) {
        self.maps.retain(|address, mapping| keep(*address, mapping));
    }

    /// Is this a device address?
    #[must_use]
    pub fn is_device(&self, address: u64) -> bool {
        self.overlapping(address, 1).is_some()
    }

    /// The memory behind `bytes` from an address on, in pieces.
    ///
    /// # Errors
    /// INVALID_VALUE if any of it is not there.
    pub fn pieces(&self, address: u64, bytes: u64) -> Result<Vec<Piece>> {
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let mut pieces = Vec::new();
        let mut at = address;
        while at < end {
            let (start, mapping) = self.overlapping(at, 1).ok_or(Code::INVALID_VALUE)?;
            let inside = at - start;
            let length = (mapping.bytes - inside).min(end - at);
            pieces.push((mapping.physical.clone(), mapping.offset + inside, length));
            at += length;
        }
        Ok(pieces)
    }

    /// Host memory that kernels may touch.
    pub fn host_range(&mut self, address: u64, bytes: u64) {
        self.host.insert(address, bytes);
    }

    /// It is ordinary memory again.
    pub fn host_range_end(&mut self, address: u64) {
        self.host.remove(&address);
    }

    /// May kernels touch these bytes of the host?
    #[must_use]
    pub fn is_host(&self, address: u64, bytes: u64) -> bool {
        let found = self.host.range(..=address).next_back();
        found.is_some_and(|(start, length)| address.saturating_add(bytes) <= start + length)
    }

    /// All such ranges: address and bytes.
    pub fn host_ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.host.iter().map(|(address, bytes)| (*address, *bytes))
    }
}
