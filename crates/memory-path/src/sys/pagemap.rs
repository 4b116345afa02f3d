//! `PAGEMAP_SCAN`: which pages of a range are of which sort, and, if asked, those that match write-protected in the same stroke.

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// Sorts of pages, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Category(pub(crate) u64);

impl Category {
    /// In a mapping that is registered for asynchronous write protection.
    pub(crate) const TRACKED: Self = Self(1 << 0);
    /// Not write-protected: written since it was armed, or never armed.
    pub(crate) const WRITTEN: Self = Self(1 << 1);
    /// A page of a file or of shared memory, not a copy of one's own.
    pub(crate) const FILE: Self = Self(1 << 2);
    /// In memory.
    pub(crate) const PRESENT: Self = Self(1 << 3);
    /// Swapped out, or a marker in place of a page.
    pub(crate) const SWAPPED: Self = Self(1 << 4);
    /// The page of zeros that all share.
    pub(crate) const ZERO: Self = Self(1 << 5);
    /// A guard made by `MADV_GUARD_INSTALL`; unknown to kernels before 6.15.
    pub(crate) const GUARD: Self = Self(1 << 8);

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What is asked of a range. A page matches if it is of all sorts in `all`, of none in `none`, and of one at least in `any`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) all: Category,
    pub(crate) none: Category,
    pub(crate) any: Category,
    /// Write-protect what matches, where the mapping is registered.
    pub(crate) arm: bool,
}

/// Neighbouring pages that match.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    categories: u64,
}

/// What one call has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned {
    /// How many regions were filled in.
    pub(crate) found: usize,
    /// Where it stopped, which need not be the end of the range.
    pub(crate) up_to: u64,
}

const ARM: u64 = 1 << 0;

/// `struct pm_scan_arg`.
#[repr(C)]
struct Arguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const SIZE: u64 = std::mem::size_of::<Arguments>() as u64;
const PAGEMAP_SCAN: Opcode = opcode::read_write::<Arguments>(b'f', 16);

/// Asks about the pages from `start` to `end` of the process whose pagemap this is. The caller must go on from where a call stopped: it
/// may do so with room left in `into`.
pub(crate) fn scan(
    pagemap: BorrowedFd<'_>,
    start: u64,
    end: u64,
    question: Question,
    into: &mut [Region],
) -> Result<Scanned> {
    let mut arguments = Arguments {
        size: SIZE,
        flags: if question.arm { ARM } else { 0 },
        start,
        end,
        walk_end: start,
        vec: into.as_mut_ptr() as u64,
        vec_len: into.len() as u64,
        max_pages: 0,
        category_inverted: question.none.0,
        category_mask: question.all.and(question.none).0,
        category_anyof_mask: question.any.0,
        // Neighbours become one region if they agree in what is returned: this one bit they all have or have not.
        return_mask: Category::TRACKED.0,
    };
    // SAFETY: the opcode is that of `PAGEMAP_SCAN`, whose argument is `Arguments`. The kernel reads and writes that structure,
    // which lives until the call has returned, and writes at most `vec_len` regions to `vec`, which is exactly `into`, borrowed
    // mutably for as long; `Region` has the layout of `struct page_region` and no invalid bit patterns. On a descriptor that is no
    // pagemap the call fails. No safe crate has this call.
    let found = unsafe { ioctl(pagemap, Scan(&mut arguments))? };
    if found > into.len() {
        return Err(Errno::OVERFLOW);
    }
    Ok(Scanned { found, up_to: arguments.walk_end })
}

struct Scan<'a>(&'a mut Arguments);

// SAFETY: `opcode` names a call whose argument is the structure that `as_ptr` points to, valid and exclusively borrowed for as long as
// `self`; the kernel changes it, which `IS_MUTATING` says; the result is the call's return value and reads nothing from memory.
unsafe impl Ioctl for Scan<'_> {
    type Output = usize;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        PAGEMAP_SCAN
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut std::ffi::c_void) -> Result<usize> {
        usize::try_from(output).map_err(|_| Errno::OVERFLOW)
    }
}
