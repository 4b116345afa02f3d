//! Which object is where in a remote.
//!
//! The index is a handful of immutable segments that `root` names. Opening it reads nothing. The first question to a segment
//! fetches its tail, with the filter, and keeps it in the store's cache; from then on an object that is not there costs no request, and one
//! that is costs a block of 10 KiB. Questions come in batches, so that neighbours share requests. A small segment is fetched whole.

mod cache;
mod entry;
mod filter;
mod merge;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cas_core::ObjectId;

use crate::bucket::{Bucket, must_be};
use crate::error::{RemoteError, Result};
use crate::token::Token;

pub(crate) use cache::TailCache;
pub use entry::{IndexEntry, ShortId};
pub(crate) use entry::{MAX_STORED, from_hex, to_hex};
pub(crate) use merge::{due, level_of, merge, part_of, without};
use segment::PER_SEGMENT;
pub(crate) use segment::encode;
pub use segment::{SegmentRef, Tail};

/// A segment up to this length is fetched whole, and kept.
const SMALL: u64 = 1 << 20;
/// Blocks that are so near to each other are fetched by one request.
const GAP: usize = 8;
/// So many blocks are fetched by one request at most.
const RUN: usize = 512;

/// The index as one `root` has it.
#[derive(Debug)]
pub(crate) struct Index {
    bucket: Bucket,
    segments: Vec<Segment>,
    cache: Option<TailCache>,
}

#[derive(Debug)]
struct Segment {
    named: SegmentRef,
    kept: Mutex<Option<std::sync::Arc<Kept>>>,
}

/// What was fetched of a segment.
#[derive(Debug)]
struct Kept {
    tail: Tail,
    /// All entries of a small one.
    entries: Option<Vec<IndexEntry>>,
}

impl Index {
    pub(crate) fn new(bucket: &Bucket, segments: &[SegmentRef]) -> Self {
        let segment = |named: &SegmentRef| Segment { named: named.clone(), kept: Mutex::default() };
        Self { bucket: bucket.clone(), segments: segments.iter().map(segment).collect(), cache: None }
    }

    /// The same with tails kept on the disk.
    pub(crate) fn kept_in(self, cache: TailCache) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// Where these objects are. Of several copies, one in a pack that `usable` likes; objects without one are left out.
    pub(crate) fn find(
        &self,
        ids: &[ObjectId],
        usable: &dyn Fn(&Token) -> bool,
    ) -> Result<HashMap<ObjectId, IndexEntry>> {
        let mut open: Vec<(ShortId, ObjectId)> = ids.iter().map(|id| (ShortId::of(id), *id)).collect();
        open.sort_unstable();
        open.dedup();
        let mut found = HashMap::with_capacity(open.len());
        for segment in &self.segments {
            if open.is_empty() {
                break;
            }
            let here = segment.find(self, &open, usable)?;
            open.retain(|(short, _)| !here.contains_key(short));
            for id in ids {
                if let Some(entry) = here.get(&ShortId::of(id)) {
                    found.entry(*id).or_insert(*entry);
                }
            }
        }
        Ok(found)
    }

