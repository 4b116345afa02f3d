//! Custom storage (13.4): the memory of a process as its caller sees it, one contiguous part a GPU.
//!
//! As with a real driver a part is no copy: its addresses in the caller show the pieces of the process, one after the other, each at a
//! multiple of what allocations are aligned to. What the caller reads there is the process's memory, and what it writes there becomes that.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Mapping, Physical, Process, Server, lock};
use crate::checkpoint::message::{Parked, Part};
use crate::checkpoint::placement::hex;
use crate::code::{Code, Result};

/// Pieces begin at multiples of this, as allocations do.
const ALIGN: u64 = 512;
/// Above the numbers of memory that processes share among each other.
static LAST: AtomicU64 = AtomicU64::new(1 << 32);

/// An operation that is not complete.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The process whose memory it is.
    pid: i32,
    parts: Vec<Shown>,
}

/// A part: all pieces of a process on one GPU.
#[derive(Debug)]
struct Shown {
    key: u64,
    pieces: Vec<Arc<Physical>>,
}

fn room(piece: &Physical) -> u64 {
    piece.memory.len().next_multiple_of(ALIGN)
}

/// Lays out the pieces of a process, GPU by GPU, for a caller to open.
pub(super) fn park(server: &Server, process: &Process, pieces: &[Arc<Physical>]) -> Result<Parked> {
    let mut by_gpu: BTreeMap<u32, Vec<Arc<Physical>>> = BTreeMap::new();
    for piece in pieces {
        by_gpu.entry(piece.gpu.info.index).or_default().push(piece.clone());
    }
    let mut parts = Vec::new();
    let mut described = Vec::new();
    for (index, pieces) in by_gpu {
        let key = LAST.fetch_add(1, Ordering::Relaxed);
        let bytes = pieces.iter().map(|piece| room(piece)).sum();
        described.push(Part { gpu: hex(&server.gpu(index)?.info.uuid), key, bytes });
        parts.push(Shown { key, pieces });
    }
    let token = LAST.fetch_add(1, Ordering::Relaxed);
    lock(&server.parked).insert(token, Operation { pid: process.pid, parts });
    Ok(Parked { token, parts: described })
}

/// Shows a part to a caller from an address on.
pub(super) fn show(server: &Server, caller: &Process, context: u64, key: u64, address: u64) -> Result<()> {
    caller.context(context)?;
    let parked = lock(&server.parked);
    let part = parked.values().flat_map(|operation| &operation.parts).find(|part| part.key == key);
    let pieces = part.map(|part| part.pieces.clone()).ok_or(Code::INVALID_HANDLE)?;
    drop(parked);
    let foreign = |physical: Arc<Physical>, bytes: u64| Mapping {
        bytes,
        physical,
        offset: 0,
        context: Some(context),
        foreign: true,
        leaving: false,
    };
    let mut at = address;
    let mut space = caller.space_mut();
    for piece in pieces {
        let (bytes, room) = (piece.memory.len(), room(&piece));
        let gpu = piece.gpu.clone();
        space.insert(at, foreign(piece, bytes))?;
        if room > bytes {
            space.insert(at + bytes, foreign(Physical::uncounted(&gpu, room - bytes)?, room - bytes))?;
        }
        at += room;
    }
    Ok(())
}

/// The caller sees a part no more.
pub(super) fn hide(caller: &Process, address: u64, bytes: u64) {
    let end = address.saturating_add(bytes);
    caller.space_mut().retain(|at, mapping| !(mapping.foreign && (address..end).contains(&at)));
}

/// The caller has done its copies.
pub(super) fn settle(server: &Server, process: &Process, token: u64) -> Result<()> {
    let mut parked = lock(&server.parked);
    let operation = parked.remove(&token).filter(|operation| operation.pid == process.pid);
    operation.map(drop).ok_or(Code::INVALID_VALUE)
}
