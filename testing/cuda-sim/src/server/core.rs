//! The server's side of the requests of `wire::Core`.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::process::{Context, Event};
use super::{Mapping, Physical, Process, Server, Stream, body, copy, host_func, lock};
use crate::code::{Code, Result};
use crate::wire::Core;

/// `CU_EVENT_DISABLE_TIMING` of `cuEventCreate`: such an event knows no time.
const DISABLE_TIMING: u32 = 2;

pub(super) fn handle(server: &Arc<Server>, process: &Arc<Process>, request: Core) -> Result<Value> {
    match request {
        Core::Hello => return body(server.host()),
        Core::Info { gpu } => {
            let gpu = server.gpu(gpu)?;
            gpu.alive()?;
            return body(gpu.memory());
        }
        Core::ContextCreate { context, gpu } => context_create(server, process, context, gpu)?,
        Core::ContextDestroy { context } => context_destroy(process, context),
        Core::Alloc { context, address, bytes } => alloc(process, context, address, bytes)?,
        Core::Free { address } => free(process, address)?,
        Core::FreeAsync { address, stream } => free_async(process, address, stream)?,
        Core::Gone { mut addresses } => {
            let space = process.space();
            addresses.retain(|address| space.get(*address).is_none());
            return body(addresses);
        }
        Core::PhysicalCreate { handle, gpu, bytes } => {
            let physical = Physical::new(server.gpu(gpu)?, bytes)?;
            lock(&process.tables).handles.insert(handle, physical);
        }
        Core::PhysicalRelease { handle } => {
            lock(&process.tables).handles.remove(&handle).ok_or(Code::INVALID_VALUE)?;
        }
        Core::Map { address, bytes, handle, offset } => map(process, address, bytes, handle, offset)?,
        Core::Unmap { address, bytes } => unmap(process, address, bytes)?,
        Core::HostRange { address, bytes } => process.space_mut().host_range(address, bytes),
        Core::HostRangeEnd { address } => {
            let _done = process.drain(None, None);
            process.space_mut().host_range_end(address);
        }
        Core::StreamCreate { stream, context, flags, priority } => {
            process.context(context)?;
            lock(&process.tables).streams.insert(stream, Stream::new(stream, context, flags, priority));
        }
        Core::StreamDestroy { stream } => {
            lock(&process.tables).streams.remove(&stream).ok_or(Code::INVALID_HANDLE)?;
        }
        Core::StreamQuery { stream } => {
            let stream = process.stream(stream)?;
            stream.error().map_or(Ok(()), Err)?;
            return if stream.idle() { Ok(Value::Null) } else { Err(Code::NOT_READY) };
        }
        Core::StreamSync { stream } => {
            let stream = process.stream(stream)?;
            let _done = stream.newest().wait(None);
            stream.error().map_or(Ok(()), Err)?;
            process.context(stream.context)?;
        }
        Core::ContextSync { context } => {
            process.context(context)?;
            let _done = process.drain(Some(context), None);
            let errors = process.streams(Some(context)).into_iter().find_map(|stream| stream.error());
            errors.map_or(Ok(()), Err)?;
            process.context(context)?;
        }
        Core::Drain { timeout_ms } => {
            let limit = (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms.into()));
            return if process.drain(None, limit) { Ok(Value::Null) } else { Err(Code::NOT_READY) };
        }
        Core::Copy { stream, to, from, span, wait } => copy::copy(process, stream, to, from, span, wait)?,
        Core::Fill { stream, address, pitch, span, pattern, size, wait } => {
            let pattern = pattern.to_le_bytes();
            let pattern = pattern.get(..size.into()).ok_or(Code::INVALID_VALUE)?;
            copy::fill(process, stream, address, pitch, span, pattern, wait)?;
        }
        Core::HostFunc { stream, token } => host_func::queue(process, stream, token)?,
        Core::HostFuncAwait { token } => host_func::await_turn(process, token)?,
        Core::HostFuncDone { token } => host_func::done(process, token),
        Core::IpcExport { address } => return body(ipc_export(server, process, address)?),
        Core::IpcSize { key } => {
            let physical = lock(&server.shared).get(&key).and_then(std::sync::Weak::upgrade);
            return body(physical.ok_or(Code::INVALID_HANDLE)?.memory.len());
        }
        Core::IpcOpen { context, key, address } => ipc_open(server, process, context, key, address)?,
        Core::PartOpen { context, key, address } => {
            super::storage::show(server, process, context, key, address)?;
        }
        Core::PartClose { address, bytes } => super::storage::hide(process, address, bytes),
        request => return event(process, request),
    }
    Ok(Value::Null)
}

fn event(process: &Arc<Process>, request: Core) -> Result<Value> {
    let get = |event| lock(&process.tables).events.get(&event).cloned().ok_or(Code::INVALID_HANDLE);
    match request {
        Core::EventCreate { event, flags } => {
            lock(&process.tables).events.insert(event, Event { flags, ..Event::default() });
        }
        Core::EventRecord { event, stream } => {
            let flags = get(event)?.flags;
            let at = Arc::new(std::sync::Mutex::new(None));
            let clock = at.clone();
            let mark = process.enqueue(
                stream,
                Box::new(move || {
                    *lock(&clock) = Some(Instant::now());
                    Ok(())
                }),
            )?;
            lock(&process.tables).events.insert(event, Event { flags, mark: Some(mark), at });
        }
        Core::EventQuery { event } => {
            let mark = get(event)?.mark;
            return if mark.is_none_or(|mark| mark.done()) { Ok(Value::Null) } else { Err(Code::NOT_READY) };
        }
        Core::EventSync { event } => {
            let _done = get(event)?.mark.is_none_or(|mark| mark.wait(None));
        }
        Core::EventElapsed { start, end } => {
            let (start, end) = (get(start)?, get(end)?);
            let timed = |event: &Event| event.flags & DISABLE_TIMING == 0 && event.mark.is_some();
            if !timed(&start) || !timed(&end) {
                return Err(Code::INVALID_HANDLE);
            }
            let (Some(start), Some(end)) = (*lock(&start.at), *lock(&end.at)) else {
                return Err(Code::NOT_READY);
            };
            let span =
                |later: Instant, earlier| later.saturating_duration_since(earlier).as_secs_f64() * 1000.0;
            return body(span(end, start) - span(start, end));
        }
        Core::EventDestroy { event } => {
            lock(&process.tables).events.remove(&event).ok_or(Code::INVALID_HANDLE)?;
        }
        Core::StreamWait { stream, event } => {
            if let Some(mark) = get(event)?.mark {
                process.enqueue_after(stream, vec![mark], Box::new(|| Ok(())))?;
            }
        }
        _ => return Err(Code::NOT_SUPPORTED),
    }
    Ok(Value::Null)
}

