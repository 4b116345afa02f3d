//! Custom storage (CUDA 13.4): device memory goes to files of ours instead of into the process's own memory.
//!
//! The driver maps all device memory of the target into *this* process, one contiguous piece a GPU, and the target is
//! CHECKPOINTING until we have copied it away and said so; a restore goes the same way back. For this the caller needs `cuInit`
//! and the primary contexts of all GPUs of the target. Which GPU a piece is on is known only by its stream, whose context is
//! that GPU's primary context.
//!
//! An operation that has begun must be completed whatever happens to the copy: the target hangs in between otherwise, and there
//! is no call to go back. A checkpoint whose bytes do not go into their files (the disk is full) would then lose them. So they
//! are kept in memory instead, the operation is completed, and the process restored at once: LOCKED, as if nothing had been.
//!
//! Which files there are, and what they mean to whoever finds them later, is in `beside`.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::ptr;
use std::slice;

use super::layout::{CustomStorageInfo, PerDeviceData, code};
use super::library::{Copies, Library, check};
use crate::beside::{Beside, Part};
use crate::uuid::GpuUuid;

const PIECE: usize = 8 << 20;

/// What came of it.
#[derive(Debug)]
pub(crate) enum Moved {
    /// All bytes were copied.
    Done,
    /// The driver said no.
    Code(i32),
    /// The copy failed; the driver's operation was completed all the same. The state says what the process is now.
    Failed(String),
}

impl From<Result<(), i32>> for Moved {
    fn from(result: Result<(), i32>) -> Self {
        result.map_or_else(Self::Code, |()| Self::Done)
    }
}

impl Library {
    /// Checkpoints `pid` with its device memory in `directory`, one file a GPU. If a file cannot be written, the process is
    /// LOCKED again.
    pub(crate) fn checkpoint_to(&self, pid: i32, directory: &Path) -> Moved {
        let beside = Beside::at(directory);
        self.with_contexts(|copies, devices| {
            let mut info = ptr::null_mut();
            if let Err(code) = self.checkpoint_with(pid, &mut info) {
                return Moved::Code(code);
            }
            let mut in_memory: HashMap<GpuUuid, Vec<u8>> = HashMap::new();
            let mut trouble = None;
            let moved = finish(copies, devices, info, |pieces| {
                let part = |(piece, device): &(&PerDeviceData, &Device)| Part {
                    gpu: device.uuid,
                    bytes: u64::try_from(piece.size).unwrap_or(u64::MAX),
                };
                let made = beside.make(&pieces.iter().map(part).collect::<Vec<_>>());
                trouble = made.err().map(|error| format!("cannot write {error}"));
                in_turn(copies, pieces, |piece, device| {
                    // Once one is in trouble, nobody will want the others in files.
                    let saved = match &trouble {
                        Some(_) => Err(String::new()),
                        None => save(copies, piece, &beside.file(device.uuid)),
                    };
                    if let Err(detail) = saved {
                        trouble.get_or_insert(detail);
                        in_memory.insert(device.uuid, keep(copies, piece)?);
                    }
                    Ok(())
                })
            });
            match (moved, trouble) {
                (Moved::Done, Some(detail)) => {
                    self.go_back(pid, copies, devices, &beside, &in_memory, &detail)
                }
                (moved, _) => moved,
            }
        })
    }

    /// Restores a process whose checkpoint did not all get into its files.
    fn go_back(
        &self,
        pid: i32,
        copies: &Copies,
        devices: &[Device],
        beside: &Beside,
        in_memory: &HashMap<GpuUuid, Vec<u8>>,
        detail: &str,
    ) -> Moved {
        let mut info = ptr::null_mut();
        // A disk that is full may have no room for it: then a copy that fails, too, is told by this call alone.
        let _marked = beside.comes_back(pid);
        let moved = match self.restore_with(pid, &[], &raw mut info) {
            Err(code) => Moved::Code(code),
            Ok(()) => finish(copies, devices, info, |pieces| {
                in_turn(copies, pieces, |piece, device| match in_memory.get(&device.uuid) {
                    Some(bytes) => load(copies, piece, &mut bytes.as_slice(), bytes.len() as u64, "memory"),
                    None => load_file(copies, piece, &beside.file(device.uuid)),
                })
            }),
        };
        match moved {
            Moved::Done => {
                let _there = beside.came_back(pid);
                Moved::Failed(detail.to_owned())
            }
            Moved::Code(code) => Moved::Failed(format!("{detail}; and it could not be restored ({code})")),
            Moved::Failed(more) => Moved::Failed(format!("{detail}; and it could not be restored: {more}")),
        }
    }

