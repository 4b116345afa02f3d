//! Exported functions: streams and host functions. No stream ever captures a graph.
use std::ffi::c_void;

use super::{Out, export};
use crate::client::enter;
use crate::code::{Code, Result};
use crate::wire::Core;

/// What `cuLaunchHostFunc` calls.
type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;
/// What `cuStreamAddCallback` calls: the stream, its state, and the program's own word.
type Callback = Option<unsafe extern "C" fn(u64, i32, *mut c_void)>;

export! {
    fn cuStreamCreate(stream: Out<u64>, flags: u32) {
        create(stream, flags, 0)
    }

    fn cuStreamCreateWithPriority(stream: Out<u64>, flags: u32, priority: i32) {
        create(stream, flags, priority.clamp(-5, 0))
    }

    fn cuStreamDestroy(stream: u64) {
        enter()?.destroy_stream(stream)
    }

    fn cuStreamDestroy_v2(stream: u64) {
        enter()?.destroy_stream(stream)
    }

    fn cuStreamQuery(stream: u64) {
        query(stream, false)
    }

    fn cuStreamQuery_ptsz(stream: u64) {
        query(stream, true)
    }

    fn cuStreamSynchronize(stream: u64) {
        synchronize(stream, false)
    }

    fn cuStreamSynchronize_ptsz(stream: u64) {
        synchronize(stream, true)
    }

    fn cuStreamWaitEvent(stream: u64, event: u64, _flags: u32) {
        wait(stream, event, false)
    }

    fn cuStreamWaitEvent_ptsz(stream: u64, event: u64, _flags: u32) {
        wait(stream, event, true)
    }

    fn cuStreamGetCtx(stream: u64, context: Out<u64>) {
        context.put(info(stream, false)?.context)
    }

    fn cuStreamGetCtx_ptsz(stream: u64, context: Out<u64>) {
        context.put(info(stream, true)?.context)
    }

    fn cuStreamGetCtx_v2(stream: u64, context: Out<u64>, green: Out<u64>) {
        green.put_if(0);
        context.put(info(stream, false)?.context)
    }

    fn cuStreamGetCtx_v2_ptsz(stream: u64, context: Out<u64>, green: Out<u64>) {
        green.put_if(0);
        context.put(info(stream, true)?.context)
    }

    fn cuStreamGetDevice(stream: u64, device: Out<i32>) {
        get_device(stream, device, false)
    }

    fn cuStreamGetDevice_ptsz(stream: u64, device: Out<i32>) {
        get_device(stream, device, true)
    }

    fn cuStreamGetFlags(stream: u64, flags: Out<u32>) {
        flags.put(info(stream, false)?.flags)
    }

    fn cuStreamGetFlags_ptsz(stream: u64, flags: Out<u32>) {
        flags.put(info(stream, true)?.flags)
    }

    fn cuStreamGetPriority(stream: u64, priority: Out<i32>) {
        priority.put(info(stream, false)?.priority)
    }

    fn cuStreamGetPriority_ptsz(stream: u64, priority: Out<i32>) {
        priority.put(info(stream, true)?.priority)
    }

    fn cuStreamGetId(stream: u64, id: Out<u64>) {
        id.put(enter()?.stream(stream, false)?)
    }

    fn cuStreamGetId_ptsz(stream: u64, id: Out<u64>) {
        id.put(enter()?.stream(stream, true)?)
    }

    fn cuStreamAddCallback(stream: u64, function: Callback, word: *mut c_void, _flags: u32) {
        add_callback(stream, function, word, false)
    }

    fn cuStreamAddCallback_ptsz(stream: u64, function: Callback, word: *mut c_void, _flags: u32) {
        add_callback(stream, function, word, true)
    }

    fn cuLaunchHostFunc(stream: u64, function: HostFunction, word: *mut c_void) {
        host_function(stream, function, word, false)
    }

    fn cuLaunchHostFunc_ptsz(stream: u64, function: HostFunction, word: *mut c_void) {
        host_function(stream, function, word, true)
    }

    fn cuLaunchHostFunc_v2(stream: u64, function: HostFunction, word: *mut c_void, _mode: u32) {
        host_function(stream, function, word, false)
    }

    fn cuLaunchHostFunc_v2_ptsz(stream: u64, function: HostFunction, word: *mut c_void, _mode: u32) {
        host_function(stream, function, word, true)
    }

    fn cuStreamIsCapturing(stream: u64, status: Out<u32>) {
        enter()?.stream(stream, false)?;
        status.put(0)
    }

    fn cuStreamIsCapturing_ptsz(stream: u64, status: Out<u32>) {
        enter()?.stream(stream, true)?;
        status.put(0)
    }

    fn cuStreamGetCaptureInfo(stream: u64, status: Out<u32>, id: Out<u64>) {
        enter()?.stream(stream, false)?;
        id.put_if(0);
        status.put(0)
    }

    fn cuStreamGetCaptureInfo_v2(stream: u64, status: Out<u32>, id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, count: Out<u64>) {
        enter()?.stream(stream, false)?;
        no_capture(id, graph, nodes, count);
        status.put(0)
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: u64, status: Out<u32>, id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, edges: Out<u64>, count: Out<u64>,
    ) {
        enter()?.stream(stream, false)?;
        edges.put_if(0);
        no_capture(id, graph, nodes, count);
        status.put(0)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: Out<u32>) {
        // What it was: global.
        mode.put(0)
    }
}

