//! Custom storage (13.4): the memory of a process as its caller sees it, one contiguous part a GPU.
//!
//! A real driver maps the same memory twice. Here a part is a copy that is made when the operation begins, or written back
//! when it ends, and a caller opens it as it would open another process's memory. Parts are in no GPU's account: the
//! memory that they stand for is, for as long as the operation lasts.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Physical, Process, Server, lock};
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
    parts: Vec<Arc<Physical>>,
    /// Each piece, and where it lies: which part, and from where on.
    places: Vec<(Arc<Physical>, usize, u64)>,
}

/// Lays out the pieces of a process, GPU by GPU, and opens the parts for a caller.
pub(super) fn park(
    server: &Server,
    process: &Process,
    pieces: &[Arc<Physical>],
    filled: bool,
) -> Result<Parked> {
    let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
    for piece in pieces {
        *sizes.entry(piece.gpu.info.index).or_default() += piece.memory.len().next_multiple_of(ALIGN);
    }
    let mut parts = Vec::new();
    for (index, bytes) in &sizes {
        parts.push(Physical::uncounted(server.gpu(*index)?, *bytes)?);
    }
    let mut places = Vec::new();
    let mut used = vec![0; parts.len()];
    for piece in pieces {
        let number = sizes.keys().position(|index| *index == piece.gpu.info.index).ok_or(Code::UNKNOWN)?;
        let (Some(part), Some(offset)) = (parts.get(number), used.get_mut(number)) else {
            return Err(Code::UNKNOWN);
        };
        if filled {
            part.memory.copy_from(*offset, &piece.memory, 0, piece.memory.len())?;
        }
        places.push((piece.clone(), number, *offset));
        *offset += piece.memory.len().next_multiple_of(ALIGN);
    }
    let token = LAST.fetch_add(1, Ordering::Relaxed);
    let mut shared = lock(&server.shared);
    let described = parts.iter().map(|part| {
        let key = LAST.fetch_add(1, Ordering::Relaxed);
        shared.insert(key, Arc::downgrade(part));
        Part { gpu: hex(&part.gpu.info.uuid), key, bytes: part.memory.len() }
    });
    let parked = Parked { token, parts: described.collect() };
    drop(shared);
    lock(&server.parked).insert(token, Operation { pid: process.pid, parts, places });
    Ok(parked)
}

/// The caller has done its copies. With `back` what it wrote becomes the memory of the process.
pub(super) fn settle(server: &Server, process: &Process, token: u64, back: bool) -> Result<()> {
    let mut parked = lock(&server.parked);
    let operation = parked.remove(&token).filter(|operation| operation.pid == process.pid);
    drop(parked);
    let operation = operation.ok_or(Code::INVALID_VALUE)?;
    if back {
        for (piece, number, offset) in &operation.places {
            let part = operation.parts.get(*number).ok_or(Code::UNKNOWN)?;
            piece.memory.copy_from(0, &part.memory, *offset, piece.memory.len())?;
        }
    }
    Ok(())
}