    /// Restores `pid` from what [`Library::checkpoint_to`] wrote.
    ///
    /// Nothing is begun if not all bytes are there: the process stays CHECKPOINTED.
    pub(crate) fn restore_from(&self, pid: i32, pairs: &[(GpuUuid, GpuUuid)], directory: &Path) -> Moved {
        let beside = Beside::at(directory);
        self.with_contexts(|copies, devices| {
            if let Err(error) = beside.check().and_then(|()| beside.comes_back(pid)) {
                return Moved::Failed(format!("its device memory cannot be brought back: {error}"));
            }
            let mut info = ptr::null_mut();
            if let Err(code) = self.restore_with(pid, pairs, &raw mut info) {
                let _nothing_was_done = beside.came_back(pid);
                return Moved::Code(code);
            }
            // A file bears the name of the GPU that the bytes came from.
            let old = |new: GpuUuid| pairs.iter().find(|pair| pair.1 == new).map_or(new, |pair| pair.0);
            let moved = finish(copies, devices, info, |pieces| {
                in_turn(copies, pieces, |piece, device| {
                    load_file(copies, piece, &beside.file(old(device.uuid)))
                })
            });
            match moved {
                Moved::Done => match beside.came_back(pid) {
                    Ok(()) => Moved::Done,
                    // Nobody would let it run.
                    Err(error) => Moved::Failed(format!("`{}`: {error}", directory.display())),
                },
                moved => moved,
            }
        })
    }

    /// Runs `work` with the primary contexts of all GPUs.
    fn with_contexts(&self, work: impl FnOnce(&Copies, &[Device]) -> Moved) -> Moved {
        let Some(copies) = &self.copies else { return Moved::Code(code::NOT_SUPPORTED) };
        if let Err(code) = check(self.initialise()) {
            return Moved::Code(code);
        }
        let devices = match devices(copies) {
            Ok(devices) => devices,
            Err(code) => return Moved::Code(code),
        };
        let moved = work(copies, &devices);
        // SAFETY: null unbinds the thread's context, so that none is used after its release.
        unsafe { (copies.ctx_set_current)(ptr::null_mut()) };
        moved
    }
}

/// A GPU with its primary context, which is held as long as this lives.
struct Device {
    uuid: GpuUuid,
    context: *mut c_void,
    number: i32,
    release: unsafe extern "C" fn(i32) -> i32,
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: one release for the one retain in `devices`; nothing of the context is used afterwards.
        unsafe { (self.release)(self.number) };
    }
}

fn devices(copies: &Copies) -> Result<Vec<Device>, i32> {
    let mut count = 0;
    // SAFETY: `count` is an `int` that lives across the call; `cuInit` was done.
    check(unsafe { (copies.device_get_count)(&raw mut count) })?;
    let mut devices = Vec::new();
    for ordinal in 0..count {
        let mut number = 0;
        let mut uuid = [0; 16];
        let mut context = ptr::null_mut();
        // SAFETY: each out-parameter has the size of its type (in the table of layouts) and lives across its call; `number` is
        // set by the first call before the others use it.
        unsafe {
            check((copies.device_get)(&raw mut number, ordinal))?;
            check((copies.device_get_uuid)(&raw mut uuid, number))?;
            check((copies.primary_ctx_retain)(&raw mut context, number))?;
        }
        let uuid = GpuUuid::from_bytes(uuid);
        devices.push(Device { uuid, context, number, release: copies.primary_ctx_release });
    }
    Ok(devices)
}

/// Has all pieces copied, then completes the operation, also if a copy failed.
fn finish(
    copies: &Copies,
    devices: &[Device],
    info: *mut CustomStorageInfo,
    copy: impl FnOnce(&[(&PerDeviceData, &Device)]) -> Result<(), String>,
) -> Moved {
    if info.is_null() {
        return Moved::Failed("the driver gave no device memory to copy".to_owned());
    }
    // SAFETY: the call that set `info` succeeded, so it points to a structure of the driver's that stays until the operation is
    // completed, which happens below. Nobody else uses it.
    let info = unsafe { &*info };
    let count = usize::try_from(info.device_count).unwrap_or(0);
    let pieces = if count == 0 || info.per_device_data.is_null() {
        &[]
    } else {
        // SAFETY: as above: an array of `device_count` elements of the driver's.
        unsafe { slice::from_raw_parts(info.per_device_data, count) }
    };
    let found = pieces.iter().map(|piece| Ok((piece, device_of(copies, devices, piece)?)));
    let copied = found.collect::<Result<Vec<_>, String>>().and_then(|pieces| copy(&pieces));
    // SAFETY: the handle of an operation that was begun and not completed yet.
    let completed = check(unsafe { (copies.complete)(info.handle) });
    match (copied, completed) {
        (Err(detail), _) => Moved::Failed(detail),
        (Ok(()), completed) => completed.into(),
    }
}

