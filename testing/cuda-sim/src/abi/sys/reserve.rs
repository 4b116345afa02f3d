//! Mappings in the client's address space.
//!
//! A device address is a reserved, inaccessible range: unique in the process, and a touch by the CPU faults as it would
//! with a real driver. Callers hand in only ranges that they got from here and that nothing else uses.
use std::fs::File;
use std::os::fd::BorrowedFd;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::code::{Code, Result};

/// Reserves `bytes` (a multiple of the page size) at an address of the kernel's choice, aligned to `align` (a power of two
/// of at least a page).
pub(crate) fn reserve(bytes: u64, align: u64) -> Result<u64> {
    let room = size(bytes.checked_add(align).ok_or(Code::OUT_OF_MEMORY)?)?;
    // SAFETY: a new mapping where the kernel likes: overlaps nothing.
    let start = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            room,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }
    .map_err(|_| Code::OUT_OF_MEMORY)? as u64;
    let aligned = start.next_multiple_of(align);
    trim(start, aligned - start);
    trim(aligned + bytes, start + room as u64 - (aligned + bytes));
    Ok(aligned)
}

/// Gives a range back to the kernel.
pub(crate) fn release(address: u64, bytes: u64) {
    trim(address, bytes);
}

/// Anonymous memory, readable and writable, at an address of the kernel's choice.
pub(crate) fn anonymous(bytes: u64) -> Result<u64> {
    let length = size(bytes)?;
    // SAFETY: a new mapping where the kernel likes: overlaps nothing.
    let start = unsafe {
        mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }
    .map_err(|_| Code::OUT_OF_MEMORY)?;
    Ok(start as u64)
}

/// Maps a file over a reserved range, at the offset that equals the address, as the driver does for managed memory.
pub(crate) fn map_file_at(address: u64, bytes: u64, file: &File) -> Result<()> {
    let length = size(bytes)?;
    // SAFETY: the range is one of our own reservations, in which nothing lives.
    unsafe {
        mmap(
            pointer(address),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::FIXED,
            file,
            address,
        )
    }
    .map(drop)
    .map_err(|_| Code::OUT_OF_MEMORY)
}

/// Maps a device node somewhere, for the evidence in `/proc/PID/maps`; what cannot be mapped is not.
pub(crate) fn map_evidence(node: BorrowedFd<'_>, bytes: u64) -> Option<u64> {
    let length = size(bytes).ok()?;
    // SAFETY: a new mapping where the kernel likes: overlaps nothing; nobody touches its bytes.
    let start = unsafe {
        mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, node, 0)
    }
    .ok()?;
    Some(start as u64)
}

fn trim(address: u64, bytes: u64) {
    let Ok(length) = size(bytes) else { return };
    if length > 0 {
        // SAFETY: a range that we mapped ourselves and that no Rust reference points into.
        let _unmapped = unsafe { munmap(pointer(address), length) };
    }
}

fn pointer(address: u64) -> *mut std::ffi::c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}

fn size(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| Code::OUT_OF_MEMORY)
}