fn create(stream: Out<u64>, flags: u32, priority: i32) -> Result<()> {
    let call = enter()?;
    if stream.is_null() || flags > 1 {
        return Err(Code::INVALID_VALUE);
    }
    stream.put(call.create_stream(flags, priority)?)
}

fn query(stream: u64, own: bool) -> Result<()> {
    let call = enter()?;
    let stream = call.stream(stream, own)?;
    call.core(Core::StreamQuery { stream })
}

fn synchronize(stream: u64, own: bool) -> Result<()> {
    let call = enter()?;
    let stream = call.stream(stream, own)?;
    call.core(Core::StreamSync { stream })
}

fn wait(stream: u64, event: u64, own: bool) -> Result<()> {
    let call = enter()?;
    let stream = call.stream(stream, own)?;
    call.core(Core::StreamWait { stream, event })
}

fn info(stream: u64, own: bool) -> Result<crate::client::tables::Stream> {
    let call = enter()?;
    call.stream_info(call.stream(stream, own)?)
}

fn get_device(stream: u64, device: Out<i32>, own: bool) -> Result<()> {
    let call = enter()?;
    let stream = call.stream_info(call.stream(stream, own)?)?;
    let known = call.context_of(stream.context)?.1;
    device.put(i32::try_from(known.device).map_err(|_| Code::INVALID_DEVICE)?)
}

fn no_capture(id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, count: Out<u64>) {
    for out in [id, graph, nodes, count] {
        out.put_if(0);
    }
}

fn host_function(stream: u64, function: HostFunction, word: *mut c_void, own: bool) -> Result<()> {
    let call = enter()?;
    let function = function.ok_or(Code::INVALID_VALUE)?;
    let number = call.stream(stream, own)?;
    let word = word.expose_provenance();
    call.host_function(number, move || {
        // SAFETY: the caller says that the function may be called with this word, from another thread, once.
        unsafe { function(std::ptr::with_exposed_provenance_mut(word)) };
    })
}

fn add_callback(stream: u64, function: Callback, word: *mut c_void, own: bool) -> Result<()> {
    let call = enter()?;
    let function = function.ok_or(Code::INVALID_VALUE)?;
    let number = call.stream(stream, own)?;
    let word = word.expose_provenance();
    call.host_function(number, move || {
        // SAFETY: the caller says that the function may be called with this word, from another thread, once.
        unsafe { function(stream, 0, std::ptr::with_exposed_provenance_mut(word)) };
    })
}