/// Copies one piece after the other, each with its GPU's context.
fn in_turn(
    copies: &Copies,
    pieces: &[(&PerDeviceData, &Device)],
    mut copy: impl FnMut(&PerDeviceData, &Device) -> Result<(), String>,
) -> Result<(), String> {
    pieces.iter().try_for_each(|(piece, device)| {
        // SAFETY: the context is held by whoever holds the devices.
        check(unsafe { (copies.ctx_set_current)(device.context) })
            .map_err(|code| format!("the context of {} cannot be used ({code})", device.uuid))?;
        copy(piece, device)
    })
}

fn device_of<'a>(
    copies: &Copies,
    devices: &'a [Device],
    piece: &PerDeviceData,
) -> Result<&'a Device, String> {
    let mut context = ptr::null_mut();
    // SAFETY: the stream is the driver's, valid until the operation is completed; `context` lives across the call.
    check(unsafe { (copies.stream_get_ctx)(piece.stream, &raw mut context) })
        .map_err(|code| format!("the GPU of a piece of device memory cannot be told ({code})"))?;
    devices
        .iter()
        .find(|device| device.context == context)
        .ok_or_else(|| "a piece of device memory is on a GPU that is not ours".to_owned())
}

fn save(copies: &Copies, piece: &PerDeviceData, path: &Path) -> Result<(), String> {
    let wrong = |error: io::Error| format!("cannot write `{}`: {error}", path.display());
    // It is there, with its room.
    let mut file = File::options().write(true).open(path).map_err(wrong)?;
    let mut buffer = vec![0_u8; PIECE.min(piece.size)];
    for (address, length) in pieces_of(piece) {
        let bytes = &mut buffer[..length];
        copy_out(copies, address, bytes)?;
        file.write_all(bytes).map_err(wrong)?;
    }
    Ok(())
}

fn keep(copies: &Copies, piece: &PerDeviceData) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(piece.size).map_err(|error| error.to_string())?;
    bytes.resize(piece.size, 0);
    let mut rest = bytes.as_mut_slice();
    for (address, length) in pieces_of(piece) {
        let (now, later) = rest.split_at_mut(length);
        copy_out(copies, address, now)?;
        rest = later;
    }
    Ok(bytes)
}

fn copy_out(copies: &Copies, address: u64, bytes: &mut [u8]) -> Result<(), String> {
    // SAFETY: the device memory at `address` is as long as `bytes`: it lies inside the piece that the driver mapped (callers go
    // by `pieces_of`). The piece's context is current. The call returns when the bytes are there.
    check(unsafe { (copies.memcpy_dtoh)(bytes.as_mut_ptr().cast(), address, bytes.len()) })
        .map_err(|code| format!("device memory cannot be copied out ({code})"))
}

fn load_file(copies: &Copies, piece: &PerDeviceData, path: &Path) -> Result<(), String> {
    let wrong = |error: io::Error| format!("cannot read `{}`: {error}", path.display());
    let mut file = File::open(path).map_err(wrong)?;
    let stored = file.metadata().map_err(wrong)?.len();
    load(copies, piece, &mut file, stored, &path.display().to_string())
}

fn load(
    copies: &Copies,
    piece: &PerDeviceData,
    source: &mut impl Read,
    stored: u64,
    name: &str,
) -> Result<(), String> {
    if usize::try_from(stored) != Ok(piece.size) {
        return Err(format!("`{name}` has {stored} bytes, the GPU wants {}", piece.size));
    }
    let mut buffer = vec![0_u8; PIECE.min(piece.size)];
    for (address, length) in pieces_of(piece) {
        let bytes = &mut buffer[..length];
        source.read_exact(bytes).map_err(|error| format!("cannot read `{name}`: {error}"))?;
        // SAFETY: as in `copy_out`, the other way round.
        check(unsafe { (copies.memcpy_htod)(address, bytes.as_ptr().cast(), length) })
            .map_err(|code| format!("device memory cannot be copied in ({code})"))?;
    }
    Ok(())
}

/// Addresses and lengths of at most [`PIECE`] bytes that make up `piece`.
fn pieces_of(piece: &PerDeviceData) -> impl Iterator<Item = (u64, usize)> {
    let (start, size) = (piece.dev_ptr, piece.size);
    (0..size.div_ceil(PIECE)).map(move |number| {
        let done = number * PIECE;
        (start + u64::try_from(done).unwrap_or(u64::MAX), PIECE.min(size - done))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_all_and_no_more() {
        for size in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            let piece = PerDeviceData { dev_ptr: 4096, size, stream: ptr::null_mut() };
            let mut next = 4096;
            for (address, length) in pieces_of(&piece) {
                assert_eq!(address, next);
                assert!((1..=PIECE).contains(&length));
                next += u64::try_from(length).unwrap();
            }
            assert_eq!(next, 4096 + u64::try_from(size).unwrap());
        }
    }
}
