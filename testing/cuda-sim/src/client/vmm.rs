//! The VMM calls: addresses and physical memory apart.
use super::Call;
use super::addresses::LARGE;
use super::tables::{Allocation, Kind, Physical};
use crate::abi::sys::reserve;
use crate::code::{Code, Result};
use crate::wire::Core;

/// What sizes and addresses are multiples of.
pub const GRANULARITY: u64 = LARGE;

impl Call {
    /// Reserves addresses.
    ///
    /// # Errors
    /// INVALID_VALUE if the size is not a multiple of the granularity, OUT_OF_MEMORY.
    pub fn reserve(&self, bytes: u64, align: u64) -> Result<u64> {
        let align = align.max(GRANULARITY);
        if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) || !align.is_power_of_two() {
            return Err(Code::INVALID_VALUE);
        }
        let address = reserve::reserve(bytes, align)?;
        self.client.tables().reserved.insert(address, bytes);
        Ok(address)
    }

    /// Gives reserved addresses back.
    ///
    /// # Errors
    /// INVALID_VALUE if it is not exactly a reservation, or something is mapped in it.
    pub fn unreserve(&self, address: u64, bytes: u64) -> Result<()> {
        let mut tables = self.client.tables();
        let mapped = tables.allocations.range(address..address.saturating_add(bytes)).next().is_some();
        if mapped || tables.reserved.get(&address) != Some(&bytes) {
            return Err(Code::INVALID_VALUE);
        }
        tables.reserved.remove(&address);
        drop(tables);
        reserve::release(address, bytes);
        Ok(())
    }

    /// Physical memory on a device.
    ///
    /// # Errors
    /// INVALID_VALUE if the size is not a multiple of the granularity, OUT_OF_MEMORY, INVALID_DEVICE.
    pub fn create_physical(&self, device: i32, bytes: u64) -> Result<u64> {
        if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
            return Err(Code::INVALID_VALUE);
        }
        let mut tables = self.client.tables();
        let handle = tables.handle();
        let (device, known) = tables.device(device)?;
        let gpu = known.gpu.index;
        drop(tables);
        self.core::<()>(Core::PhysicalCreate { handle, gpu, bytes })?;
        self.client.tables().physical.insert(handle, Physical { device, bytes, references: 1, mapped: 0 });
        Ok(handle)
    }

    /// One reference less; the memory lives while it is mapped.
    ///
    /// # Errors
    /// INVALID_VALUE.
    pub fn release_physical(&self, handle: u64) -> Result<()> {
        {
            let mut tables = self.client.tables();
            let known = tables.physical.get_mut(&handle).filter(|known| known.references > 0);
            known.ok_or(Code::INVALID_VALUE)?.references -= 1;
        }
        self.sweep(handle)
    }

    /// The handle of what is mapped at an address, with one reference more.
    ///
    /// # Errors
    /// INVALID_VALUE.
    pub fn retain_physical(&self, address: u64) -> Result<u64> {
        let mut tables = self.client.tables();
        let Some((_, Allocation { kind: Kind::Mapped(handle), .. })) = tables.allocation_at(address) else {
            return Err(Code::INVALID_VALUE);
        };
        tables.physical.get_mut(&handle).ok_or(Code::INVALID_VALUE)?.references += 1;
        Ok(handle)
    }

    /// Tells the server to let go what nobody refers to.
    fn sweep(&self, handle: u64) -> Result<()> {
        let mut tables = self.client.tables();
        if tables.physical.get(&handle).is_none_or(|known| known.references > 0 || known.mapped > 0) {
            return Ok(());
        }
        tables.physical.remove(&handle);
        drop(tables);
        self.core(Core::PhysicalRelease { handle })
    }

    /// Maps physical memory at reserved addresses.
    ///
    /// # Errors
    /// INVALID_VALUE if the range is not reserved, is taken, or the memory is not that large.
    pub fn map(&self, address: u64, bytes: u64, offset: u64, handle: u64) -> Result<()> {
        if bytes == 0 || !(bytes | address | offset).is_multiple_of(GRANULARITY) {
            return Err(Code::INVALID_VALUE);
        }
        let tables = self.client.tables();
        let inside = tables.reserved.range(..=address).next_back();
        let device =
            tables.physical.get(&handle).filter(|known| known.references > 0).map(|known| known.device);
        if inside.is_none_or(|(start, length)| address.saturating_add(bytes) > start + length) {
            return Err(Code::INVALID_VALUE);
        }
        drop(tables);
        let device = device.ok_or(Code::INVALID_VALUE)?;
        self.core::<()>(Core::Map { address, bytes, handle, offset })?;
        let mut tables = self.client.tables();
        if let Some(known) = tables.physical.get_mut(&handle) {
            known.mapped += 1;
        }
        let id = tables.handle();
        let allocation =
            Allocation { bytes, room: bytes, context: 0, device, kind: Kind::Mapped(handle), id };
        tables.allocations.insert(address, allocation);
        Ok(())
    }

    /// Takes the mappings in a range away.
    ///
    /// # Errors
    /// INVALID_VALUE if there are none.
    pub fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
        self.core::<()>(Core::Unmap { address, bytes })?;
        let mut tables = self.client.tables();
        let mut gone = Vec::new();
        tables.allocations.retain(|start, allocation| match allocation.kind {
            Kind::Mapped(handle) if *start >= address && start + allocation.bytes <= address + bytes => {
                gone.push(handle);
                false
            }
            _ => true,
        });
        for handle in &gone {
            if let Some(known) = tables.physical.get_mut(handle) {
                known.mapped = known.mapped.saturating_sub(1);
            }
        }
        drop(tables);
        gone.into_iter().try_for_each(|handle| self.sweep(handle))
    }
}
