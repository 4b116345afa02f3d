//! What a writer has to publish, and leaves to whoever changes `root` next.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::index::{self, IndexEntry, SegmentRef};
use crate::token::Token;

/// So many entries are offered as they are: the one who takes them up writes one segment for all. More of them are a segment of their
/// own, so that leases, which many read, stay small.
pub(crate) const FEW: usize = 200;

/// An offer. It is in its writer's lease, and taken up once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// By this one `root` says that it was taken up.
    pub(crate) id: Token,
    /// Entries of the index, in hex.
    entries: String,
    /// Segments that are in the remote already.
    pub(crate) segments: Vec<SegmentRef>,
}

impl Offer {
    /// A new one.
    pub(crate) fn new(entries: &[IndexEntry], segments: Vec<SegmentRef>) -> Result<Self> {
        Ok(Self { id: Token::random()?, entries: index::to_hex(entries), segments })
    }

    /// Its entries, if all of it makes sense: what is wrong in `root` stops everybody. `Err` is a sentence.
    pub(crate) fn check(&self) -> Result<Vec<IndexEntry>, String> {
        self.segments.iter().try_for_each(SegmentRef::check)?;
        index::from_hex(&self.entries)
    }
}
