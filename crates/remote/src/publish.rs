//! Making packs known: a segment of the index, and then `root`, which names it.

use crate::bucket::{Changed, Edit};
use crate::error::{RemoteError, Result};
use crate::index::{self, IndexEntry, SegmentRef, due, merge};
use crate::lease::Lease;
use crate::offer::{FEW, Offer};
use crate::remote::Remote;
use crate::root::{ROOT, Root};
use crate::token::Token;

/// So many times are segments merged by one writer at most. The next one goes on.
const MERGES: usize = 100;

/// What publishing wrote. What others wrote for us is theirs.
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
        let done =
            self.publish(&lease, entries).and_then(|new| Ok(Published { new, merged: self.tidy(&lease)? }));
        if !done.as_ref().is_err_and(RemoteError::is_open) {
            lease.end()?;
        }
        done
    }

    /// Makes packs known. What is in `root` before stays. One call at a time: a lease has one offer. Returns how many bytes of segments
    /// were written. It may be ours to [`tidy`](Self::tidy) afterwards.
    pub(crate) fn publish(&self, lease: &Lease<'_>, entries: Vec<IndexEntry>) -> Result<u64> {
        if entries.is_empty() {
            return Ok(0);
        }
        let offer = if entries.len() <= FEW {
            Offer::new(&entries, Vec::new())?
        } else {
            Offer::new(&[], self.write_segments(entries)?)?
        };
        self.commit(lease, &offer)
    }

    /// Writes a run of segments, which nothing names yet.
    pub(crate) fn write_segments(&self, mut entries: Vec<IndexEntry>) -> Result<Vec<SegmentRef>> {
        entries.sort_unstable();
        entries.dedup();
        let level = index::level_of(entries.len());
        let mut written = Vec::new();
        for part in entries.chunks(index::part_of(entries.len())) {
            let (segment, bytes) = index::encode(Token::random()?, level, part);
            self.bucket.put_new(&segment.key(), &bytes)?;
            written.push(segment);
        }
        Ok(written)
    }

    /// Merges segments where there are many, until nowhere are, if we have said that we do. That others do the same at the time is no harm:
    /// one of them is too late. Returns how many bytes were written.
    pub(crate) fn tidy(&self, lease: &Lease<'_>) -> Result<u64> {
        if !lease.is_merging() {
            return Ok(0);
        }
        let mut written = 0;
        for _ in 0..MERGES {
            let Some(old) = due(&self.root()?.segments) else { break };
            let new = merge(&self.bucket, &old)?;
            self.change_root(lease, &mut |root| root.exchange(&old, &new))?;
            written += bytes_of(&new);
        }
        lease.set_merging(false);
        Ok(written)
    }

    /// Changes `root`, as a writer may: between reading and writing it, the lease is renewed.
    pub(crate) fn change_root(
        &self,
        lease: &Lease<'_>,
        edit: &mut dyn FnMut(&mut Root) -> bool,
    ) -> Result<Changed<Root>> {
        self.bucket.change::<Root>(self.hasher(), ROOT, &|| lease.renew(), &mut |found| {
            let mut root = found.ok_or(RemoteError::NotARemote)?.clone();
            root.check_version()?;
            Ok(if edit(&mut root) { Edit::Set(root) } else { Edit::Keep })
        })
    }
}

pub(crate) fn bytes_of(segments: &[SegmentRef]) -> u64 {
    segments.iter().map(|segment| segment.length).sum()
}
