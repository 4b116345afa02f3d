//! Exported functions: memory in stream order, and its pools. A pool keeps no memory back: it is an account.
use std::ffi::c_void;

use super::{In, Out, export};
use crate::client::tables::{Kind, MemoryPool, Tables};
use crate::client::{Call, enter};
use crate::code::{Code, Result};

/// Of a location: memory of a device.
const DEVICE: u32 = 1;

export! {
    fn cuMemAllocAsync(address: Out<u64>, bytes: u64, stream: u64) {
        alloc(address, bytes, None, stream, false)
    }

    fn cuMemAllocAsync_ptsz(address: Out<u64>, bytes: u64, stream: u64) {
        alloc(address, bytes, None, stream, true)
    }

    fn cuMemAllocFromPoolAsync(address: Out<u64>, bytes: u64, pool: u64, stream: u64) {
        alloc(address, bytes, Some(pool), stream, false)
    }

    fn cuMemAllocFromPoolAsync_ptsz(address: Out<u64>, bytes: u64, pool: u64, stream: u64) {
        alloc(address, bytes, Some(pool), stream, true)
    }

    fn cuMemFreeAsync(address: u64, stream: u64) {
        free(address, stream, false)
    }

    fn cuMemFreeAsync_ptsz(address: u64, stream: u64) {
        free(address, stream, true)
    }

    fn cuDeviceGetDefaultMemPool(pool: Out<u64>, device: i32) {
        let call = enter()?;
        let mut tables = call.client.tables();
        let device = tables.device(device)?.0;
        pool.put(default_pool(&mut tables, device))
    }

    fn cuDeviceGetMemPool(pool: Out<u64>, device: i32) {
        let call = enter()?;
        let mut tables = call.client.tables();
        let device = tables.device(device)?.0;
        pool.put(current_pool(&mut tables, device))
    }

    fn cuDeviceSetMemPool(device: i32, pool: u64) {
        set_pool(device, pool)
    }

    fn cuMemGetDefaultMemPool(pool: Out<u64>, location: In<[u32; 2]>, _kind: u32) {
        let call = enter()?;
        let mut tables = call.client.tables();
        let device = located(&tables, location)?;
        pool.put(default_pool(&mut tables, device))
    }

    fn cuMemGetMemPool(pool: Out<u64>, location: In<[u32; 2]>, _kind: u32) {
        let call = enter()?;
        let mut tables = call.client.tables();
        let device = located(&tables, location)?;
        pool.put(current_pool(&mut tables, device))
    }

    fn cuMemSetMemPool(location: In<[u32; 2]>, _kind: u32, pool: u64) {
        let [kind, device] = location.need()?;
        if kind != DEVICE {
            return Err(Code::NOT_SUPPORTED);
        }
        set_pool(device.cast_signed(), pool)
    }

    fn cuMemPoolCreate(pool: Out<u64>, properties: In<[u32; 4]>) {
        let call = enter()?;
        // The kind of memory, of handles, and the location.
        let [_, handles, kind, device] = properties.need()?;
        if handles != 0 || kind != DEVICE {
            return Err(Code::NOT_SUPPORTED);
        }
        let mut tables = call.client.tables();
        let device = tables.device(device.cast_signed())?.0;
        let handle = tables.handle();
        tables.pools.insert(handle, MemoryPool { device, ..MemoryPool::default() });
        pool.put(handle)
    }

    fn cuMemPoolDestroy(pool: u64) {
        let call = enter()?;
        let mut tables = call.client.tables();
        if known(&tables, pool)?.default {
            return Err(Code::INVALID_VALUE);
        }
        tables.pools.remove(&pool);
        tables.current_pools.retain(|_, current| *current != pool);
        Ok(())
    }

    fn cuMemPoolSetAttribute(pool: u64, attribute: u32, value: In<c_void>) {
        let call = enter()?;
        let value = if attribute <= 3 { u64::from(value.cast::<u32>().need()?) } else { value.cast::<u64>().need()? };
        let mut tables = call.client.tables();
        // The high marks are only ever set to 0; the rest of the account cannot be set.
        let pool = tables.pools.get_mut(&pool).ok_or(Code::INVALID_VALUE)?;
        match attribute {
            1..=4 => drop(pool.attributes.insert(attribute, value)),
            6 | 8 => {}
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    fn cuMemPoolGetAttribute(pool: u64, attribute: u32, value: Out<c_void>) {
        let call = enter()?;
        let tables = call.client.tables();
        let set = known(&tables, pool)?.attributes.get(&attribute).copied();
        match attribute {
            // Reuse of memory: yes.
            1..=3 => value.cast().put(u32::try_from(set.unwrap_or(1)).unwrap_or(1)),
            4 => value.cast().put(set.unwrap_or(0)),
            5..=8 => {
                let held = tables.allocations.values().filter(|known| known.kind == Kind::Pooled(pool)).map(|known| known.room);
                value.cast().put(held.sum::<u64>())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuMemPoolTrimTo(pool: u64, _keep: u64) {
        let call = enter()?;
        let tables = call.client.tables();
        known(&tables, pool).map(drop)
    }

    fn cuMemPoolSetAccess(pool: u64, _access: In<c_void>, _count: u64) {
        let call = enter()?;
        let tables = call.client.tables();
        known(&tables, pool).map(drop)
    }

    fn cuMemPoolGetAccess(flags: Out<u32>, pool: u64, location: In<[u32; 2]>) {
        let call = enter()?;
        let tables = call.client.tables();
        let owner = known(&tables, pool)?.device;
        let device = located(&tables, location)?;
        // Read and write, or nothing.
        flags.put(if device == owner { 3 } else { 0 })
    }
}

fn known(tables: &Tables, pool: u64) -> Result<&MemoryPool> {
    tables.pools.get(&pool).ok_or(Code::INVALID_VALUE)
}

fn located(tables: &Tables, location: In<[u32; 2]>) -> Result<usize> {
    let [kind, device] = location.need()?;
    if kind != DEVICE {
        return Err(Code::NOT_SUPPORTED);
    }
    Ok(tables.device(device.cast_signed())?.0)
}

fn default_pool(tables: &mut Tables, device: usize) -> u64 {
    let found = tables
        .pools
        .iter()
        .find(|(_, pool)| pool.default && pool.device == device)
        .map(|(handle, _)| *handle);
    found.unwrap_or_else(|| {
        let handle = tables.handle();
        tables.pools.insert(handle, MemoryPool { device, default: true, ..MemoryPool::default() });
        handle
    })
}

fn current_pool(tables: &mut Tables, device: usize) -> u64 {
    tables.current_pools.get(&device).copied().unwrap_or_else(|| default_pool(tables, device))
}

fn set_pool(device: i32, pool: u64) -> Result<()> {
    let call = enter()?;
    let mut tables = call.client.tables();
    let device = tables.device(device)?.0;
    if known(&tables, pool)?.device != device {
        return Err(Code::INVALID_VALUE);
    }
    tables.current_pools.insert(device, pool);
    Ok(())
}

fn alloc(address: Out<u64>, bytes: u64, pool: Option<u64>, stream: u64, own: bool) -> Result<()> {
    let call = enter()?;
    if address.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let stream = call.stream_info(call.stream(stream, own)?)?;
    let (context, pool) = context_for(&call, stream.context, pool)?;
    address.put(call.alloc(context, bytes, Kind::Pooled(pool))?)
}

/// The context to allocate in: the stream's, or one on the pool's device if that is another.
fn context_for(call: &Call, context: u64, pool: Option<u64>) -> Result<(u64, u64)> {
    let device = call.context_of(context)?.1.device;
    let mut tables = call.client.tables();
    let Some(pool) = pool else { return Ok((context, current_pool(&mut tables, device))) };
    let owner = known(&tables, pool)?.device;
    if owner == device {
        return Ok((context, pool));
    }
    let primary = tables.devices.get(owner).and_then(|device| device.primary);
    Ok((primary.ok_or(Code::INVALID_CONTEXT)?, pool))
}

fn free(address: u64, stream: u64, own: bool) -> Result<()> {
    let call = enter()?;
    let stream = call.stream(stream, own)?;
    call.free(address, Some(stream))
}
