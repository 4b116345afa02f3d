//! Exported functions: contexts, current and primary.
use std::ffi::c_void;

use super::{In, Out, export};
use crate::client::{context as stack, enter};
use crate::code::{Code, Result};
use crate::wire::Core;

/// What `cuCtxGetLimit` answers until something else is set, by number.
const LIMITS: &[(u32, u64)] =
    &[(0, 1024), (1, 1 << 20), (2, 8 << 20), (3, 2), (4, 2048), (5, 64), (6, 0), (7, 0), (8, 0)];
/// The version of the interface, for `cuCtxGetApiVersion`.
const API_VERSION: u32 = 3020;

export! {
    fn cuCtxCreate(context: Out<u64>, flags: u32, device: i32) {
        create(context, flags, device)
    }

    fn cuCtxCreate_v2(context: Out<u64>, flags: u32, device: i32) {
        create(context, flags, device)
    }

    fn cuCtxCreate_v3(context: Out<u64>, _affinity: In<c_void>, count: i32, flags: u32, device: i32) {
        if count != 0 {
            return Err(Code::UNSUPPORTED_EXEC_AFFINITY);
        }
        create(context, flags, device)
    }

    fn cuCtxCreate_v4(context: Out<u64>, params: In<[u64; 3]>, flags: u32, device: i32) {
        // Affinities, their count, and graphics interoperability: none of them is there.
        if params.get().is_some_and(|params| params != [0; 3]) {
            return Err(Code::NOT_SUPPORTED);
        }
        create(context, flags, device)
    }

    fn cuCtxDestroy(context: u64) {
        destroy(context)
    }

    fn cuCtxDestroy_v2(context: u64) {
        destroy(context)
    }

    fn cuCtxPushCurrent(context: u64) {
        push(context)
    }

    fn cuCtxPushCurrent_v2(context: u64) {
        push(context)
    }

    fn cuCtxPopCurrent(context: Out<u64>) {
        pop(context)
    }

    fn cuCtxPopCurrent_v2(context: Out<u64>) {
        pop(context)
    }

    fn cuCtxSetCurrent(context: u64) {
        let call = enter()?;
        if context != 0 {
            call.context_of(context)?;
        }
        stack::replace((context != 0).then_some(context));
        Ok(())
    }

    fn cuCtxGetCurrent(context: Out<u64>) {
        let _call = enter()?;
        context.put(stack::current().unwrap_or(0))
    }

    fn cuCtxGetDevice(device: Out<i32>) {
        get_device(device, 0)
    }

    fn cuCtxGetDevice_v2(device: Out<i32>, context: u64) {
        get_device(device, context)
    }

    fn cuCtxGetFlags(flags: Out<u32>) {
        flags.put(enter()?.context()?.1.flags)
    }

    fn cuCtxSetFlags(flags: u32) {
        let call = enter()?;
        let context = call.context()?.0;
        if let Some(known) = call.client.tables().contexts.get_mut(&context) {
            known.flags = flags;
        }
        Ok(())
    }

    fn cuCtxGetId(context: u64, id: Out<u64>) {
        id.put(enter()?.context_of(context)?.0)
    }

    fn cuCtxSynchronize() {
        synchronize(0)
    }

    fn cuCtxSynchronize_v2(context: u64) {
        synchronize(context)
    }

    fn cuCtxSetLimit(limit: u32, value: u64) {
        let call = enter()?;
        let context = call.context()?.0;
        if !LIMITS.iter().any(|row| row.0 == limit) {
            return Err(Code::UNSUPPORTED_LIMIT);
        }
        if let Some(known) = call.client.tables().contexts.get_mut(&context) {
            known.limits.insert(limit, value);
        }
        Ok(())
    }

    fn cuCtxGetLimit(value: Out<u64>, limit: u32) {
        let known = enter()?.context()?.1;
        let usual = LIMITS.iter().find(|row| row.0 == limit).ok_or(Code::UNSUPPORTED_LIMIT)?.1;
        value.put(known.limits.get(&limit).copied().unwrap_or(usual))
    }

    fn cuCtxGetCacheConfig(config: Out<u32>) {
        config.put(enter()?.context()?.1.cache)
    }

    fn cuCtxSetCacheConfig(config: u32) {
        let call = enter()?;
        let context = call.context()?.0;
        if let Some(known) = call.client.tables().contexts.get_mut(&context) {
            known.cache = config;
        }
        Ok(())
    }

    fn cuCtxGetSharedMemConfig(config: Out<u32>) {
        enter()?.context()?;
        // Banks of four bytes.
        config.put(1)
    }

    fn cuCtxSetSharedMemConfig(_config: u32) {
        enter()?.context().map(drop)
    }

    fn cuCtxGetApiVersion(context: u64, version: Out<u32>) {
        enter()?.context_of(context)?;
        version.put(API_VERSION)
    }

    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        enter()?.context()?;
        least.put_if(0);
        greatest.put_if(-5);
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() {
        enter()?.context().map(drop)
    }

    fn cuCtxEnablePeerAccess(peer: u64, flags: u32) {
        let call = enter()?;
        let (context, known) = call.context()?;
        let other = call.context_of(peer)?.1;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if known.peers.contains(&peer) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        let mut tables = call.client.tables();
        let chip = |device: usize| tables.devices.get(device).map(|device| device.gpu.chip.clone());
        if other.device == known.device || chip(other.device) != chip(known.device) {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        if let Some(known) = tables.contexts.get_mut(&context) {
            known.peers.push(peer);
        }
        Ok(())
    }

    fn cuCtxDisablePeerAccess(peer: u64) {
        let call = enter()?;
        let (context, known) = call.context()?;
        if !known.peers.contains(&peer) {
            return Err(Code::PEER_ACCESS_NOT_ENABLED);
        }
        if let Some(known) = call.client.tables().contexts.get_mut(&context) {
            known.peers.retain(|known| *known != peer);
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxRetain(context: Out<u64>, device: i32) {
        context.put(enter()?.retain_primary(device)?)
    }

    fn cuDevicePrimaryCtxRelease(device: i32) {
        enter()?.release_primary(device, false)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        enter()?.release_primary(device, false)
    }

    fn cuDevicePrimaryCtxReset(device: i32) {
        enter()?.release_primary(device, true)
    }

    fn cuDevicePrimaryCtxReset_v2(device: i32) {
        enter()?.release_primary(device, true)
    }

    fn cuDevicePrimaryCtxSetFlags(device: i32, flags: u32) {
        set_flags(device, flags)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) {
        set_flags(device, flags)
    }

    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) {
        let call = enter()?;
        let tables = call.client.tables();
        let device = tables.device(device)?.1;
        flags.put_if(device.flags);
        active.put_if(device.primary.is_some().into());
        Ok(())
    }
}

fn create(context: Out<u64>, flags: u32, device: i32) -> Result<()> {
    let call = enter()?;
    if context.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let made = call.create_context(device, flags, false)?;
    stack::push(made);
    context.put(made)
}

fn destroy(context: u64) -> Result<()> {
    let call = enter()?;
    if call.context_of(context)?.1.primary {
        return Err(Code::INVALID_CONTEXT);
    }
    call.destroy_context(context)
}

fn push(context: u64) -> Result<()> {
    let call = enter()?;
    if context == 0 {
        return Err(Code::INVALID_CONTEXT);
    }
    stack::push(call.context_of(context)?.0);
    Ok(())
}

fn pop(context: Out<u64>) -> Result<()> {
    let _call = enter()?;
    context.put_if(stack::pop()?);
    Ok(())
}

fn get_device(device: Out<i32>, context: u64) -> Result<()> {
    let known = enter()?.context_of(context)?.1;
    device.put(i32::try_from(known.device).map_err(|_| Code::INVALID_DEVICE)?)
}

fn synchronize(context: u64) -> Result<()> {
    let call = enter()?;
    let context = call.context_of(context)?.0;
    call.core(Core::ContextSync { context })
}

fn set_flags(device: i32, flags: u32) -> Result<()> {
    let call = enter()?;
    let mut tables = call.client.tables();
    let ordinal = tables.device(device)?.0;
    if let Some(device) = tables.devices.get_mut(ordinal) {
        device.flags = flags;
    }
    Ok(())
}
