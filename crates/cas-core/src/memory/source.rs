//! Where memory that is stored comes from.

use std::io;

/// A stretch of an address space whose pages are all there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// First address, a multiple of 4096.
    pub start: u64,
    /// Bytes, a multiple of 4096.
    pub len: u64,
}

/// Memory that shall be stored. Read by several threads at once.
pub trait PageSource: Send + Sync {
    /// What is there: sorted, not overlapping.
    fn regions(&self) -> Vec<Region>;
    /// Fills `buffer` with what is at `address`. Only asked for what [`PageSource::regions`] lists.
    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// What may have been written since the parent was made: sorted, not overlapping. Everything else that is there is taken
    /// from the parent without being read, hashed or compared, so who says something here answers for it; what the parent does
    /// not have is read all the same. `None`: that is not known, and each page is looked at.
    fn written(&self) -> Option<Vec<Region>> {
        None
    }
}
