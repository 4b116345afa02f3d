//! Exported functions: checkpoint.
//!
//! All four argument structs are 64 bytes in every version of `cuda.h`, and may be missing; what a version does not know is
//! reserved and must be zero.
use std::time::Duration;

use super::{In, Out, export};
use crate::checkpoint::caller::Caller;
use crate::checkpoint::placement::hex;
use crate::checkpoint::storage::Device;
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

/// `CUcheckpointCheckpointArgs`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CheckpointArgs {
    custom: Out<*const Info>,
    reserved: [u64; 7],
}

/// `CUcheckpointUnlockArgs`.
type Reserved = [u64; 8];

/// `CUcheckpointRestoreArgs`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RestoreArgs {
    pairs: In<Pair>,
    count: u32,
    padding: u32,
    custom: Out<*const Info>,
    reserved: [u64; 5],
}

/// `CUcheckpointCustomStorageInfo`.
#[repr(C)]
pub(crate) struct Info {
    handle: u64,
    devices: *const PerDevice,
    count: u32,
}

/// `CUcheckpointCustomStoragePerDeviceData`.
#[repr(C)]
pub(crate) struct PerDevice {
    address: u64,
    bytes: usize,
    stream: u64,
}

/// `CUcheckpointGpuPair`: old UUID, new UUID.
type Pair = [[u8; 16]; 2];

const _: () =
    assert!(size_of::<LockArgs>() == 64 && size_of::<RestoreArgs>() == 64 && size_of::<Pair>() == 32);
const _: () =
    assert!(size_of::<CheckpointArgs>() == 64 && size_of::<Info>() == 24 && size_of::<PerDevice>() == 24);

fn caller() -> Caller {
    Caller::new(&client::directory())
}

fn must_be_zero(reserved: &[u64]) -> Result<()> {
    if reserved.iter().all(|word| *word == 0) { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

/// Hands out what was opened. It is the driver's memory, and there is no call to give it back: it stays.
fn hand_out(out: Out<*const Info>, (handle, devices): (u64, Vec<Device>)) -> Result<()> {
    let bytes = |device: &Device| usize::try_from(device.bytes).map_err(|_| Code::INVALID_VALUE);
    let devices = devices
        .iter()
        .map(|device| Ok(PerDevice { address: device.address, bytes: bytes(device)?, stream: device.stream }))
        .collect::<Result<Vec<_>>>()?;
    let count = u32::try_from(devices.len()).map_err(|_| Code::INVALID_VALUE)?;
    let info: &'static Info = Box::leak(Box::new(Info { handle, devices: devices.leak().as_ptr(), count }));
    out.put(info)
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

    fn cuCheckpointProcessCheckpoint(pid: i32, args: In<CheckpointArgs>) {
        let Some(args) = args.get() else { return caller().checkpoint(pid) };
        must_be_zero(&args.reserved)?;
        if args.custom.is_null() {
            return caller().checkpoint(pid);
        }
        hand_out(args.custom, caller().checkpoint_custom(pid)?)
    }

    fn cuCheckpointProcessRestore(pid: i32, args: In<RestoreArgs>) {
        let Some(args) = args.get() else { return caller().restore(pid, Vec::new()) };
        must_be_zero(&[u64::from(args.padding)])?;
        must_be_zero(&args.reserved)?;
        let pairs = args.pairs.list(usize::try_from(args.count).map_err(|_| Code::INVALID_VALUE)?)?;
        let pairs = pairs.iter().map(|[old, new]| (hex(old), hex(new))).collect();
        if args.custom.is_null() {
            return caller().restore(pid, pairs);
        }
        hand_out(args.custom, caller().restore_custom(pid, pairs)?)
    }

    fn cuCheckpointProcessUnlock(pid: i32, args: In<Reserved>) {
        must_be_zero(&args.get().unwrap_or_default())?;
        caller().unlock(pid)
    }

    fn cuCheckpointOperationComplete(handle: u64) {
        caller().complete(handle)
    }
}
