//! `libcuda.so.1`, opened at run time, and its calls as safe functions.
//!
//! # What all the calls rely on
//!
//! * A symbol is used only with the signature that `cuda.h` declares for it. None of those used here has changed its
//!   signature since it first appeared; where the header renames a function (`_v2`), the name behind the rename is used.
//! * Pointers that we pass point to values that live across the call, of the sizes in [`super::layout`]. The driver keeps none
//!   of them after the call.
//! * The library is never closed while a [`Library`] lives, and the worker keeps it for as long as the process lives.
//! * The driver's calls may be made from any thread; contexts are per thread and are only used in `storage`.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use super::layout::{
    self, CheckpointArgs, CustomStorageInfo, GpuPair, LockArgs, RestoreArgs, UnlockArgs, code,
};
use crate::state::State;
use crate::uuid::GpuUuid;

/// Where the loader finds the driver. Never `libcuda.so`: that may be the stub of a toolkit.
const USUAL: &str = "libcuda.so.1";

type Result<T, E = i32> = std::result::Result<T, E>;

/// Why there is no [`Library`].
#[derive(Debug)]
pub(crate) enum LoadError {
    /// There is none, or it is only a stub for the linker.
    Missing(String),
    /// It lacks a call.
    TooOld { cuda_version: Option<u32>, missing: &'static str },
}

/// The functions that are there in every driver that we can use.
struct Calls {
    get_restore_thread_id: unsafe extern "C" fn(c_int, *mut c_int) -> c_int,
    get_state: unsafe extern "C" fn(c_int, *mut c_int) -> c_int,
    lock: unsafe extern "C" fn(c_int, *mut LockArgs) -> c_int,
    checkpoint: unsafe extern "C" fn(c_int, *mut CheckpointArgs) -> c_int,
    restore: unsafe extern "C" fn(c_int, *mut RestoreArgs) -> c_int,
    unlock: unsafe extern "C" fn(c_int, *mut UnlockArgs) -> c_int,
    init: unsafe extern "C" fn(u32) -> c_int,
}

/// What copying device memory takes; there from the first CUDA on, but only needed for custom storage.
pub(super) struct Copies {
    pub(super) complete: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub(super) device_get_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub(super) device_get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    pub(super) device_get_uuid: unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int,
    pub(super) primary_ctx_retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int,
    pub(super) primary_ctx_release: unsafe extern "C" fn(c_int) -> c_int,
    pub(super) ctx_set_current: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub(super) stream_get_ctx: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    pub(super) memcpy_dtoh: unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int,
    pub(super) memcpy_htod: unsafe extern "C" fn(u64, *const c_void, usize) -> c_int,
}

/// The driver's library.
pub(crate) struct Library {
    calls: Calls,
    pub(super) copies: Option<Copies>,
    error_name: Option<unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int>,
    cuda_version: u32,
    initialised: OnceLock<i32>,
    /// Kept open: the functions above are in it.
    _library: libloading::Library,
}

macro_rules! symbol {
    ($library:expr, $name:literal) => {
        // SAFETY: the field that takes the symbol has the type that `cuda.h` declares for it (see the top of this file), and
        // `Library` keeps the library open for as long as the pointer lives.
        unsafe { $library.get($name).map(|symbol: libloading::Symbol<'_, _>| *symbol) }
    };
}

impl Library {
    /// Opens the driver's library: `path`, or the loader's `libcuda.so.1`.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, LoadError> {
        let name = path.map_or(OsStr::new(USUAL), Path::as_os_str);
        // SAFETY: opening a library runs its initialisers. This one is the driver of the machine's owner (found by the system's
        // loader, or named by root), and its initialisers ask nothing of us. There is no safe way to open a library.
        let library =
            unsafe { libloading::Library::new(name) }.map_err(|error| LoadError::Missing(said(&error)))?;
        let cuda_version = version(&library)?;
        let need =
            |missing: &'static str| move |_: libloading::Error| LoadError::TooOld { cuda_version, missing };
        let calls = Calls {
            get_restore_thread_id: symbol!(library, b"cuCheckpointProcessGetRestoreThreadId\0")
                .map_err(need("cuCheckpointProcessGetRestoreThreadId"))?,
            get_state: symbol!(library, b"cuCheckpointProcessGetState\0")
                .map_err(need("cuCheckpointProcessGetState"))?,
            lock: symbol!(library, b"cuCheckpointProcessLock\0").map_err(need("cuCheckpointProcessLock"))?,
            checkpoint: symbol!(library, b"cuCheckpointProcessCheckpoint\0")
                .map_err(need("cuCheckpointProcessCheckpoint"))?,
            restore: symbol!(library, b"cuCheckpointProcessRestore\0")
                .map_err(need("cuCheckpointProcessRestore"))?,
            unlock: symbol!(library, b"cuCheckpointProcessUnlock\0")
                .map_err(need("cuCheckpointProcessUnlock"))?,
            init: symbol!(library, b"cuInit\0").map_err(need("cuInit"))?,
        };
        // A library may export the names and yet be older: its version decides too.
        if let Some(version) = cuda_version
            && version < layout::CHECKPOINT
        {
            return Err(LoadError::TooOld { cuda_version, missing: "checkpoint calls" });
        }
        let cuda_version = cuda_version.unwrap_or(layout::CHECKPOINT);
        Ok(Self {
            calls,
            copies: (cuda_version >= layout::CUSTOM_STORAGE).then(|| copies(&library)).flatten(),
            error_name: symbol!(library, b"cuGetErrorName\0").ok(),
            cuda_version,
            initialised: OnceLock::new(),
            _library: library,
        })
    }

    /// The newest CUDA that this driver knows.
    pub(crate) const fn cuda_version(&self) -> u32 {
        self.cuda_version
    }

    /// Does it take a map of GPUs?
    pub(crate) const fn pairs(&self) -> bool {
        self.cuda_version >= layout::PAIRS
    }

    /// Can it hand out device memory for copying?
    pub(crate) const fn custom_storage(&self) -> bool {
        self.copies.is_some()
    }

    /// The driver's name for one of its numbers.
    pub(crate) fn name(&self, code: i32) -> String {
        let mut text: *const c_char = ptr::null();
        if let Some(error_name) = self.error_name {
            // SAFETY: `text` lives across the call; the function writes a pointer to it or leaves it alone.
            unsafe { error_name(code, &raw mut text) };
        }
        if text.is_null() {
            return layout::name(code).unwrap_or("an unknown error").to_owned();
        }
        // SAFETY: not null, so the driver has set it, to a string that `cuda.h` documents as ended by a zero byte and constant.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// The thread that does the driver's work in `pid`.
    pub(crate) fn restore_thread(&self, pid: i32) -> Result<i32> {
        let mut thread = 0;
        // SAFETY: `thread` is an `int` that lives across the call.
        check(unsafe { (self.calls.get_restore_thread_id)(pid, &raw mut thread) })?;
        Ok(thread)
    }

    /// The state of `pid`.
    pub(crate) fn state(&self, pid: i32) -> Result<State> {
        let mut state = 0;
        // SAFETY: `state` has the size of `CUprocessState` (in the table of layouts) and lives across the call. It is read as a
        // number, so a value that we do not know is no undefined behaviour.
        check(unsafe { (self.calls.get_state)(pid, &raw mut state) })?;
        Ok(State::from(state))
    }

    /// Locks `pid`.
    pub(crate) fn lock(&self, pid: i32, timeout_ms: u32) -> Result<()> {
        let mut args = LockArgs::new(timeout_ms);
        // SAFETY: `args` has the driver's layout and lives across the call.
        check(unsafe { (self.calls.lock)(pid, &raw mut args) })
    }

    /// Checkpoints `pid` into its own memory.
    pub(crate) fn checkpoint(&self, pid: i32) -> Result<()> {
        // SAFETY: the arguments are optional; null stands for the defaults.
        check(unsafe { (self.calls.checkpoint)(pid, ptr::null_mut()) })
    }

    /// Restores `pid`, on the GPUs of `pairs` if there are any.
    pub(crate) fn restore(&self, pid: i32, pairs: &[(GpuUuid, GpuUuid)]) -> Result<()> {
        self.initialise();
        self.restore_with(pid, pairs, ptr::null_mut())
    }

    /// Unlocks `pid`.
    pub(crate) fn unlock(&self, pid: i32) -> Result<()> {
        // SAFETY: the arguments are optional; null stands for the defaults.
        check(unsafe { (self.calls.unlock)(pid, ptr::null_mut()) })
    }

    /// `cuInit`, once. A restore needs it where persistence mode is off. Its failure is not ours to judge: the call that needs
    /// it says better what is wrong.
    pub(super) fn initialise(&self) -> i32 {
        // SAFETY: the flags must be zero, and are; the function may be called from any thread.
        *self.initialised.get_or_init(|| unsafe { (self.calls.init)(0) })
    }

    /// Checkpoints `pid`; the driver maps its device memory into this process and says where in `*out`.
    pub(super) fn checkpoint_with(&self, pid: i32, out: &mut *mut CustomStorageInfo) -> Result<()> {
        let mut args = CheckpointArgs::new(&raw mut *out);
        // SAFETY: as in `lock`; `*out` lives across the call, and is only given to drivers that know the field, because
        // `storage` is reached through `copies`, which older drivers do not have.
        check(unsafe { (self.calls.checkpoint)(pid, &raw mut args) })
    }

    pub(super) fn restore_with(
        &self,
        pid: i32,
        pairs: &[(GpuUuid, GpuUuid)],
        out: *mut *mut CustomStorageInfo,
    ) -> Result<()> {
        let mut args = RestoreArgs::new();
        let mut list: Vec<GpuPair> =
            pairs.iter().map(|(old, new)| GpuPair { old_uuid: old.bytes(), new_uuid: new.bytes() }).collect();
        if !list.is_empty() {
            if !self.pairs() {
                return Err(code::NOT_SUPPORTED);
            }
            args.gpu_pairs = list.as_mut_ptr();
            args.gpu_pairs_count = u32::try_from(list.len()).map_err(|_| code::INVALID_VALUE)?;
        }
        args.custom_storage_out = out;
        // SAFETY: `args`, `list` and what `out` points to live across the call. Fields that a driver does not know are zero:
        // pairs are only set if `pairs()`, and `out` is null unless `storage` calls, which needs `copies`.
        check(unsafe { (self.calls.restore)(pid, &raw mut args) })
    }
}

pub(super) const fn check(code: i32) -> Result<()> {
    if code == code::SUCCESS { Ok(()) } else { Err(code) }
}

/// What the driver says of its version, if it can; a stub for the linker is no driver.
fn version(library: &libloading::Library) -> Result<Option<u32>, LoadError> {
    let Ok(get) = symbol!(library, b"cuDriverGetVersion\0") else { return Ok(None) };
    let get: unsafe extern "C" fn(*mut c_int) -> c_int = get;
    let mut version = 0;
    // SAFETY: `version` is an `int` that lives across the call, which needs no `cuInit`.
    match unsafe { get(&raw mut version) } {
        code::SUCCESS => Ok(u32::try_from(version).ok()),
        code::STUB_LIBRARY => {
            Err(LoadError::Missing("the library is a stub for the linker, not a driver".to_owned()))
        }
        _ => Ok(None),
    }
}

fn copies(library: &libloading::Library) -> Option<Copies> {
    Some(Copies {
        complete: symbol!(library, b"cuCheckpointOperationComplete\0").ok()?,
        device_get_count: symbol!(library, b"cuDeviceGetCount\0").ok()?,
        device_get: symbol!(library, b"cuDeviceGet\0").ok()?,
        device_get_uuid: symbol!(library, b"cuDeviceGetUuid_v2\0").ok()?,
        primary_ctx_retain: symbol!(library, b"cuDevicePrimaryCtxRetain\0").ok()?,
        primary_ctx_release: symbol!(library, b"cuDevicePrimaryCtxRelease_v2\0").ok()?,
        ctx_set_current: symbol!(library, b"cuCtxSetCurrent\0").ok()?,
        stream_get_ctx: symbol!(library, b"cuStreamGetCtx\0").ok()?,
        memcpy_dtoh: symbol!(library, b"cuMemcpyDtoH_v2\0").ok()?,
        memcpy_htod: symbol!(library, b"cuMemcpyHtoD_v2\0").ok()?,
    })
}

/// The loader's own words, which stand in the cause.
fn said(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_library_is_said_to_be_missing() {
        let Err(LoadError::Missing(detail)) = Library::open(Some(Path::new("/nowhere/libcuda.so.1"))) else {
            panic!("opened")
        };
        assert!(detail.contains("/nowhere/libcuda.so.1"), "{detail}");
    }

    #[test]
    fn a_library_without_the_calls_is_too_old() {
        // Any library at all lacks them.
        let Err(LoadError::TooOld { missing, .. }) = Library::open(Some(Path::new("libc.so.6"))) else {
            panic!("opened")
        };
        assert_eq!(missing, "cuCheckpointProcessGetRestoreThreadId");
    }
}
