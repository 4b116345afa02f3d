//! Exported functions: addresses and physical memory apart. Memory of a device only, and none of it can be exported.
use super::{In, Out, export};
use crate::client::enter;
use crate::client::tables::{Allocation, Kind};
use crate::client::vmm::GRANULARITY;
use crate::code::{Code, Result};

/// `CUmemAllocationProp`: the kind of memory, the kind of handles, the location's kind and number, and the rest.
type Properties = [u32; 8];

export! {
    fn cuMemAddressReserve(address: Out<u64>, bytes: u64, align: u64, _wish: u64, flags: u64) {
        let call = enter()?;
        if address.is_null() || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        address.put(call.reserve(bytes, align)?)
    }

    fn cuMemAddressFree(address: u64, bytes: u64) {
        enter()?.unreserve(address, bytes)
    }

    fn cuMemCreate(handle: Out<u64>, bytes: u64, properties: In<Properties>, flags: u64) {
        let call = enter()?;
        if handle.is_null() || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let device = device(properties)?;
        handle.put(call.create_physical(device, bytes)?)
    }

    fn cuMemRelease(handle: u64) {
        enter()?.release_physical(handle)
    }

    fn cuMemRetainAllocationHandle(handle: Out<u64>, address: u64) {
        handle.put(enter()?.retain_physical(address)?)
    }

    fn cuMemMap(address: u64, bytes: u64, offset: u64, handle: u64, flags: u64) {
        let call = enter()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        call.map(address, bytes, offset, handle)
    }

    fn cuMemUnmap(address: u64, bytes: u64) {
        enter()?.unmap(address, bytes)
    }

    fn cuMemSetAccess(address: u64, bytes: u64, access: In<[u32; 3]>, count: u64) {
        let call = enter()?;
        let count = usize::try_from(count).map_err(|_| Code::INVALID_VALUE)?;
        let tables = call.client.tables();
        for [kind, device, _flags] in access.list(count)? {
            if kind != 1 {
                return Err(Code::NOT_SUPPORTED);
            }
            tables.device(device.cast_signed())?;
        }
        let mut at = address;
        while at < address.saturating_add(bytes) {
            let (start, known) = tables.allocation_at(at).ok_or(Code::INVALID_VALUE)?;
            at = start + known.bytes;
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: Out<u64>, location: In<[u32; 2]>, address: u64) {
        let call = enter()?;
        let [_, device] = location.need()?;
        let tables = call.client.tables();
        let known = tables.allocation_at(address).ok_or(Code::INVALID_VALUE)?.1;
        let same = usize::try_from(device).is_ok_and(|device| device == known.device);
        flags.put(if same { 3 } else { 0 })
    }

    fn cuMemGetAllocationGranularity(bytes: Out<u64>, properties: In<Properties>, _option: u32) {
        enter()?;
        device(properties)?;
        bytes.put(GRANULARITY)
    }

    fn cuMemGetAllocationPropertiesFromHandle(properties: Out<Properties>, handle: u64) {
        let call = enter()?;
        let known = call.client.tables().physical.get(&handle).copied().ok_or(Code::INVALID_VALUE)?;
        properties.put([1, 0, 1, u32::try_from(known.device).map_err(|_| Code::UNKNOWN)?, 0, 0, 0, 0])
    }

    fn cuMemGetHandleForAddressRange(_handle: Out<u64>, address: u64, _bytes: u64, _kind: u32, _flags: u64) {
        let call = enter()?;
        let Some((_, Allocation { kind: Kind::Device | Kind::Mapped(_), .. })) = call.client.tables().allocation_at(address) else {
            return Err(Code::INVALID_VALUE);
        };
        Err(Code::NOT_SUPPORTED)
    }
}

/// The device of pinned memory there. Handles may be asked for as file descriptors (libraries do so by habit); that they
/// cannot be had is said by the call that exports them.
fn device(properties: In<Properties>) -> Result<i32> {
    match properties.need()? {
        [1, 0 | 1, 1, device, ..] => Ok(device.cast_signed()),
        [1, ..] => Err(Code::NOT_SUPPORTED),
        _ => Err(Code::INVALID_VALUE),
    }
}
