//! Reading memory back: a range here and there, or all of it, or much of it, with every core.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use super::map::{Extent, LeafMap, Target};
use super::page_cache::PageCache;
use super::tree::{self, MapRoot};
use super::{LEAF_PAGES, LEAF_SPAN, PAGE, Region};
use crate::error::{Result, StoreError};
use crate::id::{Kind, ObjectId};
use crate::parallel;
use crate::progress::{Progress, Task};
use crate::store::{ReadContext, Store};

/// Leaves that a reader remembers.
const LEAVES_KEPT: usize = 256;
/// Objects of pages that a reader remembers.
const OBJECTS_KEPT: usize = 8;

/// Takes memory that is being read, from several threads at once and in no particular order.
pub trait PageSink: Sync {
    /// Whole pages with content.
    fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()>;
    /// Whole pages of zeros.
    fn zeros(&self, address: u64, len: u64) -> io::Result<()>;
}

/// Reads ranges of a stored address space. Not shared between threads: each has its own caches.
#[derive(Debug)]
pub struct MemoryReader {
    store: Arc<Store>,
    root: MapRoot,
    context: ReadContext,
    leaves: HashMap<u64, Option<Arc<LeafMap>>>,
    cache: PageCache,
}

impl MemoryReader {
    /// Starts reading a map.
    pub fn new(store: Arc<Store>, root: MapRoot) -> Result<Self> {
        let context = ReadContext::new()?;
        Ok(Self { store, root, context, leaves: HashMap::new(), cache: PageCache::new(OBJECTS_KEPT) })
    }

    /// Fills `buffer` with the bytes at `address`. All pages of the range must be in the map.
    pub fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = address + done as u64;
            let offset = usize::try_from(at % LEAF_SPAN).unwrap_or_default();
            let wanted = (buffer.len() - done).min(LEAF_PAGES * PAGE - offset);
            let leaf = self.leaf(at / LEAF_SPAN)?.ok_or_else(|| absent(at))?;
            let target = &mut buffer[done..done + wanted];
            self.read_leaf(&leaf, offset, target)
                .and_then(|copied| if copied == wanted { Ok(()) } else { Err(absent(at)) })?;
            done += wanted;
        }
        Ok(())
    }

    /// Copies what a leaf has of `offset..offset + target.len()`; returns how many bytes that were.
    fn read_leaf(&mut self, leaf: &LeafMap, offset: usize, target: &mut [u8]) -> Result<usize> {
        let mut copied = 0;
        for extent in &leaf.extents {
            let start = usize::from(extent.first) * PAGE;
            let end = start + usize::from(extent.pages) * PAGE;
            let (from, to) = (start.max(offset), end.min(offset + target.len()));
            if from >= to {
                continue;
            }
            let out = &mut target[from - offset..to - offset];
            match extent.target {
                Target::Zero => out.fill(0),
                Target::Stored { object, page } => {
                    let object = &leaf.objects[usize::from(object)];
                    let pages = self.cache.pages(&self.store, object, &mut self.context)?;
                    let at = usize::from(page) * PAGE + from - start;
                    out.copy_from_slice(&pages[at..at + (to - from)]);
                }
            }
            copied += to - from;
        }
        Ok(copied)
    }

    fn leaf(&mut self, number: u64) -> Result<Option<Arc<LeafMap>>> {
        if let Some(leaf) = self.leaves.get(&number) {
            return Ok(leaf.clone());
        }
        let id = tree::find_leaf(&self.store, &self.root.id, number * LEAF_SPAN, &mut self.context)?;
        let leaf = match id {
            None => None,
            Some(id) => {
                Some(Arc::new(tree::load_leaf(&self.store, &id, &mut self.context, &mut Vec::new())?))
            }
        };
        if self.leaves.len() >= LEAVES_KEPT {
            self.leaves.clear();
        }
        self.leaves.insert(number, leaf.clone());
        Ok(leaf)
    }
}

fn absent(address: u64) -> StoreError {
    StoreError::Invalid { what: format!("memory at {address:#x} is not in this snapshot") }
}

impl Store {
    /// Reads a whole address space into `sink`, with all cores.
    pub fn read_memory(&self, root: &MapRoot, sink: &dyn PageSink, progress: &dyn Progress) -> Result<()> {
        self.read_pages(root, root.bytes(), &[EVERYTHING], sink, progress)
    }

