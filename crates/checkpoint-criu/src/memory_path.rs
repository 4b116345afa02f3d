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
//! | [`MemoryPath::come_back`] | is not there | say that it can bring what is missing in the images ([`Missing`]) |
//! | [`WayBack::fill`] | stands still, all of it | put those pages where they belong, and begin to watch for writes; then it goes |
//!
//! A pagemap says which pages were left out: those that are "in the parent" ([`crate::images::PagemapEntry::in_parent`]). There are
//! no parent's images. Who stores the memory reads these pages from [`LeftOut`], and stores the pagemap as if they had been there
//! (`image-store`); so a snapshot is the same whichever path its memory took, and any path can bring it back.
//!
//! For a restore it is the caller who leaves pages out of the images, because the caller has them elsewhere: [`Missing`] says which
//! they are and reads them. CRIU has no part in that: to it, these pages were never there.
//!
//! A path that doubts says no, with the reason, at any of these moments ([`crate::CriuError::Memory`]). A dump that fails for that lets
//! the tree run on, and the caller can take [`Plain`] at once. A restore that fails for that has a tree that has never run and must
//! not: it is ended, and the caller can have all pages in the images at once.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::images::DumpStats;

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
    /// Where the images are, as we see it.
    pub images: &'a Path,
    /// What is not in them.
    pub missing: Option<&'a Arc<dyn Missing>>,
    /// Whether the writes of its processes may be followed from their first instruction on.
    pub follow: bool,
}

/// The pages that are not in the images of a restore. All are in private anonymous memory, which is new and zero when CRIU is done.
/// Processes are called by their numbers in the images.
pub trait Missing: Send + Sync + Debug {
    /// Which pages of which processes: whole pages, sorted and apart.
    fn runs(&self) -> &BTreeMap<u32, Vec<Range<u64>>>;

    /// Gives each missing page of a process once, from several threads and in no particular order.
    fn read(&self, pid: u32, to: &dyn TakePages) -> io::Result<()>;

    /// As what the memory of a process is stored that misses some of it.
    fn map(&self, pid: u32) -> Option<MapId>;
}

/// Takes pages that were missing.
pub trait TakePages: Sync {
    /// Whole pages with content.
    fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()>;

    /// Whole pages of zeros.
    fn zeros(&self, address: u64, len: u64) -> io::Result<()>;
}

/// What a path does in the course of one dump.
pub trait WayOut: Send {
    /// Where CRIU finds images that it takes for those of an earlier dump of the tree, so that it leaves out what they have:
    /// a path as CRIU sees it, relative to the images directory. `None`: it writes all pages.
    fn parent(&self) -> Option<PathBuf>;

    /// Everything stands still, and CRIU has written its images. The caller's own work of that moment is done at the same time, on another
    /// thread.
    fn frozen(&mut self) -> Result<(), String>;

    /// The dump is over, and was good; `stats` is what CRIU says of it, if it could be read. The images must be whole now but for the pages
    /// that were left out.
    fn thawed(
        self: Box<Self>,
        images: &Path,
        stats: Option<&DumpStats>,
    ) -> Result<Option<Arc<dyn LeftOut>>, String>;
}

/// The pages that a dump left out of its images, as they were when the tree stood still. Processes are called by their numbers in
/// the images.
pub trait LeftOut: Send + Sync + Debug {
    /// How many bytes were copied while the tree stood still, those that CRIU has written itself left aside.
    fn copied_frozen(&self) -> u64;

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

    fn come_back(&self, restore: &ComingBack<'_>) -> Result<Box<dyn WayBack>, String> {
        match restore.missing {
            Some(_) => Err("pages are missing in the images".to_owned()),
            None => Ok(Box::new(Self)),
        }
    }
}

impl WayOut for Plain {
    fn parent(&self) -> Option<PathBuf> {
        None
    }

    fn frozen(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn thawed(self: Box<Self>, _: &Path, _: Option<&DumpStats>) -> Result<Option<Arc<dyn LeftOut>>, String> {
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
