//! Exported functions: copies. The `_ptds` and `_ptsz` forms take the thread's own default stream for NULL.
use super::{In, export};
use crate::client::{Call, enter};
use crate::code::{Code, Result};
use crate::wire::Span;

/// What a call says about an address: the host's, the device's, or that it is to be found out.
type Side = (u64, Option<bool>);

const HOST: Option<bool> = Some(true);
const DEVICE: Option<bool> = Some(false);

/// `CUDA_MEMCPY2D_v2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy2D {
    from: Plane,
    to: Plane,
    width: u64,
    height: u64,
}

/// One end of it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Plane {
    x: u64,
    y: u64,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    pitch: u64,
}

/// `CUDA_MEMCPY3D_v2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy3D {
    from: Block,
    to: Block,
    width: u64,
    height: u64,
    depth: u64,
}

/// One end of it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Block {
    x: u64,
    y: u64,
    z: u64,
    level: u64,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: u64,
    height: u64,
}

const _: () = assert!(size_of::<Copy2D>() == 128 && size_of::<Copy3D>() == 200);

export! {
    fn cuMemcpy(to: u64, from: u64, bytes: u64) {
        now((to, None), (from, None), bytes, false)
    }

    fn cuMemcpy_ptds(to: u64, from: u64, bytes: u64) {
        now((to, None), (from, None), bytes, true)
    }

    fn cuMemcpyAsync(to: u64, from: u64, bytes: u64, stream: u64) {
        later((to, None), (from, None), bytes, stream, false)
    }

    fn cuMemcpyAsync_ptsz(to: u64, from: u64, bytes: u64, stream: u64) {
        later((to, None), (from, None), bytes, stream, true)
    }

    fn cuMemcpyHtoD_v2(to: u64, from: u64, bytes: u64) {
        now((to, DEVICE), (from, HOST), bytes, false)
    }

    fn cuMemcpyHtoD_v2_ptds(to: u64, from: u64, bytes: u64) {
        now((to, DEVICE), (from, HOST), bytes, true)
    }

    fn cuMemcpyDtoH_v2(to: u64, from: u64, bytes: u64) {
        now((to, HOST), (from, DEVICE), bytes, false)
    }

    fn cuMemcpyDtoH_v2_ptds(to: u64, from: u64, bytes: u64) {
        now((to, HOST), (from, DEVICE), bytes, true)
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: u64) {
        now((to, DEVICE), (from, DEVICE), bytes, false)
    }

    fn cuMemcpyDtoD_v2_ptds(to: u64, from: u64, bytes: u64) {
        now((to, DEVICE), (from, DEVICE), bytes, true)
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: u64, stream: u64) {
        later((to, DEVICE), (from, HOST), bytes, stream, false)
    }

    fn cuMemcpyHtoDAsync_v2_ptsz(to: u64, from: u64, bytes: u64, stream: u64) {
        later((to, DEVICE), (from, HOST), bytes, stream, true)
    }

    fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: u64, stream: u64) {
        later((to, HOST), (from, DEVICE), bytes, stream, false)
    }

    fn cuMemcpyDtoHAsync_v2_ptsz(to: u64, from: u64, bytes: u64, stream: u64) {
        later((to, HOST), (from, DEVICE), bytes, stream, true)
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: u64, stream: u64) {
        later((to, DEVICE), (from, DEVICE), bytes, stream, false)
    }

    fn cuMemcpyDtoDAsync_v2_ptsz(to: u64, from: u64, bytes: u64, stream: u64) {
        later((to, DEVICE), (from, DEVICE), bytes, stream, true)
    }

    fn cuMemcpyPeer(to: u64, to_context: u64, from: u64, from_context: u64, bytes: u64) {
        peers(to_context, from_context)?;
        now((to, DEVICE), (from, DEVICE), bytes, false)
    }

    fn cuMemcpyPeer_ptds(to: u64, to_context: u64, from: u64, from_context: u64, bytes: u64) {
        peers(to_context, from_context)?;
        now((to, DEVICE), (from, DEVICE), bytes, true)
    }

    fn cuMemcpyPeerAsync(to: u64, to_context: u64, from: u64, from_context: u64, bytes: u64, stream: u64) {
        peers(to_context, from_context)?;
        later((to, DEVICE), (from, DEVICE), bytes, stream, false)
    }

    fn cuMemcpyPeerAsync_ptsz(to: u64, to_context: u64, from: u64, from_context: u64, bytes: u64, stream: u64) {
        peers(to_context, from_context)?;
        later((to, DEVICE), (from, DEVICE), bytes, stream, true)
    }

    fn cuMemcpy2D_v2(what: In<Copy2D>) {
        plane(what, None, false)
    }

    fn cuMemcpy2D_v2_ptds(what: In<Copy2D>) {
        plane(what, None, true)
    }

    fn cuMemcpy2DUnaligned_v2(what: In<Copy2D>) {
        plane(what, None, false)
    }

    fn cuMemcpy2DUnaligned_v2_ptds(what: In<Copy2D>) {
        plane(what, None, true)
    }

    fn cuMemcpy2DAsync_v2(what: In<Copy2D>, stream: u64) {
        plane(what, Some(stream), false)
    }

    fn cuMemcpy2DAsync_v2_ptsz(what: In<Copy2D>, stream: u64) {
        plane(what, Some(stream), true)
    }

    fn cuMemcpy3D_v2(what: In<Copy3D>) {
        block(what, None, false)
    }

    fn cuMemcpy3D_v2_ptds(what: In<Copy3D>) {
        block(what, None, true)
    }

    fn cuMemcpy3DAsync_v2(what: In<Copy3D>, stream: u64) {
        block(what, Some(stream), false)
    }

    fn cuMemcpy3DAsync_v2_ptsz(what: In<Copy3D>, stream: u64) {
        block(what, Some(stream), true)
    }
}

