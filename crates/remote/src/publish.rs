//! Making packs known: a segment of the index, and then `root`, which names it.

use crate::bucket::{Changed, Edit};
use crate::error::{RemoteError, Result};
use crate::index::{self, IndexEntry, SegmentRef, due, merge};
use crate::lease::Lease;
use crate::remote::Remote;
use crate::root::{ROOT, Root};
use crate::token::Token;

/// What publishing wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Bytes of new segments.
    pub new: u64,
    /// Bytes of segments that were merged of others.
    pub merged: u64,
}

impl Remote {
    /// Makes packs known that are in the remote already: the last part of a push, by itself.
    pub fn publish_entries(&self, entries: Vec<IndexEntry>) -> Result<Published> {
        let generation = self.root()?.generation;
        let lease = Lease::take(&self.bucket, self.hasher(), generation, Vec::new())?;
        let done = self.publish(&lease, entries);
        if !done.as_ref().is_err_and(RemoteError::is_open) {
            lease.end()?;
        }
        done
    }

    /// Makes packs known, and merges segments where there are many. What is in `root` before stays.
    pub(crate) fn publish(&self, lease: &Lease<'_>, mut entries: Vec<IndexEntry>) -> Result<Published> {
        entries.sort_unstable();
        entries.dedup();
        let level = index::level_of(entries.len());
        let mut new = Vec::new();
        for part in entries.chunks(index::part_of(entries.len())) {
            let (segment, bytes) = index::encode(Token::random()?, level, part);
            self.bucket.put_new(&segment.key(), &bytes)?;
            new.push(segment);
        }
        if new.is_empty() {
            return Ok(Published::default());
        }
        self.change_root(lease, &mut |root| {
            root.segments.extend_from_slice(&new);
            true
        })?;
        let merged = self.merge_segments(lease)?;
        Ok(Published { new: bytes_of(&new), merged: bytes_of(&merged) })
    }

    /// Merges segments where there are many. That others do the same at the time is no harm: one of them is too late.
    fn merge_segments(&self, lease: &Lease<'_>) -> Result<Vec<SegmentRef>> {
        let Some(old) = due(&self.root()?.segments) else { return Ok(Vec::new()) };
        let new = merge(&self.bucket, &old)?;
        self.change_root(lease, &mut |root| root.exchange(&old, &new))?;
        Ok(new)
    }

    /// Changes `root`, as a writer may: between reading and writing it, the lease is renewed.
    pub(crate) fn change_root(
        &self,
        lease: &Lease<'_>,
        edit: &mut dyn FnMut(&mut Root) -> bool,
    ) -> Result<Changed<Root>> {
        self.bucket.change::<Root>(self.hasher(), ROOT, &|| lease.renew(), &mut |found| {
            let mut root = found.ok_or(RemoteError::NotARemote)?.clone();
            Ok(if edit(&mut root) { Edit::Set(root) } else { Edit::Keep })
        })
    }
}

fn bytes_of(segments: &[SegmentRef]) -> u64 {
    segments.iter().map(|segment| segment.length).sum()
}
