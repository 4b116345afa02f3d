//! The control block in this process's memory, and the memory that holds what was saved from the device.
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::checkpoint::block::{ADDRESS, Block, MAGIC, RESERVATION, RESERVATION_LEN};
use crate::code::{Code, Result};

/// The words of the block, as [`crate::checkpoint::block::at`] lays them out. Other processes read them and write one.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Words {
    magic: AtomicU64,
    owner: AtomicI32,
    helper: AtomicI32,
    /// Number of the state.
    pub(crate) state: AtomicU32,
    pipes: [AtomicI32; 4],
    pad: u32,
    /// Request that is being worked on.
    pub(crate) busy: AtomicU64,
    /// Lock that nobody wants any more.
    pub(crate) cancelled: AtomicU64,
}

/// Maps the block and fills it. There is one in a process, for its whole life.
///
/// # Errors
/// OPERATING_SYSTEM if the address is taken.
pub(crate) fn publish(block: &Block) -> Result<&'static Words> {
    let none = ProtFlags::empty();
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: with FIXED_NOREPLACE nothing that is mapped already is touched.
    unsafe { mmap_anonymous(pointer(RESERVATION), RESERVATION_LEN, none, flags) }
        .map_err(|_| Code::OPERATING_SYSTEM)?;
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the page is inside the reservation that was just made and that nobody else knows.
    let page = unsafe { mmap_anonymous(pointer(ADDRESS), 4096, both, MapFlags::PRIVATE | MapFlags::FIXED) }
        .map_err(|_| Code::OPERATING_SYSTEM)?;
    // SAFETY: a page of zeroes, aligned, larger than Words, which is made of atomics for which zero is a value; it is
    // never unmapped, so the reference may live for ever. Writes of other processes are as those of other threads.
    let words: &'static Words = unsafe { &*page.cast::<Words>() };
    words.owner.store(block.owner, Ordering::Relaxed);
    words.helper.store(block.helper, Ordering::Relaxed);
    words.state.store(block.state, Ordering::Relaxed);
    for (word, fd) in words.pipes.iter().zip(block.pipes) {
        word.store(fd, Ordering::Relaxed);
    }
    words.magic.store(MAGIC, Ordering::Release);
    Ok(words)
}

/// Private memory that holds saved bytes; it goes when dropped.
#[derive(Debug)]
pub(crate) struct Copy {
    start: *mut std::ffi::c_void,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone; its bytes are touched only by the kernel on behalf of the server.
unsafe impl Send for Copy {}

impl Copy {
    /// Maps `bytes`, at the wished address if nothing is there.
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub(crate) fn new(wish: u64, bytes: u64) -> Result<Self> {
        let bytes = usize::try_from(bytes.max(1).next_multiple_of(4096)).map_err(|_| Code::OUT_OF_MEMORY)?;
        let wish = usize::try_from(wish).map_err(|_| Code::OUT_OF_MEMORY)?;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: with FIXED_NOREPLACE nothing that is mapped already is touched.
        let there = unsafe {
            mmap_anonymous(pointer(wish), bytes, both, MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE)
        };
        // SAFETY: a new mapping where the kernel likes: overlaps nothing.
        let start = there.or_else(|_| unsafe { mmap_anonymous(pointer(0), bytes, both, MapFlags::PRIVATE) });
        Ok(Self { start: start.map_err(|_| Code::OUT_OF_MEMORY)?, bytes })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `new`, and nothing points into it.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

fn pointer(address: usize) -> *mut std::ffi::c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::checkpoint::block::at;

    #[test]
    fn the_words_lie_where_callers_read_them() {
        assert_eq!(offset_of!(Words, magic), at::MAGIC);
        assert_eq!(offset_of!(Words, owner), at::OWNER);
        assert_eq!(offset_of!(Words, helper), at::HELPER);
        assert_eq!(offset_of!(Words, state), at::STATE);
        assert_eq!(offset_of!(Words, pipes), at::REQUEST_READ);
        assert_eq!(at::REPLY_WRITE, at::REQUEST_READ + 12);
        assert_eq!(offset_of!(Words, busy), at::BUSY);
        assert_eq!(offset_of!(Words, cancelled), at::CANCELLED);
    }

    #[test]
    fn copies_take_the_wished_address_if_they_can() {
        let first = Copy::new(0x5a00_0000_0000, 5000).unwrap();
        assert_eq!(first.address(), 0x5a00_0000_0000);
        let second = Copy::new(0x5a00_0000_1000, 5000).unwrap();
        assert_ne!(second.address(), 0x5a00_0000_1000);
        drop(first);
        assert_eq!(Copy::new(0x5a00_0000_1000, 1).unwrap().address(), 0x5a00_0000_1000);
    }
}
