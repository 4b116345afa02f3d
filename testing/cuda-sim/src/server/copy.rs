//! Copies and fills, by rows.
//!
//! Addresses are looked up when the call is made, as the driver checks its arguments, and the memory found is held until the
//! stream has done the work. Host memory is read and written in the process itself. Pageable memory is
//! the program's again as soon as the call returns, so it is read (or written) before the answer; pinned memory is left to the
//! stream.
use std::sync::{Arc, Mutex};

use super::{Physical, Piece, Process, Region, Task, Way, lock};
use crate::code::{Code, Result};
use crate::wire::{End, Span};

/// One end of a copy: rows start `pitch` apart.
struct Side {
    memory: Memory,
    pitch: u64,
}

enum Memory {
    Device(Vec<Piece>),
    Host(u64),
    Staged(Region),
}

/// How much is moved at a time between two places in the same process.
const CHUNK: u64 = 16 << 20;

pub(super) fn copy(
    process: &Arc<Process>,
    stream: u64,
    to: End,
    from: End,
    span: Span,
    wait: bool,
) -> Result<()> {
    process.stream(stream)?;
    if span.width == 0 || span.height == 0 {
        return Ok(());
    }
    let (to_pitch, from_pitch, span) = flat(to.pitch, from.pitch, span);
    let target = resolve(process, to, to_pitch, span)?;
    let mut source = resolve(process, from, from_pitch, span)?;
    let to_pageable = matches!(target.memory, Memory::Host(_)) && !to.pinned;
    let wait = wait || to_pageable;
    if matches!(source.memory, Memory::Host(_)) && !from.pinned && !wait {
        source = stage(process.pid, &source, span)?;
    }
    let pid = process.pid;
    run(
        process,
        stream,
        Box::new(move || {
            (0..span.height).try_for_each(|row| copy_row(pid, &target, &source, row, span.width))
        }),
        wait,
    )
}

pub(super) fn fill(
    process: &Arc<Process>,
    stream: u64,
    address: u64,
    pitch: u64,
    span: Span,
    pattern: &[u8],
    wait: bool,
) -> Result<()> {
    process.stream(stream)?;
    if span.width == 0 || span.height == 0 {
        return Ok(());
    }
    if pattern.is_empty() || !address.is_multiple_of(pattern.len() as u64) {
        return Err(Code::INVALID_VALUE);
    }
    let (pitch, _, span) = flat(pitch, pitch, span);
    let target = resolve(process, End { address, pitch, host: None, pinned: true }, pitch, span)?;
    let pattern = pattern.to_vec();
    let pid = process.pid;
    let task = move || (0..span.height).try_for_each(|row| fill_row(pid, &target, row, span.width, &pattern));
    run(process, stream, Box::new(task), wait)
}

/// Queues the work. A caller that waits gets the error itself; else the stream keeps it.
fn run(process: &Arc<Process>, stream: u64, task: Task, wait: bool) -> Result<()> {
    if !wait {
        return process.enqueue(stream, task).map(drop);
    }
    let result = Arc::new(Mutex::new(Err(Code::UNKNOWN)));
    let told = result.clone();
    let ticket = process.enqueue(
        stream,
        Box::new(move || {
            *lock(&told) = task();
            Ok(())
        }),
    )?;
    let _done = ticket.wait(None);
    *lock(&result)
}

/// Rows without gaps on both sides are one row.
fn flat(to: u64, from: u64, span: Span) -> (u64, u64, Span) {
    if span.height > 1 && to == span.width && from == span.width {
        let whole = span.width.saturating_mul(span.height);
        return (whole, whole, Span { width: whole, height: 1 });
    }
    (to, from, span)
}

fn resolve(process: &Arc<Process>, end: End, pitch: u64, span: Span) -> Result<Side> {
    let space = process.space();
    let rows =
        if span.height > 1 && pitch < span.width { Err(Code::INVALID_VALUE) } else { Ok(span.height - 1) }?;
    let extent =
        rows.checked_mul(pitch).and_then(|most| most.checked_add(span.width)).ok_or(Code::INVALID_VALUE)?;
    let host = end.host.unwrap_or_else(|| !space.is_device(end.address));
    let memory = if host {
        end.address.checked_add(extent).ok_or(Code::INVALID_VALUE)?;
        Memory::Host(end.address)
    } else {
        // Host memory that the device sees has the same address on both sides.
        match space.pieces(end.address, extent) {
            Ok(pieces) => Memory::Device(pieces),
            Err(_) if space.is_host(end.address, extent) => Memory::Host(end.address),
            Err(code) => return Err(code),
        }
    };
    Ok(Side { memory, pitch })
}

