//! Merging segments, so that an id has to be looked for in few.
//!
//! What one push or one merge writes is a *run*: segments that follow each other in the order of ids. A run has a level by its number of
//! entries. Twelve runs of a level are merged into one, which is about twelve times as large, so an entry is written once for each level that
//! it passes through, and no more once it is in a run of the last level: there merging would cost more than looking does. Of very many runs,
//! which a large group of writers leaves, some are merged at a time, so that one of them does not work for all for long.
//!
//! Inputs are read some blocks at a time and outputs are written when they are full, so memory does not grow with the index.

use std::collections::BTreeMap;

use super::{Index, IndexEntry, PER_SEGMENT, RUN, SegmentRef, ShortId, encode};
use crate::bucket::Bucket;
use crate::error::Result;
use crate::token::Token;

/// So many runs of one level are merged.
const FAN: usize = 12;
/// A run of this many entries is of level 1, 2, 3, 4. The last ones stay as they are.
const LEVELS: [usize; 4] = [1_700, 20_000, 250_000, 3_000_000];
/// When runs have so many entries together, no more are merged with them.
const ENOUGH: usize = 12_000_000;

/// The level of a run with so many entries.
pub(crate) fn level_of(entries: usize) -> u32 {
    LEVELS.iter().map(|least| u32::from(entries >= *least)).sum()
}

/// How many entries of so many go into one segment: all parts of a run are about as long.
pub(crate) fn part_of(entries: usize) -> usize {
    entries.div_ceil(entries.div_ceil(PER_SEGMENT).max(1)).max(1)
}

/// The segments that should be merged now, if any.
pub(crate) fn due(segments: &[SegmentRef]) -> Option<Vec<SegmentRef>> {
    let mut levels: BTreeMap<u32, Vec<&SegmentRef>> = BTreeMap::new();
    let unfinished = segments.iter().filter(|segment| (segment.level as usize) < LEVELS.len());
    unfinished.for_each(|segment| levels.entry(segment.level).or_default().push(segment));
    let level = levels.values().find(|of_level| runs(of_level) >= FAN)?;
    let mut entries = 0;
    let fits = |segment: &&&SegmentRef| {
        let before = entries;
        entries += segment.entries as usize;
        before < ENOUGH
    };
    Some(level.iter().take_while(fits).map(|segment| (*segment).clone()).collect())
}

/// How many runs these segments are parts of. The parts of a long run are at least half full, and do not overlap.
fn runs(segments: &[&SegmentRef]) -> usize {
    let (parts, whole): (Vec<&SegmentRef>, Vec<_>) =
        segments.iter().partition(|segment| segment.entries as usize >= PER_SEGMENT / 2);
    let ranges: Vec<_> = parts.iter().map(|part| part.range()).collect();
    let covered = |id: &ShortId| ranges.iter().filter(|range| range.contains(id)).count();
    whole.len() + ranges.iter().map(|range| covered(range.start())).max().unwrap_or(0)
}

/// Writes new segments with the entries of these. Entries that are there twice are written once.
pub(crate) fn merge(bucket: &Bucket, segments: &[SegmentRef]) -> Result<Vec<SegmentRef>> {
    write(bucket, segments, level_of(total(segments)), &|_| true)
}

fn total(segments: &[SegmentRef]) -> usize {
    segments.iter().map(|segment| segment.entries as usize).sum()
}

/// Writes a segment anew without the entries of some packs.
pub(crate) fn without(
    bucket: &Bucket,
    segment: &SegmentRef,
    keep: &dyn Fn(&IndexEntry) -> bool,
) -> Result<Vec<SegmentRef>> {
    write(bucket, std::slice::from_ref(segment), segment.level, keep)
}

fn write(
    bucket: &Bucket,
    segments: &[SegmentRef],
    level: u32,
    keep: &dyn Fn(&IndexEntry) -> bool,
) -> Result<Vec<SegmentRef>> {
    let index = Index::new(bucket, segments);
    let cursor = |segment| Cursor { segment, index: &index, block: 0, read: Vec::new() };
    let mut cursors: Vec<Cursor<'_>> = index.segments.iter().map(cursor).collect();
    let length = part_of(total(segments));
    let mut full: Vec<IndexEntry> = Vec::new();
    let mut written = Vec::new();
    let mut put = |entries: &mut Vec<IndexEntry>| -> Result<()> {
        if !entries.is_empty() {
            let (segment, bytes) = encode(Token::random()?, level, entries);
            bucket.put_new(&segment.key(), &bytes)?;
            written.push(segment);
            entries.clear();
        }
        Ok(())
    };
    loop {
        let mut least: Option<(usize, IndexEntry)> = None;
        for (n, cursor) in cursors.iter_mut().enumerate() {
            if let Some(entry) = cursor.peek()?
                && least.is_none_or(|(_, least)| entry < least)
            {
                least = Some((n, entry));
            }
        }
        let Some((n, entry)) = least else { break };
        cursors[n].read.pop();
        if keep(&entry) && full.last() != Some(&entry) {
            full.push(entry);
        }
        if full.len() >= length {
            put(&mut full)?;
        }
    }
    put(&mut full)?;
    Ok(written)
}

/// A segment that is read from front to back.
struct Cursor<'a> {
    segment: &'a super::Segment,
    index: &'a Index,
    block: usize,
    /// What was read and not taken yet, backwards.
    read: Vec<IndexEntry>,
}

impl Cursor<'_> {
    fn peek(&mut self) -> Result<Option<IndexEntry>> {
        if self.read.is_empty() {
            let kept = self.segment.kept(self.index)?;
            let end = (self.block + RUN).min(kept.tail.blocks());
            if self.block < end {
                self.read = match &kept.entries {
                    Some(entries) => entries.clone(),
                    None => self.segment.read_run(&self.index.bucket, &kept.tail, self.block..end)?,
                };
                self.block = if kept.entries.is_some() { kept.tail.blocks() } else { end };
                self.read.reverse();
            }
        }
        Ok(self.read.last().copied())
    }
}
