//! A piece of the server's own memory that plays video memory.
//!
//! Streams and kernels of one process touch it at the same time without locks, as they do on a device: what a program
//! that races gets is its own affair. So no Rust reference to the bytes ever exists: all access is by raw copies and
//! single atomic words. The memory is mapped for each region and goes back to the system when the region is dropped.
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::code::{Code, Result};

/// Memory that is mapped, and unmapped when this is dropped.
#[derive(Debug)]
pub struct Region {
    start: *mut u8,
    bytes: usize,
    mapped: usize,
}

// SAFETY: the mapping belongs to the region until it is dropped, and all access is by raw copies or atomics (see module).
unsafe impl Send for Region {}
// SAFETY: as for Send.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `new` and nothing points into it any more.
        let _unmapped = unsafe { munmap(self.start.cast(), self.mapped) };
    }
}

impl Region {
    /// Zeroed memory; pages come into being as they are touched.
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub fn new(bytes: u64) -> Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| Code::OUT_OF_MEMORY)?;
        let mapped = bytes.max(1).checked_next_multiple_of(4096).ok_or(Code::OUT_OF_MEMORY)?;
        // SAFETY: a new mapping where the kernel likes: overlaps nothing.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(|_| Code::OUT_OF_MEMORY)?;
        // Large pages where there are some: filling gigabytes is several times faster. Without them all is as well.
        // SAFETY: the mapping made above; the advice changes no bytes.
        let _advised = unsafe { madvise(start, mapped, Advice::LinuxHugepage) };
        Ok(Self { start: start.cast(), bytes, mapped })
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.bytes as u64
    }

    /// Has it no bytes?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The pointer to `bytes` from `offset` on, if they are all inside.
    fn at(&self, offset: u64, bytes: usize) -> Result<*mut u8> {
        let offset = usize::try_from(offset).map_err(|_| Code::ILLEGAL_ADDRESS)?;
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(Code::ILLEGAL_ADDRESS);
        }
        // SAFETY: checked to be inside the mapping.
        Ok(unsafe { self.start.add(offset) })
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS past the end.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let from = self.at(offset, into.len())?;
        // SAFETY: `from` is good for that many bytes and `into` is ours alone.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS past the end.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        let into = self.at(offset, from.len())?;
        // SAFETY: `into` is good for that many bytes; no reference to them exists (see the module).
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
        Ok(())
    }

    /// Copies within or between regions; ranges may overlap.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS past an end.
    pub fn copy_from(&self, offset: u64, other: &Self, other_offset: u64, bytes: u64) -> Result<()> {
        let bytes = usize::try_from(bytes).map_err(|_| Code::ILLEGAL_ADDRESS)?;
        let into = self.at(offset, bytes)?;
        let from = other.at(other_offset, bytes)?;
        // SAFETY: both are good for that many bytes, and `copy` allows overlap.
        unsafe { std::ptr::copy(from, into, bytes) };
        Ok(())
    }

    /// Repeats a pattern of 1, 2 or 4 bytes.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS past the end.
    pub fn fill(&self, offset: u64, bytes: u64, pattern: &[u8]) -> Result<()> {
        let bytes = usize::try_from(bytes).map_err(|_| Code::ILLEGAL_ADDRESS)?;
        let into = self.at(offset, bytes)?;
        let (Some(first), false) = (pattern.first(), bytes == 0) else { return Ok(()) };
        if pattern.iter().all(|byte| byte == first) {
            // SAFETY: good for that many bytes.
            unsafe { std::ptr::write_bytes(into, *first, bytes) };
            return Ok(());
        }
        let mut done = pattern.len().min(bytes);
        self.write(offset, &pattern[..done])?;
        // Each round doubles what is there.
        while done < bytes {
            let next = done.min(bytes - done);
            // SAFETY: both halves are inside `bytes`, and they do not overlap since next <= done.
            unsafe { std::ptr::copy_nonoverlapping(into, into.add(done), next) };
            done += next;
        }
        Ok(())
    }

    /// Reads another process's memory into this one.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS if either side is not there.
    pub fn fill_from_process(&self, offset: u64, pid: i32, address: u64, bytes: u64) -> Result<()> {
        let length = usize::try_from(bytes).map_err(|_| Code::ILLEGAL_ADDRESS)?;
        let into = self.at(offset, length)?;
        let mut done = 0;
        while done < length {
            let step = (length - done).min(1 << 30);
            // SAFETY: inside the mapping. The kernel writes there; nothing reads through another reference (see module).
            let slice = unsafe { std::slice::from_raw_parts_mut(into.add(done), step) };
            let base = usize::try_from(address).map_err(|_| Code::ILLEGAL_ADDRESS)?.wrapping_add(done);
            match process_vm_readv(
                Pid::from_raw(pid),
                &mut [IoSliceMut::new(slice)],
                &[RemoteIoVec { base, len: step }],
            ) {
                Ok(moved) if moved > 0 => done += moved,
                _ => return Err(Code::ILLEGAL_ADDRESS),
            }
        }
        Ok(())
    }

    /// Writes into another process's memory.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS if either side is not there.
    pub fn copy_to_process(&self, offset: u64, pid: i32, address: u64, bytes: u64) -> Result<()> {
        let length = usize::try_from(bytes).map_err(|_| Code::ILLEGAL_ADDRESS)?;
        let from = self.at(offset, length)?;
        let mut done = 0;
        while done < length {
            let step = (length - done).min(1 << 30);
            // SAFETY: inside the mapping; the kernel only reads it.
            let slice = unsafe { std::slice::from_raw_parts(from.add(done), step) };
            let base = usize::try_from(address).map_err(|_| Code::ILLEGAL_ADDRESS)?.wrapping_add(done);
            match process_vm_writev(
                Pid::from_raw(pid),
                &[IoSlice::new(slice)],
                &[RemoteIoVec { base, len: step }],
            ) {
                Ok(moved) if moved > 0 => done += moved,
                _ => return Err(Code::ILLEGAL_ADDRESS),
            }
        }
        Ok(())
    }

    /// Loads a word of 1, 2, 4 or 8 bytes, for kernels.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS past the end, MISALIGNED_ADDRESS.
    pub fn load(&self, offset: u64, size: usize) -> Result<u64> {
        let at = self.word(offset, size)?;
        // SAFETY: `word` has checked that an aligned word of this size is inside; all access to it is atomic or a raw copy.
        Ok(unsafe {
            match size {
                1 => u64::from(AtomicU8::from_ptr(at).load(Ordering::Relaxed)),
                2 => u64::from(AtomicU16::from_ptr(at.cast()).load(Ordering::Relaxed)),
                4 => u64::from(AtomicU32::from_ptr(at.cast()).load(Ordering::Relaxed)),
                _ => AtomicU64::from_ptr(at.cast()).load(Ordering::Relaxed),
            }
        })
    }

    /// Stores the low bytes of `value` as a word of 1, 2, 4 or 8 bytes, for kernels.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS past the end, MISALIGNED_ADDRESS.
    #[expect(clippy::cast_possible_truncation, reason = "the low bytes are what is stored")]
    pub fn store(&self, offset: u64, size: usize, value: u64) -> Result<()> {
        let at = self.word(offset, size)?;
        // SAFETY: as in `load`.
        unsafe {
            match size {
                1 => AtomicU8::from_ptr(at).store(value as u8, Ordering::Relaxed),
                2 => AtomicU16::from_ptr(at.cast()).store(value as u16, Ordering::Relaxed),
                4 => AtomicU32::from_ptr(at.cast()).store(value as u32, Ordering::Relaxed),
                _ => AtomicU64::from_ptr(at.cast()).store(value, Ordering::Relaxed),
            }
        }
        Ok(())
    }

    /// Changes a word of 4 or 8 bytes in one step and gives what was there, for `atom` and `red`.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS past the end, MISALIGNED_ADDRESS.
    #[expect(clippy::cast_possible_truncation, reason = "a word of four bytes has no more")]
    pub fn update(&self, offset: u64, size: usize, change: impl Fn(u64) -> u64) -> Result<u64> {
        let at = self.word(offset, size)?;
        // SAFETY: as in `load`.
        Ok(unsafe {
            if size == 4 {
                let word = AtomicU32::from_ptr(at.cast());
                let old = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| {
                    Some(change(u64::from(old)) as u32)
                });
                u64::from(old.unwrap_or_default())
            } else {
                let word = AtomicU64::from_ptr(at.cast());
                word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(change(old)))
                    .unwrap_or_default()
            }
        })
    }

    fn word(&self, offset: u64, size: usize) -> Result<*mut u8> {
        let at = self.at(offset, size)?;
        if !matches!(size, 1 | 2 | 4 | 8) {
            return Err(Code::INVALID_VALUE);
        }
        if (at as usize).is_multiple_of(size) { Ok(at) } else { Err(Code::MISALIGNED_ADDRESS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_in_and_out() {
        let region = Region::new(10_000).unwrap();
        region.fill(1, 4097, &[1, 2, 3, 4]).unwrap();
        let mut back = vec![9; 4099];
        region.read(0, &mut back).unwrap();
        assert_eq!(&back[..6], &[0, 1, 2, 3, 4, 1]);
        assert_eq!(&back[4096..], &[4, 1, 0]);
        region.copy_from(2, &region, 1, 4).unwrap();
        region.read(0, &mut back[..7]).unwrap();
        assert_eq!(&back[..7], &[0, 1, 1, 2, 3, 4, 2]);
        assert_eq!(region.read(9_999, &mut back[..2]), Err(Code::ILLEGAL_ADDRESS));
        assert_eq!(region.fill(u64::MAX, 2, &[0]), Err(Code::ILLEGAL_ADDRESS));
    }

    #[test]
    fn words() {
        let region = Region::new(64).unwrap();
        region.store(8, 4, 0x1_2345_6789).unwrap();
        assert_eq!(region.load(8, 8), Ok(0x2345_6789));
        assert_eq!(region.load(10, 4), Err(Code::MISALIGNED_ADDRESS));
        assert_eq!(region.load(64, 1), Err(Code::ILLEGAL_ADDRESS));
        assert_eq!(region.update(8, 4, |old| old + 1), Ok(0x2345_6789));
        assert_eq!(region.load(8, 4), Ok(0x2345_678a));
    }

    #[test]
    fn between_processes() {
        let region = Region::new(100).unwrap();
        let mine = [7u8; 50];
        let pid = nix::unistd::getpid().as_raw();
        region.fill_from_process(10, pid, mine.as_ptr() as u64, 50).unwrap();
        assert_eq!(region.load(59, 1), Ok(7));
        assert_eq!(region.fill_from_process(0, pid, 16, 50), Err(Code::ILLEGAL_ADDRESS));
    }
}
