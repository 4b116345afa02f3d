//! What an image says about memory: mappings, and which pages are in which pages file.

use super::{PagemapEntry, Vma};

const VMA_AREA_REGULAR: u32 = 1 << 0;
const VMA_AREA_HEAP: u32 = 1 << 5;
const VMA_FILE_PRIVATE: u32 = 1 << 6;
const VMA_FILE_SHARED: u32 = 1 << 7;
const VMA_ANON_SHARED: u32 = 1 << 8;
const VMA_ANON_PRIVATE: u32 = 1 << 9;
const VMA_AREA_SYSVIPC: u32 = 1 << 10;
const VMA_AREA_SOCKET: u32 = 1 << 11;
const VMA_AREA_AIORING: u32 = 1 << 13;
const VMA_AREA_MEMFD: u32 = 1 << 14;

const PROT_WRITE: u32 = 2;
const PROT_READ_WRITE: u32 = 1 | PROT_WRITE;
const MAP_PRIVATE: u32 = 0x02;
const MAP_ANONYMOUS: u32 = 0x20;
const MAP_NORESERVE: u32 = 0x4000;
/// Advice that changes nothing about what is in the memory: with or without huge pages, and not for core files.
const HARMLESS_ADVICE: u64 = 1 << 14 | 1 << 15 | 1 << 16;

impl Vma {
    /// The file behind it, as a number of `files.img`: of a private or shared mapping of a file, or of a memfd.
    pub fn file_id(&self) -> Option<u32> {
        if self.is_file() { u32::try_from(self.shmid).ok() } else { None }
    }

    /// Whether a file is behind it.
    pub fn is_file(&self) -> bool {
        self.status & (VMA_FILE_PRIVATE | VMA_FILE_SHARED) != 0
    }

    /// Whether writes to it reach others: a file, or processes that share it.
    pub fn is_shared(&self) -> bool {
        self.status & (VMA_FILE_SHARED | VMA_ANON_SHARED | VMA_AREA_SYSVIPC) != 0
    }

    /// Whether it may be written to.
    pub fn is_writable(&self) -> bool {
        self.prot & PROT_WRITE != 0
    }

    /// Whether it is a private anonymous mapping.
    pub fn is_anonymous_private(&self) -> bool {
        self.status & VMA_ANON_PRIVATE != 0
    }

    /// Whether it is what `malloc` asks the kernel for, and nothing else is known of it: private, anonymous, to be read and
    /// written, not locked, not of huge pages, no stack that grows. Whatever is not known here makes it something else.
    pub fn is_plain(&self) -> bool {
        self.status & !VMA_AREA_HEAP == VMA_AREA_REGULAR | VMA_ANON_PRIVATE
            && self.prot == PROT_READ_WRITE
            && self.flags & !MAP_NORESERVE == MAP_PRIVATE | MAP_ANONYMOUS
            && self.madvise.unwrap_or(0) & !HARMLESS_ADVICE == 0
    }

    /// Whether it is a mapping of a memfd.
    pub fn is_memfd(&self) -> bool {
        self.status & VMA_AREA_MEMFD != 0
    }

    /// Whether it is a packet socket's ring.
    pub fn is_socket(&self) -> bool {
        self.status & VMA_AREA_SOCKET != 0
    }

    /// Whether it is a ring of asynchronous I/O.
    pub fn is_aio_ring(&self) -> bool {
        self.status & VMA_AREA_AIORING != 0
    }

    /// Its length in bytes; 0 for one that makes no sense.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `pagemap-*.img`: which pages are in a pages file, in its order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pagemap {
    /// The number in the name of `pages-*.img`.
    pub pages_id: u32,
    /// Runs of pages.
    pub entries: Vec<PagemapEntry>,
}

const PE_PARENT: u32 = 1 << 0;
const PE_LAZY: u32 = 1 << 1;
pub(super) const PE_PRESENT: u32 = 1 << 2;

impl PagemapEntry {
    /// How many pages.
    pub fn pages(&self) -> u64 {
        self.nr_pages.unwrap_or(u64::from(self.compat_nr_pages))
    }

    /// Whether the pages are in the pages file.
    pub fn is_present(&self) -> bool {
        match self.flags {
            Some(flags) => flags & PE_PRESENT != 0,
            None => !self.in_parent(),
        }
    }

    /// Whether they are in the parent's images instead.
    pub fn in_parent(&self) -> bool {
        self.flags.map_or(self.old_in_parent.unwrap_or(false), |flags| flags & PE_PARENT != 0)
    }

    /// Whether they may be fetched later.
    pub fn is_lazy(&self) -> bool {
        self.flags.is_some_and(|flags| flags & PE_LAZY != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_through_and_through_is_plain() {
        let plain = Vma { status: 513, prot: 3, flags: 0x22, ..Vma::default() };
        let still = [
            plain,
            Vma { status: 513 | VMA_AREA_HEAP, ..plain },
            Vma { flags: 0x4022, ..plain },
            Vma { madvise: Some(1 << 14), ..plain },
        ];
        assert!(still.iter().all(Vma::is_plain));
        let not = [
            Vma { status: 513 | 1 << 1, ..plain },
            Vma { status: 1 | VMA_ANON_SHARED, ..plain },
            Vma { status: 1 | VMA_FILE_PRIVATE, ..plain },
            // A part of another one that nobody may touch (`MADV_GUARD_INSTALL`).
            Vma { status: 513 | 1 << 16, ..plain },
            Vma { status: 513 | 1 << 31, ..plain },
            Vma { status: VMA_ANON_PRIVATE, ..plain },
            Vma { prot: 1, ..plain },
            Vma { prot: 0, ..plain },
            Vma { prot: 7, ..plain },
            // Shared, growing down, locked, of huge pages.
            Vma { flags: 0x21, ..plain },
            Vma { flags: 0x122, ..plain },
            Vma { flags: 0x2022, ..plain },
            Vma { flags: 0x4_0022, ..plain },
            // Not for children; empty for children.
            Vma { madvise: Some(1 << 10), ..plain },
            Vma { madvise: Some(1 << 18), ..plain },
        ];
        for vma in not {
            assert!(!vma.is_plain(), "{vma:?}");
        }
    }
}
