//! How the memory of a tree leaves it, and how it comes back.
//!
//! CRIU does both by itself, and [`Plain`] leaves it to CRIU: a dump writes every page while the tree stands still, a restore
//! reads every page before the first instruction. So the pause and the wait grow with the memory. A path of another sort makes
//! them grow with what was written, or is touched. It has a say at each moment at which that can be done, in this order:
//!
//! | moment | the tree | what a path may do then |
//! |---|---|---|
//! | [`MemoryPath::leave`] | runs | copy ahead; say which images CRIU shall take for a parent's, and so which pages CRIU leaves out |
//! | [`WayOut::frozen`] | stands still, CRIU is done with it | copy what was written since, and begin to watch for writes anew |
//! | [`WayOut::thawed`] | runs, or stands as the dump was told to leave it | check; tidy the images; answer for what was left out |
//! | [`LeftOut`] | does not matter any more | give the pages that were left out to whoever stores them |
//! | [`MemoryPath::come_back`] | is not there | take large runs of pages out of the images |
//! | [`WayBack::fill`] | stands still, all of it | put those pages where they belong, or map them; then it goes |
//!
//! A pagemap says which pages were left out: those that are "in the parent" ([`crate::images::PagemapEntry::in_parent`]). There are
//! no parent's images. Who stores the memory reads these pages from [`LeftOut`], and stores the pagemap as if they had been there
//! (`image-store`); so a snapshot is the same whichever path its memory took, and any path can bring it back.
//!
//! A path that doubts says no, with the reason, at any of these moments. A dump that fails for that lets the tree run on, and the
//! caller can take [`Plain`] at once.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A way for memory. It serves all dumps and restores, so what belongs to one of them is in what it returns.
pub trait MemoryPath: Send + Sync + Debug {
    /// A dump is about to begin.
    fn leave(&self, dump: &Leaving<'_>) -> Result<Box<dyn WayOut>, String>;

    /// A restore is about to begin.
    fn come_back(&self, restore: &ComingBack<'_>) -> Result<Box<dyn WayBack>, String>;
}

/// A dump, for a path.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// The root of the tree, as we see it.
    pub tree: i32,
    /// Where the images will be, as we see it. Empty still.
    pub images: &'a Path,
}

/// A restore, for a path.
#[derive(Clone, Copy, Debug)]
pub struct ComingBack<'a> {
    /// Where the images are, as we see it; the caller's own, to be changed at will.
    pub images: &'a Path,
}

/// What a path does in the course of one dump.
pub trait WayOut {
    /// Where CRIU finds images that it takes for those of an earlier dump of the tree, so that it leaves out what they have:
    /// a path as CRIU sees it, relative to the images directory. `None`: it writes all pages.
    fn parent(&self) -> Option<PathBuf>;

    /// Everything stands still, and CRIU has written its images.
    fn frozen(&mut self) -> Result<(), String>;

    /// The dump is over, and was good. The images must be whole now but for the pages that were left out.
    fn thawed(self: Box<Self>, images: &Path) -> Result<Option<Arc<dyn LeftOut>>, String>;
}

/// The pages that a dump left out of its images, as they were when the tree stood still. Processes are called by their numbers in
/// the images.
pub trait LeftOut: Send + Sync + Debug {
    /// Fills `buffer` with what was at `address`. Only asked for whole pages that were left out.
    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// What may have been written since the memory of `pid` was stored as `map`. `None` if that is not known, as for any map that
    /// [`LeftOut::stored`] was not told.
    fn written(&self, pid: u32, map: &MapId) -> Option<Vec<Range<u64>>>;

    /// The memory of `pid`, as it was in this dump, is stored as `map`.
    fn stored(&self, pid: u32, map: &MapId);
}

/// The name of stored memory, which is made from its content: the same name, the same memory.
pub type MapId = [u8; 32];

/// What a path does in the course of one restore.
pub trait WayBack {
    /// Whether pages are missing in the images, so that the processes must stand still when CRIU has made them.
    fn has_more(&self) -> bool;

    /// The processes are there and stand still; `root` is the first of them, as we see it.
    fn fill(self: Box<Self>, root: i32) -> Result<(), String>;
}

/// All pages go through CRIU's images, both ways.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl MemoryPath for Plain {
    fn leave(&self, _: &Leaving<'_>) -> Result<Box<dyn WayOut>, String> {
        Ok(Box::new(Self))
    }

    fn come_back(&self, _: &ComingBack<'_>) -> Result<Box<dyn WayBack>, String> {
        Ok(Box::new(Self))
    }
}

impl WayOut for Plain {
    fn parent(&self) -> Option<PathBuf> {
        None
    }

    fn frozen(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn thawed(self: Box<Self>, _: &Path) -> Result<Option<Arc<dyn LeftOut>>, String> {
        Ok(None)
    }
}

impl WayBack for Plain {
    fn has_more(&self) -> bool {
        false
    }

    fn fill(self: Box<Self>, _: i32) -> Result<(), String> {
        Ok(())
    }
}