    /// Reads the pages of an address space that lie in `regions`, which are sorted and do not overlap, into `sink`, with all cores.
    /// What is not in the map is passed over.
    pub fn read_memory_in(
        &self,
        root: &MapRoot,
        regions: &[Region],
        sink: &dyn PageSink,
        progress: &dyn Progress,
    ) -> Result<()> {
        check_regions(regions)?;
        let bytes = regions.iter().fold(0_u64, |bytes, region| bytes.saturating_add(region.len));
        self.read_pages(root, bytes, regions, sink, progress)
    }

    /// Sees that the pages in `regions` can be read: their objects' stored bytes are what was written, by their checksums. A
    /// fraction of what reading them costs, and whoever reads them next finds them in the page cache.
    pub fn check_memory_in(&self, root: &MapRoot, regions: &[Region]) -> Result<()> {
        check_regions(regions)?;
        let (mut objects, mut bytes) = (HashSet::new(), Vec::new());
        for (number, id) in self.leaves_in(root, regions)? {
            let leaf = tree::load_leaf(self, &id, &mut ReadContext::new()?, &mut bytes)?;
            let base = number * LEAF_SPAN;
            for extent in clipped(&leaf.extents, within(regions, base, LEAF_SPAN), base) {
                if let Target::Stored { object, .. } = extent.target {
                    objects.insert(leaf.objects[usize::from(object)].id);
                }
            }
        }
        let mut objects: Vec<ObjectId> = objects.into_iter().collect();
        if let Some(beyond) = self.beyond()? {
            let (mut here, mut far) = (Vec::new(), Vec::new());
            for id in objects {
                if self.contains(&id)? { &mut here } else { &mut far }.push(id);
            }
            // Of what is not here, that somebody has it. It is compared with its id when it is read.
            if let Some(id) = beyond.first_absent(&far)? {
                return Err(StoreError::MissingObject { id });
            }
            objects = here;
        }
        parallel::for_each(self.threads(), &objects, ReadContext::new, |context, id| {
            self.check_bytes_of(id, context)
        })
    }

    /// The leaves that have something of `regions`.
    fn leaves_in(&self, root: &MapRoot, regions: &[Region]) -> Result<Vec<(u64, ObjectId)>> {
        let mut leaves = Vec::new();
        tree::walk(self, &root.id, &mut ReadContext::new()?, &mut |number, id, _| {
            if !within(regions, number * LEAF_SPAN, LEAF_SPAN).is_empty() {
                leaves.push((number, *id));
            }
            Ok(())
        })?;
        Ok(leaves)
    }

    /// Tells whoever has the pages that are not here which these are, in the order in which they will be read.
    fn announce(&self, leaves: &[(u64, ObjectId)], regions: &[Region]) -> Result<()> {
        let Some(beyond) = self.beyond()? else { return Ok(()) };
        let (mut context, mut bytes) = (ReadContext::new()?, Vec::new());
        let (mut seen, mut far) = (HashSet::new(), Vec::new());
        for (number, id) in leaves {
            let leaf = tree::load_leaf(self, id, &mut context, &mut bytes)?;
            let base = number * LEAF_SPAN;
            for extent in clipped(&leaf.extents, within(regions, base, LEAF_SPAN), base) {
                let Target::Stored { object, .. } = extent.target else { continue };
                let id = leaf.objects[usize::from(object)].id;
                if seen.insert(id) && !self.contains(&id)? {
                    far.push(id);
                }
            }
        }
        if !far.is_empty() {
            beyond.expect(&far);
        }
        Ok(())
    }