    /// Every entry of every segment, segment by segment.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&SegmentRef, &IndexEntry)) -> Result<()> {
        for segment in &self.segments {
            segment.walk(self, &mut |entries| {
                entries.iter().for_each(|entry| each(&segment.named, entry));
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Segment {
    fn damaged(&self, detail: String) -> RemoteError {
        RemoteError::damaged(&self.named.key(), detail)
    }

    fn kept(&self, index: &Index) -> Result<std::sync::Arc<Kept>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept {
            return Ok(kept.clone());
        }
        let fetched = std::sync::Arc::new(self.fetch(index)?);
        *kept = Some(fetched.clone());
        Ok(fetched)
    }

    fn fetch(&self, index: &Index) -> Result<Kept> {
        self.named.check().map_err(|detail| RemoteError::damaged("root", detail))?;
        let key = self.named.key();
        let from = if self.named.length <= SMALL { 0 } else { self.named.blocks_end() };
        let length = self.named.length - from;
        let on_disk = index.cache.as_ref().and_then(|cache| cache.read(&self.named.name, length));
        if let Some(kept) = on_disk.and_then(|bytes| self.parse(from, &bytes).ok()) {
            return Ok(kept);
        }
        let bytes = must_be(index.bucket.get_range(&key, from, length)?, &key)?;
        let kept = self.parse(from, &bytes)?;
        if let Some(cache) = &index.cache {
            cache.keep(&self.named.name, &bytes);
        }
        Ok(kept)
    }

    /// Reads a tail, or a whole segment.
    fn parse(&self, from: u64, bytes: &[u8]) -> Result<Kept> {
        let cut = usize::try_from(self.named.blocks_end() - from).unwrap_or(usize::MAX);
        // The port promises as many bytes as were asked for; that is not what a panic should depend on.
        let short = || self.damaged("ends too early".to_owned());
        let (blocks, tail) = bytes.split_at_checked(cut).ok_or_else(short)?;
        let tail = Tail::parse(&self.named, tail).map_err(|detail| self.damaged(detail))?;
        let whole = from == 0 && self.named.blocks_end() > 0;
        let entries = if whole { Some(self.parse_run(&tail, 0..tail.blocks(), blocks)?) } else { None };
        Ok(Kept { tail, entries })
    }

    fn find(
        &self,
        index: &Index,
        ids: &[(ShortId, ObjectId)],
        usable: &dyn Fn(&Token) -> bool,
    ) -> Result<HashMap<ShortId, IndexEntry>> {
        let range = self.named.range();
        let covered: Vec<&ShortId> = ids.iter().map(|(id, _)| id).filter(|id| range.contains(id)).collect();
        if covered.is_empty() {
            return Ok(HashMap::new());
        }
        let kept = self.kept(index)?;
        let asked: Vec<&ShortId> = covered.into_iter().filter(|id| kept.tail.may_contain(id)).collect();
        let mut found = HashMap::new();
        let mut take = |entries: &[IndexEntry], asked: &[&ShortId]| {
            for id in asked {
                let from = entries.partition_point(|entry| entry.id < **id);
                let mut copies = entries[from..].iter().take_while(|entry| entry.id == **id);
                if let Some(entry) = copies.find(|entry| usable(&entry.pack)) {
                    found.insert(**id, *entry);
                }
            }
        };
        if let Some(entries) = &kept.entries {
            take(entries, &asked);
            return Ok(found);
        }
        let mut blocks: Vec<usize> = asked.iter().flat_map(|id| kept.tail.blocks_of(id)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        for run in runs(&blocks) {
            let entries = self.read_run(&index.bucket, &kept.tail, run)?;
            take(&entries, &asked);
        }
        Ok(found)
    }

    /// All entries in order, some at a time.
    fn walk(&self, index: &Index, each: &mut dyn FnMut(&[IndexEntry]) -> Result<()>) -> Result<()> {
        let kept = self.kept(index)?;
        if let Some(entries) = &kept.entries {
            return each(entries);
        }
        for start in (0..kept.tail.blocks()).step_by(RUN) {
            let end = (start + RUN).min(kept.tail.blocks());
            each(&self.read_run(&index.bucket, &kept.tail, start..end)?)?;
        }
        Ok(())
    }

    fn read_run(&self, bucket: &Bucket, tail: &Tail, run: std::ops::Range<usize>) -> Result<Vec<IndexEntry>> {
        let (start, end) = (tail.place(run.start).start, tail.place(run.end - 1).end);
        let key = self.named.key();
        let bytes = must_be(bucket.get_range(&key, start, end - start)?, &key)?;
        self.parse_run(tail, run, &bytes)
    }

    fn parse_run(&self, tail: &Tail, run: std::ops::Range<usize>, bytes: &[u8]) -> Result<Vec<IndexEntry>> {
        let base = tail.place(run.start).start;
        let mut entries = Vec::new();
        for block in run {
            let place = tail.place(block);
            let at = |offset: u64| usize::try_from(offset - base).unwrap_or(usize::MAX);
            let bytes = bytes.get(at(place.start)..at(place.end)).unwrap_or_default();
            entries.extend(tail.block(block, bytes).map_err(|detail| self.damaged(detail))?);
        }
        Ok(entries)
    }
}

/// Neighbouring blocks put together.
fn runs(blocks: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if *block < run.end + GAP && block - run.start < RUN => run.end = block + 1,
            _ => runs.push(*block..block + 1),
        }
    }
    runs
}
