//! The structures of the checkpoint interface, as `cuda.h` of CUDA 13.4 has them.
//!
//! All four argument structures have had 64 bytes in every version, with what later versions added taken from bytes that
//! earlier ones reserve and want zeroed. So one layout serves all drivers, as long as only fields are set that the driver at
//! hand knows: `gpu_pairs` from CUDA 13.0 on, `custom_storage_out` from 13.4 on.
//!
//! | structure | 12.8, 12.9 | 13.0 to 13.2 | 13.3 | 13.4 |
//! |---|---|---|---|---|
//! | lock | `timeoutMs` at 0 | | | |
//! | checkpoint | nothing | | | `customStorageInfo_out` at 0 |
//! | restore | nothing | `gpuPairs` at 0, `gpuPairsCount` at 8 | the same | `customStorageInfo_out` at 16 |
//! | unlock | nothing | | | |

use std::ffi::c_void;
use std::mem::{align_of, offset_of, size_of};
use std::ptr;

/// The version of CUDA that brought the checkpoint calls.
pub const CHECKPOINT: u32 = 12_080;
/// The version of CUDA that brought GPU pairs.
pub const PAIRS: u32 = 13_000;
/// The version of CUDA that brought custom storage.
pub const CUSTOM_STORAGE: u32 = 13_040;

/// `CUcheckpointLockArgs`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LockArgs {
    /// How long to wait for the process's work to end; 0 is for ever.
    pub(crate) timeout_ms: u32,
    reserved0: u32,
    reserved1: [u64; 7],
}

impl LockArgs {
    pub(crate) fn new(timeout_ms: u32) -> Self {
        Self { timeout_ms, ..Self::default() }
    }
}

/// `CUcheckpointCheckpointArgs`.
#[repr(C)]
pub(crate) struct CheckpointArgs {
    /// Where the driver puts a pointer to what it mapped; null for a checkpoint into the process's own memory.
    pub(crate) custom_storage_out: *mut *mut CustomStorageInfo,
    reserved: [u64; 7],
}

impl CheckpointArgs {
    pub(crate) const fn new(custom_storage_out: *mut *mut CustomStorageInfo) -> Self {
        Self { custom_storage_out, reserved: [0; 7] }
    }
}

/// `CUcheckpointRestoreArgs`.
#[repr(C)]
pub(crate) struct RestoreArgs {
    /// The map of GPUs; null for none.
    pub(crate) gpu_pairs: *mut GpuPair,
    /// How many pairs there are.
    pub(crate) gpu_pairs_count: u32,
    padding0: u32,
    /// As at the checkpoint.
    pub(crate) custom_storage_out: *mut *mut CustomStorageInfo,
    reserved: [u64; 5],
}

impl RestoreArgs {
    pub(crate) const fn new() -> Self {
        Self {
            gpu_pairs: ptr::null_mut(),
            gpu_pairs_count: 0,
            padding0: 0,
            custom_storage_out: ptr::null_mut(),
            reserved: [0; 5],
        }
    }
}

/// `CUcheckpointUnlockArgs`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct UnlockArgs {
    reserved: [u64; 8],
}

/// `CUcheckpointGpuPair`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct GpuPair {
    /// The GPU that was checkpointed.
    pub(crate) old_uuid: [u8; 16],
    /// The GPU that takes its place.
    pub(crate) new_uuid: [u8; 16],
}

/// `CUcheckpointCustomStorageInfo`: made by the driver, valid until the operation is completed.
#[repr(C)]
pub(crate) struct CustomStorageInfo {
    /// What `cuCheckpointOperationComplete` wants.
    pub(crate) handle: *mut c_void,
    /// An array, one element a GPU.
    pub(crate) per_device_data: *mut PerDeviceData,
    /// How long it is.
    pub(crate) device_count: u32,
}

/// `CUcheckpointCustomStoragePerDeviceData`.
#[repr(C)]
pub(crate) struct PerDeviceData {
    /// The process's memory on one GPU, mapped into the caller in one piece.
    pub(crate) dev_ptr: u64,
    /// How much of it there is.
    pub(crate) size: usize,
    /// A stream of that GPU's primary context.
    pub(crate) stream: *mut c_void,
}

