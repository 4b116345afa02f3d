//! Process memory as an extent map.
//!
//! An address space is stored in pages of 4 KiB. A snapshot's *map* says for each page where its bytes are: in which
//! object of pages, and which page of it. A child snapshot's map points at the parent's objects wherever a page has not
//! changed; changed pages are packed together into new objects. A page of zeros is a mark in the map and nothing else. A
//! page that is not in the map was not there.
//!
//! # The map is a tree of objects
//!
//! It is cut like a page table: a *leaf* describes 2 MiB of address space (512 pages), a *node* up to 512 children, and
//! four levels of nodes cover 57 bits. Leaves and nodes are objects themselves, so what did not change between two
//! snapshots is shared by id. A child writes the leaves it touched and the few nodes above them; walking a history of ten
//! thousand snapshots visits each distinct leaf once.
//!
//! # Finding what changed
//!
//! A source that knows which pages were written since the parent says so ([`PageSource::written`]), and the others are taken
//! from the parent unseen. Of all that is looked at, each group of four pages is hashed and compared with its
//! *fingerprint* from the parent. Fingerprints are 16 bytes per 16 KiB and are kept in `cache/`, outside of the
//! snapshot: they would otherwise be rewritten with every scattered change and cost more than the changes. Where a
//! fingerprint differs, the parent's pages are read and compared byte by byte, so that exactly the changed pages are
//! stored. Without the cache (another machine, an old parent) every group is compared that way: slower, same result.
//! A group's fingerprint is its leaf hash in the sense of [`crate::id`]: a new group has thereby been hashed already.
//!
//! # Long chains
//!
//! Left alone, the hundredth child of a chain would point into a hundred generations of objects: slow to read, and each
//! old object would be kept alive by its last few pages. Two rules bound that; both rewrite pages as if they had changed
//! (`fragmentation`):
//! * *space*: a child does not use an object for less than a quarter of its pages. What is left of such an object is
//!   rewritten. Three quarters were rewritten before, so this costs at most a third on top, and a store without old
//!   snapshots is at most four times larger than its pages.
//! * *reading*: a leaf does not point into more than 48 objects. When it would, the objects that give it the fewest pages
//!   are merged until 24 are left. A page is so rewritten once for every 24 generations of fragments, then it lies in a
//!   larger one.
//!
//! The work for a child follows what changed, plus one pass over the parent's map (0.02 % of the memory it describes)
//! and over its fingerprints (0.1 %). It never depends on the size of the store.

mod fingerprints;
mod fragmentation;
mod ingest;
mod map;
mod page_cache;
mod read;
mod scan;
mod source;
mod tree;

pub use ingest::IngestStats;
pub use map::{Extent, LeafMap, PagesRef, Target};
pub(crate) use page_cache::PageCache;
pub use read::{MemoryReader, PageSink};
pub use source::{PageSource, Region};
pub(crate) use tree::references;
pub use tree::{MapRoot, Node, parse_node};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Pages of a leaf.
pub const LEAF_PAGES: usize = 512;
/// Bytes of address space that a leaf describes.
pub const LEAF_SPAN: u64 = (LEAF_PAGES * PAGE) as u64;
/// Pages that share a fingerprint.
pub(crate) const GROUP_PAGES: usize = 4;
/// Groups of a leaf.
pub(crate) const LEAF_GROUPS: usize = LEAF_PAGES / GROUP_PAGES;
/// Bytes of a group.
pub(crate) const GROUP: usize = GROUP_PAGES * PAGE;
/// Pages of an object that holds a dense stretch of memory.
pub const DENSE_PAGES: usize = 128;
/// Pages of an object that holds scattered changes. Smaller, because a read usually wants few of them.
pub const SCATTERED_PAGES: usize = 64;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod written_tests;
