//! What an image says about memory: mappings, and which pages are in which pages file.

/// `mm-*.img`: an address space.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Mm {
    /// The program's file, a number of `files.img`.
    #[prost(uint32, required, tag = "12")]
    pub exe_file_id: u32,
    /// The mappings, by address.
    #[prost(message, repeated, tag = "14")]
    pub vmas: Vec<Vma>,
    /// Whether the process may be dumped (as in core dumps).
    #[prost(int32, optional, tag = "15")]
    pub dumpable: Option<i32>,
}

/// A mapping.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Vma {
    /// First address.
    #[prost(uint64, required, tag = "1")]
    pub start: u64,
    /// First address after it.
    #[prost(uint64, required, tag = "2")]
    pub end: u64,
    /// Offset in the file, bytes.
    #[prost(uint64, required, tag = "3")]
    pub pgoff: u64,
    /// For a mapping of a file its number in `files.img`, for shared memory that of its segment.
    #[prost(uint64, required, tag = "4")]
    pub shmid: u64,
    /// `PROT_*`.
    #[prost(uint32, required, tag = "5")]
    pub prot: u32,
    /// `MAP_*`.
    #[prost(uint32, required, tag = "6")]
    pub flags: u32,
    /// What sort of mapping it is: [`Vma::is_file`] and its neighbours.
    #[prost(uint32, required, tag = "7")]
    pub status: u32,
    /// Unused by CRIU.
    #[prost(sint64, required, tag = "8")]
    pub fd: i64,
    /// Advice given with `madvise`, as a bitmap.
    #[prost(uint64, optional, tag = "9")]
    pub madvise: Option<u64>,
    /// Open flags of the file behind it; absent in images of old versions.
    #[prost(uint32, optional, tag = "10")]
    pub file_flags: Option<u32>,
}

const VMA_FILE_PRIVATE: u32 = 1 << 6;
const VMA_FILE_SHARED: u32 = 1 << 7;
const VMA_ANON_SHARED: u32 = 1 << 8;
const VMA_ANON_PRIVATE: u32 = 1 << 9;
const VMA_AREA_SYSVIPC: u32 = 1 << 10;
const VMA_AREA_SOCKET: u32 = 1 << 11;
const VMA_AREA_AIORING: u32 = 1 << 13;
const VMA_AREA_MEMFD: u32 = 1 << 14;

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

    /// Whether it is a private anonymous mapping.
    pub fn is_anonymous_private(&self) -> bool {
        self.status & VMA_ANON_PRIVATE != 0
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

/// The head of a pagemap.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct PagemapHead {
    #[prost(uint32, required, tag = "1")]
    pub(crate) pages_id: u32,
}

/// A run of pages.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PagemapEntry {
    /// Address of the first; for shared memory the offset in its segment.
    #[prost(uint64, required, tag = "1")]
    pub vaddr: u64,
    /// How many, as old versions wrote it: use [`PagemapEntry::pages`].
    #[prost(uint32, required, tag = "2")]
    pub compat_nr_pages: u32,
    /// Old place of a flag.
    #[prost(bool, optional, tag = "3")]
    pub old_in_parent: Option<bool>,
    /// Flags: see [`PagemapEntry::is_present`].
    #[prost(uint32, optional, tag = "4")]
    pub flags: Option<u32>,
    /// How many.
    #[prost(uint64, optional, tag = "5")]
    pub nr_pages: Option<u64>,
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