fn context_create(server: &Arc<Server>, process: &Arc<Process>, context: u64, gpu: u32) -> Result<()> {
    let gpu = server.gpu(gpu)?.clone();
    if gpu.is_lost() {
        return Err(Code::DEVICE_UNAVAILABLE);
    }
    let mut tables = lock(&process.tables);
    tables.contexts.insert(context, Context { gpu, error: None });
    // The legacy default stream.
    tables.streams.insert(context, Stream::new(context, context, 0, 0));
    Ok(())
}

fn context_destroy(process: &Arc<Process>, context: u64) {
    let _done = process.drain(Some(context), None);
    let mut tables = lock(&process.tables);
    tables.contexts.remove(&context);
    tables.streams.retain(|_, stream| stream.context != context);
    tables.modules.retain(|_, module| module.context != context);
    drop(tables);
    process.space_mut().retain(|_, mapping| mapping.context != Some(context));
}

fn alloc(process: &Arc<Process>, context: u64, address: u64, bytes: u64) -> Result<()> {
    let gpu = process.context(context)?.gpu;
    let physical = Physical::new(&gpu, bytes)?;
    insert(
        process,
        address,
        Mapping { bytes, physical, offset: 0, context: Some(context), foreign: false, leaving: false },
    )
}

fn insert(process: &Arc<Process>, address: u64, mapping: Mapping) -> Result<()> {
    process.space_mut().insert(address, mapping)
}

fn free(process: &Arc<Process>, address: u64) -> Result<()> {
    let mapping = process.space().get(address).cloned().ok_or(Code::INVALID_VALUE)?;
    let context = mapping.context.ok_or(Code::INVALID_VALUE)?;
    process.context(context)?;
    if mapping.leaving {
        return Err(Code::INVALID_VALUE);
    }
    drop(mapping);
    let _done = process.drain(Some(context), None);
    process.space_mut().remove(address).map(drop).ok_or(Code::INVALID_VALUE)
}

fn free_async(process: &Arc<Process>, address: u64, stream: u64) -> Result<()> {
    process.stream(stream)?;
    {
        let mut space = process.space_mut();
        let mapping = space.get_mut(address).filter(|mapping| mapping.context.is_some() && !mapping.leaving);
        mapping.ok_or(Code::INVALID_VALUE)?.leaving = true;
    }
    let owner = process.clone();
    process.enqueue(
        stream,
        Box::new(move || {
            owner.space_mut().remove(address);
            Ok(())
        }),
    )?;
    Ok(())
}

fn map(process: &Arc<Process>, address: u64, bytes: u64, handle: u64, offset: u64) -> Result<()> {
    let physical = lock(&process.tables).handles.get(&handle).cloned().ok_or(Code::INVALID_VALUE)?;
    if offset.checked_add(bytes).is_none_or(|end| end > physical.memory.len()) {
        return Err(Code::INVALID_VALUE);
    }
    insert(
        process,
        address,
        Mapping { bytes, physical, offset, context: None, foreign: false, leaving: false },
    )
}

fn unmap(process: &Arc<Process>, address: u64, bytes: u64) -> Result<()> {
    let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
    let _done = process.drain(None, None);
    let mut space = process.space_mut();
    let inside = |start: u64, mapping: &Mapping| {
        start >= address && start + mapping.bytes <= end && mapping.context.is_none()
    };
    if !space.iter().any(|(start, mapping)| inside(start, mapping)) {
        return Err(Code::INVALID_VALUE);
    }
    space.retain(|start, mapping| !inside(start, mapping));
    Ok(())
}

fn ipc_export(server: &Arc<Server>, process: &Arc<Process>, address: u64) -> Result<u64> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let space = process.space();
    let mapping = space.get(address).filter(|mapping| mapping.context.is_some() && !mapping.foreign);
    let weak = Arc::downgrade(&mapping.ok_or(Code::INVALID_VALUE)?.physical);
    let mut shared = lock(&server.shared);
    shared.retain(|_, physical| physical.strong_count() > 0);
    if let Some((key, _)) = shared.iter().find(|(_, known)| known.ptr_eq(&weak)) {
        return Ok(*key);
    }
    let key = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    shared.insert(key, weak);
    Ok(key)
}

fn ipc_open(
    server: &Arc<Server>,
    process: &Arc<Process>,
    context: u64,
    key: u64,
    address: u64,
) -> Result<()> {
    process.context(context)?;
    let physical =
        lock(&server.shared).get(&key).and_then(std::sync::Weak::upgrade).ok_or(Code::INVALID_HANDLE)?;
    let bytes = physical.memory.len();
    insert(
        process,
        address,
        Mapping { bytes, physical, offset: 0, context: Some(context), foreign: true, leaving: false },
    )
}
