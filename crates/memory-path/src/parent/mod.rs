//! How CRIU is led to leave the pages to us.
//!
//! CRIU can make a dump that holds only what changed since an earlier one, its *parent*: pages that did not change become entries that say
//! "in the parent". It asks the kernel for changed pages by a mechanism (soft-dirty) that most kernels are built without. Two things
//! make it believe that nothing ever changes and that the parent has everything:
//!
//! 1. **The notes about the kernel** (`criu.kdat`, which CRIU writes once and reads at each start) say whether the kernel can tell
//!    changed pages. One byte is set ([`believes_in_dirty_pages`]). Then CRIU looks for a mark that this kernel never makes, and finds
//!    every page unchanged.
//! 2. **A parent that claims every page** of each task that is followed ([`write_parent`]): one entry as long as the address space.
//!
//! What comes of a dump so is everything but memory, and a list of the pages that were there at the freeze. [`Plan`] reads that list;
//! the pages come from the sink, but for those that CRIU has written itself (what the program may not read). Whoever stores the dump puts both
//! together; so do the tests, to see that any CRIU restores it.
//!
//! The parent and the notes depend on the inside of one build of CRIU. So CRIU itself is asked whether the byte means what we take it
//! for, before and after; counts are compared after every dump; no page may be missing. Every answer but the expected one is a
//! [`Doubt`], and then the dump is thrown away and a plain one is taken, with the notes as CRIU wrote them.

mod assemble;
mod claim;
mod doubt;
mod notes;
mod wire;

pub use assemble::{Counts, Plan};
pub use claim::write_parent;
pub use doubt::Doubt;
pub use notes::believes_in_dirty_pages;