/// Both contexts must be there.
fn peers(to: u64, from: u64) -> Result<()> {
    let call = enter()?;
    call.context_of(to)?;
    call.context_of(from).map(drop)
}

fn now(to: Side, from: Side, bytes: u64, own: bool) -> Result<()> {
    let call = enter()?;
    let stream = call.stream(0, own)?;
    call.copy_bytes(stream, to, from, bytes, true)
}

fn later(to: Side, from: Side, bytes: u64, stream: u64, own: bool) -> Result<()> {
    let call = enter()?;
    let stream = call.stream(stream, own)?;
    call.copy_bytes(stream, to, from, bytes, false)
}

/// Host, device or found out; arrays are not there.
fn side(kind: u32, host: u64, device: u64) -> Result<Side> {
    match kind {
        1 => Ok((host, HOST)),
        2 => Ok((device, DEVICE)),
        4 => Ok((device, None)),
        3 => Err(Code::NOT_SUPPORTED),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn plane(what: In<Copy2D>, stream: Option<u64>, own: bool) -> Result<()> {
    let call = enter()?;
    let what = what.need()?;
    let number = call.stream(stream.unwrap_or(0), own)?;
    let span = Span { width: what.width, height: what.height };
    let flat = |plane: Plane| -> Result<(Side, u64)> {
        let (base, host) = side(plane.kind, plane.host, plane.device)?;
        let pitch = if plane.pitch == 0 { what.width + plane.x } else { plane.pitch };
        Ok(((start(base, plane.x, plane.y, pitch)?, host), pitch))
    };
    rows(&call, number, flat(what.to)?, flat(what.from)?, span, stream.is_none())
}

fn block(what: In<Copy3D>, stream: Option<u64>, own: bool) -> Result<()> {
    let call = enter()?;
    let what = what.need()?;
    let number = call.stream(stream.unwrap_or(0), own)?;
    let span = Span { width: what.width, height: what.height };
    for layer in 0..what.depth {
        let flat = |block: Block| -> Result<(Side, u64)> {
            let (base, host) = side(block.kind, block.host, block.device)?;
            let pitch = if block.pitch == 0 { what.width + block.x } else { block.pitch };
            let height = if block.height == 0 { what.height + block.y } else { block.height };
            let row = (block.z + layer).checked_mul(height).and_then(|rows| rows.checked_add(block.y));
            Ok(((start(base, block.x, row.ok_or(Code::INVALID_VALUE)?, pitch)?, host), pitch))
        };
        rows(&call, number, flat(what.to)?, flat(what.from)?, span, stream.is_none())?;
    }
    Ok(())
}

fn start(base: u64, x: u64, y: u64, pitch: u64) -> Result<u64> {
    let offset = y.checked_mul(pitch).and_then(|offset| offset.checked_add(x));
    offset.and_then(|offset| base.checked_add(offset)).ok_or(Code::INVALID_VALUE)
}

fn rows(call: &Call, stream: u64, to: (Side, u64), from: (Side, u64), span: Span, wait: bool) -> Result<()> {
    let ((to, to_host), to_pitch) = to;
    let ((from, from_host), from_pitch) = from;
    call.copy(stream, call.end(to, to_pitch, to_host), call.end(from, from_pitch, from_host), span, wait)
}
