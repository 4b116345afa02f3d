//! Exported functions: checkpoint.
//!
//! All four argument structs are 64 bytes in every version of `cuda.h`, and may be missing; what a version does not know is
//! reserved and must be zero.
use std::time::Duration;

use super::{In, Out, export};
use crate::checkpoint::caller::Caller;
use crate::checkpoint::placement::hex;
use crate::client;
use crate::code::{Code, Result};

/// `CUcheckpointLockArgs`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct LockArgs {
    timeout_ms: u32,
    reserved0: u32,
    reserved1: [u64; 7],
}

/// `CUcheckpointCheckpointArgs` and `CUcheckpointUnlockArgs`.
type Reserved = [u64; 8];

/// `CUcheckpointRestoreArgs`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RestoreArgs {
    pairs: In<Pair>,
    count: u32,
    padding: u32,
    reserved: [u64; 6],
}

/// `CUcheckpointGpuPair`: old UUID, new UUID.
type Pair = [[u8; 16]; 2];

const _: () =
    assert!(size_of::<LockArgs>() == 64 && size_of::<RestoreArgs>() == 64 && size_of::<Pair>() == 32);

fn caller() -> Caller {
    Caller::new(&client::directory())
}

fn must_be_zero(reserved: &[u64]) -> Result<()> {
    if reserved.iter().all(|word| *word == 0) { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

export! {
    fn cuCheckpointProcessGetRestoreThreadId(pid: i32, tid: Out<i32>) {
        if tid.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        tid.put(caller().restore_thread(pid)?)
    }

    fn cuCheckpointProcessGetState(pid: i32, state: Out<u32>) {
        if state.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        state.put(caller().state(pid)?)
    }

    fn cuCheckpointProcessLock(pid: i32, args: In<LockArgs>) {
        let LockArgs { timeout_ms, reserved0, reserved1 } = args.get().unwrap_or_default();
        must_be_zero(&[u64::from(reserved0)])?;
        must_be_zero(&reserved1)?;
        let limit = (timeout_ms != 0).then(|| Duration::from_millis(u64::from(timeout_ms)));
        caller().lock(pid, limit)
    }

    fn cuCheckpointProcessCheckpoint(pid: i32, args: In<Reserved>) {
        must_be_zero(&args.get().unwrap_or_default())?;
        caller().checkpoint(pid)
    }

    fn cuCheckpointProcessRestore(pid: i32, args: In<RestoreArgs>) {
        let mut pairs = Vec::new();
        if let Some(args) = args.get() {
            must_be_zero(&[u64::from(args.padding)])?;
            must_be_zero(&args.reserved)?;
            pairs = args.pairs.list(usize::try_from(args.count).map_err(|_| Code::INVALID_VALUE)?)?;
        }
        caller().restore(pid, pairs.iter().map(|[old, new]| (hex(old), hex(new))).collect())
    }

    fn cuCheckpointProcessUnlock(pid: i32, args: In<Reserved>) {
        must_be_zero(&args.get().unwrap_or_default())?;
        caller().unlock(pid)
    }

    fn cuCheckpointOperationComplete(_handle: u64) {
        Err(Code::NOT_SUPPORTED)
    }
}