/// Numbers of `CUresult` that we act on.
pub mod code {
    /// `CUDA_SUCCESS`
    pub const SUCCESS: i32 = 0;
    /// `CUDA_ERROR_INVALID_VALUE`
    pub const INVALID_VALUE: i32 = 1;
    /// `CUDA_ERROR_OUT_OF_MEMORY`
    pub const OUT_OF_MEMORY: i32 = 2;
    /// `CUDA_ERROR_NOT_INITIALIZED`
    pub const NOT_INITIALIZED: i32 = 3;
    /// `CUDA_ERROR_STUB_LIBRARY`
    pub const STUB_LIBRARY: i32 = 34;
    /// `CUDA_ERROR_NO_DEVICE`
    pub const NO_DEVICE: i32 = 100;
    /// `CUDA_ERROR_INVALID_DEVICE`
    pub const INVALID_DEVICE: i32 = 101;
    /// `CUDA_ERROR_INVALID_CONTEXT`
    pub const INVALID_CONTEXT: i32 = 201;
    /// `CUDA_ERROR_OPERATING_SYSTEM`
    pub const OPERATING_SYSTEM: i32 = 304;
    /// `CUDA_ERROR_ILLEGAL_STATE`
    pub const ILLEGAL_STATE: i32 = 401;
    /// `CUDA_ERROR_NOT_FOUND`
    pub const NOT_FOUND: i32 = 500;
    /// `CUDA_ERROR_NOT_READY`
    pub const NOT_READY: i32 = 600;
    /// `CUDA_ERROR_NOT_PERMITTED`
    pub const NOT_PERMITTED: i32 = 800;
    /// `CUDA_ERROR_NOT_SUPPORTED`
    pub const NOT_SUPPORTED: i32 = 801;
    /// `CUDA_ERROR_SYSTEM_NOT_READY`
    pub const SYSTEM_NOT_READY: i32 = 802;
    /// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`
    pub const SYSTEM_DRIVER_MISMATCH: i32 = 803;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`
    pub const STREAM_CAPTURE_UNSUPPORTED: i32 = 900;
    /// `CUDA_ERROR_TIMEOUT`
    pub const TIMEOUT: i32 = 909;
    /// `CUDA_ERROR_UNKNOWN`
    pub const UNKNOWN: i32 = 999;
}

/// Names and numbers of `CUresult` that we know, in case the driver does not name them.
pub const NAMES: &[(&str, i32)] = &[
    ("CUDA_SUCCESS", code::SUCCESS),
    ("CUDA_ERROR_INVALID_VALUE", code::INVALID_VALUE),
    ("CUDA_ERROR_OUT_OF_MEMORY", code::OUT_OF_MEMORY),
    ("CUDA_ERROR_NOT_INITIALIZED", code::NOT_INITIALIZED),
    ("CUDA_ERROR_STUB_LIBRARY", code::STUB_LIBRARY),
    ("CUDA_ERROR_NO_DEVICE", code::NO_DEVICE),
    ("CUDA_ERROR_INVALID_DEVICE", code::INVALID_DEVICE),
    ("CUDA_ERROR_INVALID_CONTEXT", code::INVALID_CONTEXT),
    ("CUDA_ERROR_OPERATING_SYSTEM", code::OPERATING_SYSTEM),
    ("CUDA_ERROR_ILLEGAL_STATE", code::ILLEGAL_STATE),
    ("CUDA_ERROR_NOT_FOUND", code::NOT_FOUND),
    ("CUDA_ERROR_NOT_READY", code::NOT_READY),
    ("CUDA_ERROR_NOT_PERMITTED", code::NOT_PERMITTED),
    ("CUDA_ERROR_NOT_SUPPORTED", code::NOT_SUPPORTED),
    ("CUDA_ERROR_SYSTEM_NOT_READY", code::SYSTEM_NOT_READY),
    ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", code::SYSTEM_DRIVER_MISMATCH),
    ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", code::STREAM_CAPTURE_UNSUPPORTED),
    ("CUDA_ERROR_TIMEOUT", code::TIMEOUT),
    ("CUDA_ERROR_UNKNOWN", code::UNKNOWN),
];

/// A name for a number that the driver does not name.
pub(crate) fn name(code: i32) -> Option<&'static str> {
    NAMES.iter().find(|(_, number)| *number == code).map(|(name, _)| *name)
}

/// One fact about the interface: an expression in the language of `cuda.h`, its value here, and the CUDA that brought it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// `sizeof(CUcheckpointLockArgs)`, `offsetof(CUcheckpointLockArgs, timeoutMs)`, `CU_PROCESS_STATE_FAILED` …
    pub expression: String,
    /// What it is in this program.
    pub value: u64,
    /// The first version of CUDA whose header has it.
    pub since: u32,
}

/// Everything that this program believes about the driver's interface, to be compared with NVIDIA's header.
pub fn table() -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |since: u32, expression: String, value: usize| {
        facts.push(Fact { expression, value: u64::try_from(value).unwrap_or(u64::MAX), since });
    };
    macro_rules! whole {
        ($since:expr, $ours:ty, $theirs:literal) => {
            add($since, format!("sizeof({})", $theirs), size_of::<$ours>());
            add($since, format!("_Alignof({})", $theirs), align_of::<$ours>());
        };
    }
    macro_rules! field {
        ($since:expr, $ours:ty, $field:ident, $kind:ty, $theirs:literal, $name:literal) => {
            add($since, format!("offsetof({}, {})", $theirs, $name), offset_of!($ours, $field));
            add($since, format!("sizeof((({} *)0)->{})", $theirs, $name), size_of::<$kind>());
        };
    }
    whole!(CHECKPOINT, LockArgs, "CUcheckpointLockArgs");
    field!(CHECKPOINT, LockArgs, timeout_ms, u32, "CUcheckpointLockArgs", "timeoutMs");
    whole!(CHECKPOINT, CheckpointArgs, "CUcheckpointCheckpointArgs");
    whole!(CHECKPOINT, RestoreArgs, "CUcheckpointRestoreArgs");
    whole!(CHECKPOINT, UnlockArgs, "CUcheckpointUnlockArgs");
    add(CHECKPOINT, "sizeof(CUprocessState)".to_owned(), size_of::<i32>());
    add(CHECKPOINT, "sizeof(CUresult)".to_owned(), size_of::<i32>());
    add(CHECKPOINT, "sizeof(CUdeviceptr)".to_owned(), size_of::<u64>());
    add(CHECKPOINT, "sizeof(CUdevice)".to_owned(), size_of::<i32>());
    add(CHECKPOINT, "sizeof(CUuuid)".to_owned(), 16);
    for (number, name) in ["RUNNING", "LOCKED", "CHECKPOINTED", "FAILED"].iter().enumerate() {
        add(CHECKPOINT, format!("CU_PROCESS_STATE_{name}"), number);
    }
    for (name, number) in NAMES {
        add(CHECKPOINT, (*name).to_owned(), usize::try_from(*number).unwrap_or(usize::MAX));
    }

    whole!(PAIRS, GpuPair, "CUcheckpointGpuPair");
    field!(PAIRS, GpuPair, old_uuid, [u8; 16], "CUcheckpointGpuPair", "oldUuid");
    field!(PAIRS, GpuPair, new_uuid, [u8; 16], "CUcheckpointGpuPair", "newUuid");
    field!(PAIRS, RestoreArgs, gpu_pairs, *mut GpuPair, "CUcheckpointRestoreArgs", "gpuPairs");
    field!(PAIRS, RestoreArgs, gpu_pairs_count, u32, "CUcheckpointRestoreArgs", "gpuPairsCount");

    add(CUSTOM_STORAGE, "CU_PROCESS_STATE_CHECKPOINTING".to_owned(), 4);
    add(CUSTOM_STORAGE, "CU_PROCESS_STATE_RESTORING".to_owned(), 5);
    field!(
        CUSTOM_STORAGE,
        CheckpointArgs,
        custom_storage_out,
        *mut *mut CustomStorageInfo,
        "CUcheckpointCheckpointArgs",
        "customStorageInfo_out"
    );
    field!(
        CUSTOM_STORAGE,
        RestoreArgs,
        custom_storage_out,
        *mut *mut CustomStorageInfo,
        "CUcheckpointRestoreArgs",
        "customStorageInfo_out"
    );
    whole!(CUSTOM_STORAGE, CustomStorageInfo, "CUcheckpointCustomStorageInfo");
    field!(CUSTOM_STORAGE, CustomStorageInfo, handle, *mut c_void, "CUcheckpointCustomStorageInfo", "handle");
    field!(
        CUSTOM_STORAGE,
        CustomStorageInfo,
        per_device_data,
        *mut PerDeviceData,
        "CUcheckpointCustomStorageInfo",
        "perDeviceData"
    );
    field!(
        CUSTOM_STORAGE,
        CustomStorageInfo,
        device_count,
        u32,
        "CUcheckpointCustomStorageInfo",
        "deviceCount"
    );
    whole!(CUSTOM_STORAGE, PerDeviceData, "CUcheckpointCustomStoragePerDeviceData");
    field!(CUSTOM_STORAGE, PerDeviceData, dev_ptr, u64, "CUcheckpointCustomStoragePerDeviceData", "devPtr");
    field!(CUSTOM_STORAGE, PerDeviceData, size, usize, "CUcheckpointCustomStoragePerDeviceData", "size");
    field!(
        CUSTOM_STORAGE,
        PerDeviceData,
        stream,
        *mut c_void,
        "CUcheckpointCustomStoragePerDeviceData",
        "stream"
    );
    facts
}
