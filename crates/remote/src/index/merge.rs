//! Merging segments, so that there are few: those of one level become the next level.
//!
//! An entry is written once for each level that it passes through, and a level is about twelve times as large as the one before. Inputs are
//! read some blocks at a time and outputs are written when they are full, so memory does not grow with the index.

use std::collections::BTreeMap;

use super::{Index, IndexEntry, PER_SEGMENT, RUN, SegmentRef, encode};
use crate::bucket::Bucket;
use crate::error::Result;
use crate::token::Token;

/// So many segments of one level are merged.
const FAN: usize = 12;

/// The segments that should be merged now, if any.
pub(crate) fn due(segments: &[SegmentRef]) -> Option<Vec<SegmentRef>> {
    let mut levels: BTreeMap<u32, Vec<&SegmentRef>> = BTreeMap::new();
    segments.iter().for_each(|segment| levels.entry(segment.level).or_default().push(segment));
    // Full ones that follow each other are as good as one: what counts is over how many an id can be spread.
    let crowded = |of_level: &&Vec<&SegmentRef>| of_level.iter().filter(|one| !is_full(one)).count() >= FAN;
    let level = levels.values().find(crowded)?;
    Some(level.iter().filter(|segment| !is_full(segment)).map(|segment| (*segment).clone()).collect())
}

fn is_full(segment: &SegmentRef) -> bool {
    segment.entries as usize >= PER_SEGMENT
}

/// Writes new segments with the entries of these. Entries that are there twice are written once.
pub(crate) fn merge(bucket: &Bucket, segments: &[SegmentRef]) -> Result<Vec<SegmentRef>> {
    let level = segments.iter().map(|segment| segment.level).max().unwrap_or(0) + 1;
    write(bucket, segments, level, &|_| true)
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
    let mut cursors: Vec<Cursor<'_>> =
        index.segments.iter().map(|segment| Cursor { segment, bucket, block: 0, read: Vec::new() }).collect();
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
        if full.len() >= PER_SEGMENT {
            put(&mut full)?;
        }
    }
    put(&mut full)?;
    Ok(written)
}

/// A segment that is read from front to back.
struct Cursor<'a> {
    segment: &'a super::Segment,
    bucket: &'a Bucket,
    block: usize,
    /// What was read and not taken yet, backwards.
    read: Vec<IndexEntry>,
}

impl Cursor<'_> {
    fn peek(&mut self) -> Result<Option<IndexEntry>> {
        if self.read.is_empty() {
            let kept = self.segment.kept(self.bucket)?;
            let end = (self.block + RUN).min(kept.tail.blocks());
            if self.block < end {
                self.read = match &kept.entries {
                    Some(entries) => entries.clone(),
                    None => self.segment.read_run(self.bucket, &kept.tail, self.block..end)?,
                };
                self.block = if kept.entries.is_some() { kept.tail.blocks() } else { end };
                self.read.reverse();
            }
        }
        Ok(self.read.last().copied())
    }
}
