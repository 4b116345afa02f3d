//! Reading memory back: a range here and there, or all of it with every core.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::map::{Extent, LeafMap, Target};
use super::page_cache::PageCache;
use super::tree::{self, MapRoot};
use super::{LEAF_PAGES, LEAF_SPAN, PAGE};
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
        let mut leaves = Vec::new();
        tree::walk(self, &root.id, &mut ReadContext::new()?, &mut |number, id, _| {
            leaves.push((number, *id));
            Ok(())
        })?;
        progress.begin(Task::Read, Some(root.bytes()));
        let read = |reader: &mut LeafReader<'_>, (number, id): &(u64, ObjectId)| {
            progress.advance(Task::Read, reader.read(*number, id, sink)?);
            Ok(())
        };
        let result = parallel::for_each(self.threads(), &leaves, || LeafReader::new(self), read);
        progress.end(Task::Read);
        result
    }
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

    /// Hands a leaf's pages on in runs as long as possible; returns how many bytes there were.
    fn read(&mut self, number: u64, id: &ObjectId, sink: &dyn PageSink) -> Result<u64> {
        let leaf = tree::load_leaf(self.store, id, &mut self.context, &mut self.bytes)?;
        for extent in &leaf.extents {
            self.fill(&leaf, extent)?;
        }
        let base = number * LEAF_SPAN;
        let address = |page: usize| base + (page * PAGE) as u64;
        let failed = StoreError::io("write", "the memory that is being read back");
        (|| {
            for run in leaf.extents.chunk_by(|a, b| a.first + a.pages == b.first && is_zero(a) == is_zero(b))
            {
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
        Ok(leaf.present() * PAGE as u64)
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

fn is_zero(extent: &Extent) -> bool {
    extent.target == Target::Zero
}
