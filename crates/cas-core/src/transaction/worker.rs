//! What each worker thread of a write transaction has for itself.

use crate::codec::Encoder;
use crate::error::Result;
use crate::memory::PageCache;
use crate::store::ReadContext;

/// Objects of the parent's pages that a worker remembers.
const PARENTS_KEPT: usize = 16;

/// What a worker thread owns.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Compresses.
    pub(crate) encoder: Encoder,
    /// Reads the parent.
    pub(crate) reading: ReadContext,
    /// Room for one leaf of memory; kept from job to job.
    pub(crate) scratch: Vec<u8>,
    /// Room for one object whose pages do not lie together.
    pub(crate) gathered: Vec<u8>,
    /// Pages of the parent that were compared last.
    pub(crate) cache: PageCache,
}

impl Worker {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            encoder: Encoder::new()?,
            reading: ReadContext::new()?,
            scratch: Vec::new(),
            gathered: Vec::new(),
            cache: PageCache::new(PARENTS_KEPT),
        })
    }
}
