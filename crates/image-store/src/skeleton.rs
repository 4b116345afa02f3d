//! A snapshot's images without most of its memory, and that memory, straight from the store.
//!
//! Of what a restore waits for, most is memory that is decompressed, written to a file, and read from there once more by CRIU. A
//! *skeleton* saves the way through the file: images that have no trace of the large plain mappings' pages
//! ([`plain_memory`](crate::plain_memory)), from which CRIU makes processes that stand still; and [`MissingPages`], which gives those
//! pages to whoever puts them into these processes, before they run.
//!
//! What is missing and what is in the images make the whole, page by page: the numbers are compared before anything is
//! laid out, the images' part is counted while it is, and the rest is counted by whoever fills it in. A snapshot that cannot be taken apart
//! like that, for whatever reason, has no skeleton, and is laid out as a whole.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use cas_core::Store;
use cas_core::memory::{MapRoot, PageSink, Region};
use cas_core::progress::{Progress, Silent};
use checkpoint_criu::images::Images;
use checkpoint_criu::{MapId, Missing, TakePages};
use manifest::Snapshot;
use manifest::snapshot::MemorySection;

use crate::error::Result;
use crate::held::{begins_with, held_images};
use crate::materialise::lay_out_without;
use crate::pages::{PagesLayout, space_of};
use crate::plain_memory::{LARGE, plain_memory};

/// What a restore can do without, found out and not laid out yet.
#[derive(Debug)]
pub struct Skeleton {
    missing: MissingPages,
}

/// The pages that are not in the images of a skeleton.
#[derive(Clone, Debug)]
pub struct MissingPages {
    store: Arc<Store>,
    runs: BTreeMap<u32, Vec<Range<u64>>>,
    maps: BTreeMap<u32, MapRoot>,
}

impl Skeleton {
    /// Finds out what of `snapshot` need not be in the images. `None` if that is nothing, or too little to be worth it. `commit` is for
    /// errors.
    pub fn of(store: &Arc<Store>, commit: &str, snapshot: &Snapshot) -> Result<Option<Self>> {
        Self::of_at_least(LARGE, store, commit, snapshot)
    }

    pub(crate) fn of_at_least(
        bytes: u64,
        store: &Arc<Store>,
        commit: &str,
        snapshot: &Snapshot,
    ) -> Result<Option<Self>> {
        let wanted = |name: &str| name == "pstree.img" || begins_with(name, &["core-", "mm-", "pagemap-"]);
        let Ok(images) = held_images(store, commit, snapshot, wanted) else {
            // Whatever is wrong with them, laying them out says it better.
            return Ok(None);
        };
        let memory = snapshot.get::<MemorySection>()?.unwrap_or_default();
        let maps: BTreeMap<String, MapRoot> =
            memory.spaces.into_iter().map(|space| (space.name, space.map.into())).collect();
        let mut missing =
            MissingPages { store: Arc::clone(store), runs: BTreeMap::new(), maps: BTreeMap::new() };
        for (pid, ranges) in plain_memory(&images) {
            let Some((map, layout)) = memory_of(&images, pid, &maps) else { continue };
            let runs = within(&layout.regions(), &ranges);
            if !runs.is_empty() {
                missing.runs.insert(pid, runs);
                missing.maps.insert(pid, map);
            }
        }
        Ok((missing.bytes() >= bytes).then_some(Self { missing }))
    }

    /// How many bytes of memory are not in the images.
    pub fn missing_bytes(&self) -> u64 {
        self.missing.bytes()
    }

    /// Writes the images to `dir`, which must be empty, and gives what is missing in them.
    pub fn lay_out(
        self,
        commit: &str,
        snapshot: &Snapshot,
        dir: &Path,
        progress: &dyn Progress,
    ) -> Result<MissingPages> {
        let Self { missing } = self;
        lay_out_without(&missing.store, commit, snapshot, dir, &missing.runs, progress)?;
        Ok(missing)
    }
}

/// The map of a process and where its pages are, if the two belong together and it has a pages file of its own.
fn memory_of(images: &Images, pid: u32, maps: &BTreeMap<String, MapRoot>) -> Option<(MapRoot, PagesLayout)> {
    let map = *maps.get(&space_of(pid))?;
    let layout = PagesLayout::of(&images.pagemap(pid).ok()?).ok()?;
    (layout.bytes() == map.bytes()).then_some((map, layout))
}

/// The parts of `regions` that lie in `ranges`, in as few pieces as can be; both are sorted and do not overlap.
fn within(regions: &[Region], ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    for region in regions {
        let (start, end) = (region.start, region.start + region.len);
        let first = ranges.partition_point(|range| range.end <= start);
        for range in ranges.iter().skip(first).take_while(|range| range.start < end) {
            let part = range.start.max(start)..range.end.min(end);
            match parts.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => parts.push(part),
            }
        }
    }
    parts
}

impl MissingPages {
    /// Sees that they can be read, before something is ended that could not be brought back without them. Costs a fraction of
    /// what reading them does.
    pub fn check(&self) -> Result<()> {
        for (pid, map) in &self.maps {
            self.store.check_memory_in(map, &self.regions(*pid))?;
        }
        Ok(())
    }

    fn regions(&self, pid: u32) -> Vec<Region> {
        let runs = self.runs.get(&pid).into_iter().flatten();
        runs.map(|run| Region { start: run.start, len: run.end - run.start }).collect()
    }

    /// How many bytes they are.
    pub fn bytes(&self) -> u64 {
        self.runs.values().flatten().map(|run| run.end - run.start).sum()
    }
}

impl Missing for MissingPages {
    fn runs(&self) -> &BTreeMap<u32, Vec<Range<u64>>> {
        &self.runs
    }

    fn read(&self, pid: u32, to: &dyn TakePages) -> io::Result<()> {
        let Some(map) = self.maps.get(&pid) else {
            return Err(io::Error::other(format!("no pages of process {pid} are missing")));
        };
        self.store.read_memory_in(map, &self.regions(pid), &Handed(to), &Silent).map_err(io::Error::other)
    }

    fn map(&self, pid: u32) -> Option<MapId> {
        let map = self.maps.get(&pid)?;
        // The next snapshot shares nothing with pages that are not here: then it has to have them all.
        let here = !self.store.is_beyond(map, &self.regions(pid)).unwrap_or(true);
        here.then_some(*map.id.as_bytes())
    }
}

/// Hands pages of the store on.
struct Handed<'a>(&'a dyn TakePages);

impl PageSink for Handed<'_> {
    fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.pages(address, bytes)
    }

    fn zeros(&self, address: u64, len: u64) -> io::Result<()> {
        self.0.zeros(address, len)
    }
}
