//! What a remote holds, in numbers.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::lease;
use crate::refs;
use crate::remote::Remote;

/// Numbers of a remote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Whether packs are encrypted.
    pub sealed: bool,
    /// How many collections there were.
    pub generation: u64,
    /// Threads and tags.
    pub refs: u64,
    /// Packs.
    pub packs: u64,
    /// Their length.
    pub bytes: u64,
    /// Entries of the index; an object that is in several packs has several.
    pub entries: u64,
    /// Segments of the index by level.
    pub segments: BTreeMap<u32, usize>,
    /// Their length.
    pub index_bytes: u64,
    /// Packs and segments that wait for being deleted.
    pub condemned: u64,
    /// Leases.
    pub writers: u64,
}

impl Remote {
    /// Counts.
    pub fn stat(&self) -> Result<Stat> {
        let root = self.root()?;
        let packs = self.bucket.list("packs/")?;
        let (refs, _) = refs::list(&self.bucket, self.hasher())?;
        Ok(Stat {
            sealed: root.sealed,
            generation: root.generation,
            refs: refs.len() as u64,
            packs: packs.len() as u64,
            bytes: packs.iter().map(|pack| pack.size).sum(),
            entries: root.segments.iter().map(|segment| u64::from(segment.entries)).sum(),
            segments: root.levels(),
            index_bytes: root.segments.iter().map(|segment| segment.length).sum(),
            condemned: root.condemned.len() as u64,
            writers: lease::list(&self.bucket, self.hasher())?.len() as u64,
        })
    }
}