/// Reads pageable memory now, for later; the rows lie side by side then.
fn stage(pid: i32, source: &Side, span: Span) -> Result<Side> {
    let bytes = span.width.checked_mul(span.height).ok_or(Code::INVALID_VALUE)?;
    let staged = Side { memory: Memory::Staged(Region::new(bytes)?), pitch: span.width };
    for row in 0..span.height {
        copy_row(pid, &staged, source, row, span.width)?;
    }
    Ok(staged)
}

/// Calls `each` for the parts of a range of device memory: memory, offset in it, bytes, offset in the range.
fn parts(
    pieces: &[Piece],
    from: u64,
    bytes: u64,
    mut each: impl FnMut(&Physical, u64, u64, u64) -> Result<()>,
) -> Result<()> {
    let mut start = 0;
    for (physical, offset, length) in pieces {
        let first = from.max(start);
        let last = (from + bytes).min(start + length);
        if first < last {
            physical.gpu.alive()?;
            each(physical, offset + first - start, last - first, first - from)?;
        }
        start += length;
    }
    Ok(())
}

fn copy_row(pid: i32, to: &Side, from: &Side, row: u64, width: u64) -> Result<()> {
    let (to_at, from_at) = (row * to.pitch, row * from.pitch);
    let host = |result: Result<()>| result.map_err(|_| Code::INVALID_VALUE);
    match (&to.memory, &from.memory) {
        (Memory::Device(to), Memory::Device(from)) => {
            parts(from, from_at, width, |source, source_at, bytes, inner| {
                parts(to, to_at + inner, bytes, |target, at, bytes, deep| {
                    target.memory.copy_from(at, &source.memory, source_at + deep, bytes)
                })
            })
        }
        (Memory::Device(to), Memory::Host(from)) => parts(to, to_at, width, |target, at, bytes, inner| {
            target.gpu.link.pass(Way::In, bytes, || {
                host(target.memory.fill_from_process(at, pid, from + from_at + inner, bytes))
            })
        }),
        (Memory::Device(to), Memory::Staged(from)) => parts(to, to_at, width, |target, at, bytes, inner| {
            target.gpu.link.pass(Way::In, bytes, || target.memory.copy_from(at, from, from_at + inner, bytes))
        }),
        (Memory::Host(to), Memory::Device(from)) => {
            parts(from, from_at, width, |source, at, bytes, inner| {
                source.gpu.link.pass(Way::Out, bytes, || {
                    host(source.memory.copy_to_process(at, pid, to + to_at + inner, bytes))
                })
            })
        }
        (Memory::Host(to), Memory::Staged(from)) => {
            host(from.copy_to_process(from_at, pid, to + to_at, width))
        }
        (Memory::Staged(to), Memory::Host(from)) => {
            host(to.fill_from_process(to_at, pid, from + from_at, width))
        }
        (Memory::Host(to), Memory::Host(from)) => {
            let buffer = Region::new(CHUNK.min(width))?;
            let mut done = 0;
            while done < width {
                let step = CHUNK.min(width - done);
                host(buffer.fill_from_process(0, pid, from + from_at + done, step))?;
                host(buffer.copy_to_process(0, pid, to + to_at + done, step))?;
                done += step;
            }
            Ok(())
        }
        (Memory::Staged(_), _) => Err(Code::UNKNOWN),
    }
}

fn fill_row(pid: i32, to: &Side, row: u64, width: u64, pattern: &[u8]) -> Result<()> {
    let start = row * to.pitch;
    match &to.memory {
        Memory::Device(to) => {
            parts(to, start, width, |target, at, bytes, _| target.memory.fill(at, bytes, pattern))
        }
        Memory::Host(to) => {
            let buffer = Region::new(CHUNK.min(width))?;
            buffer.fill(0, buffer.len(), pattern)?;
            let mut done = 0;
            while done < width {
                let step = CHUNK.min(width - done);
                buffer.copy_to_process(0, pid, to + start + done, step).map_err(|_| Code::INVALID_VALUE)?;
                done += step;
            }
            Ok(())
        }
        Memory::Staged(_) => Err(Code::UNKNOWN),
    }
}