    /// Whether pages of `regions` are not here.
    pub fn is_beyond(&self, root: &MapRoot, regions: &[Region]) -> Result<bool> {
        if self.beyond()?.is_none() {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        for (_, id) in self.leaves_in(root, regions)? {
            for object in &tree::load_leaf(self, &id, &mut ReadContext::new()?, &mut bytes)?.objects {
                if !self.contains(&object.id)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn read_pages(
        &self,
        root: &MapRoot,
        bytes: u64,
        regions: &[Region],
        sink: &dyn PageSink,
        progress: &dyn Progress,
    ) -> Result<()> {
        let leaves = self.leaves_in(root, regions)?;
        self.announce(&leaves, regions)?;
        progress.begin(Task::Read, Some(bytes));
        let read = |reader: &mut LeafReader<'_>, (number, id): &(u64, ObjectId)| {
            progress.advance(Task::Read, reader.read(*number, id, regions, sink)?);
            Ok(())
        };
        let result = parallel::for_each(self.threads(), &leaves, || LeafReader::new(self), read);
        progress.end(Task::Read);
        result
    }
}

fn check_regions(regions: &[Region]) -> Result<()> {
    let page = PAGE as u64;
    let fits = |region: &Region| {
        region.start.is_multiple_of(page)
            && region.len.is_multiple_of(page)
            && region.start.checked_add(region.len).is_some()
    };
    let apart = |pair: &[Region]| matches!(pair, [a, b] if a.start + a.len <= b.start);
    if regions.iter().all(fits) && regions.windows(2).all(apart) {
        Ok(())
    } else {
        let what = "regions to read are not whole pages, sorted and apart".to_owned();
        Err(StoreError::Invalid { what })
    }
}

/// Where pages can be.
const EVERYTHING: Region = Region { start: 0, len: u64::MAX / PAGE as u64 * PAGE as u64 };

/// Those of `regions` that have something of `start..start + len`.
fn within(regions: &[Region], start: u64, len: u64) -> &[Region] {
    let first = regions.partition_point(|region| region.start + region.len <= start);
    let end = regions.partition_point(|region| region.start < start + len);
    regions.get(first..end).unwrap_or_default()
}

/// Reads leaf after leaf.
struct LeafReader<'a> {
    store: &'a Store,
    context: ReadContext,
    cache: PageCache,
    bytes: Vec<u8>,
    memory: Vec<u8>,
}

impl<'a> LeafReader<'a> {
    fn new(store: &'a Store) -> Result<Self> {
        let context = ReadContext::new()?;
        let memory = vec![0; LEAF_PAGES * PAGE];
        Ok(Self { store, context, cache: PageCache::new(OBJECTS_KEPT), bytes: Vec::new(), memory })
    }

    /// Hands a leaf's pages that lie in `regions` on in runs as long as possible; returns how many bytes there were.
    fn read(&mut self, number: u64, id: &ObjectId, regions: &[Region], sink: &dyn PageSink) -> Result<u64> {
        let leaf = tree::load_leaf(self.store, id, &mut self.context, &mut self.bytes)?;
        let base = number * LEAF_SPAN;
        let extents = clipped(&leaf.extents, within(regions, base, LEAF_SPAN), base);
        for extent in &extents {
            self.fill(&leaf, extent)?;
        }
        let address = |page: usize| base + (page * PAGE) as u64;
        let failed = StoreError::io("write", "the memory that is being read back");
        (|| {
            for run in extents.chunk_by(|a, b| a.first + a.pages == b.first && is_zero(a) == is_zero(b)) {
                let first = usize::from(run[0].first);
                let end = run.last().map_or(first, |last| usize::from(last.first + last.pages));
                if is_zero(&run[0]) {
                    sink.zeros(address(first), ((end - first) * PAGE) as u64)?;
                } else {
                    sink.pages(address(first), &self.memory[first * PAGE..end * PAGE])?;
                }
            }
            Ok(())
        })()
        .map_err(failed)?;
        Ok(extents.iter().map(|extent| u64::from(extent.pages) * PAGE as u64).sum())
    }

    fn fill(&mut self, leaf: &LeafMap, extent: &Extent) -> Result<()> {
        let Target::Stored { object, page } = extent.target else { return Ok(()) };
        let object = &leaf.objects[usize::from(object)];
        let out = &mut self.memory[usize::from(extent.first) * PAGE..][..usize::from(extent.pages) * PAGE];
        if extent.pages == object.pages {
            // The whole object: decompressed where it belongs, without a copy.
            return self.store.read_exact(Kind::PAGES, &object.id, &mut self.context, out);
        }
        let pages = self.cache.pages(self.store, object, &mut self.context)?;
        out.copy_from_slice(&pages[usize::from(page) * PAGE..][..out.len()]);
        Ok(())
    }
}

/// The parts of the extents of a leaf at `base` that lie in `regions`.
fn clipped(extents: &[Extent], regions: &[Region], base: u64) -> Vec<Extent> {
    let page_of = |address: u64| {
        let page = (address.saturating_sub(base) / PAGE as u64).min(LEAF_PAGES as u64);
        u16::try_from(page).unwrap_or_default()
    };
    let mut parts = Vec::with_capacity(extents.len());
    for region in regions {
        let (start, end) = (page_of(region.start), page_of(region.start + region.len));
        let after = extents.partition_point(|extent| extent.first + extent.pages <= start);
        for extent in extents.iter().skip(after).take_while(|extent| extent.first < end) {
            parts.push(extent.part(start, end));
        }
    }
    parts
}

fn is_zero(extent: &Extent) -> bool {
    extent.target == Target::Zero
}
