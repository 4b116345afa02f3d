//! The bytes of a segment: sorted entries in blocks, and a tail with the hashes of the blocks and a filter.

use serde::{Deserialize, Serialize};

use super::entry::{ENTRY, IndexEntry, ShortId, array};
use super::filter;
use crate::token::Token;

/// Entries in a block: a lookup reads one.
pub(super) const PER_BLOCK: usize = 224;
/// Entries in a segment at most: 16 MiB.
pub(crate) const PER_SEGMENT: usize = 372_000;
/// No longer segment, and no longer tail, is believed.
const LONGEST: u64 = 64 << 20;

const MAGIC: &[u8; 8] = b"IJSEG\r\n\0";
const VERSION: u16 = 1;
const TAIL_HEAD: usize = 20;
const FENCE: usize = 36;

/// A segment, as `root` names it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentRef {
    /// Its name.
    pub name: Token,
    /// How large the run was that it is a part of; see `merge`.
    pub level: u32,
    /// How many there are.
    pub entries: u32,
    /// Its length.
    pub length: u64,
    /// The length of its tail.
    pub tail: u64,
    /// The BLAKE3 of its tail.
    pub hash: String,
    /// Its first id, shortened.
    pub first: String,
    /// Its last id, shortened.
    pub last: String,
}

impl SegmentRef {
    /// Where it lies.
    pub(crate) fn key(&self) -> String {
        format!("index/{}", self.name)
    }

    /// Whether the lengths fit each other. `Err` is a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let blocks = u64::from(self.entries) * ENTRY as u64;
        if self.entries == 0
            || self.length > LONGEST
            || self.tail > self.length
            || blocks + self.tail != self.length
        {
            return Err(format!("names segment {} with impossible lengths", self.name));
        }
        if ShortId::parse(&self.first).is_none() || ShortId::parse(&self.last).is_none() {
            return Err(format!("names segment {} with a first or last id that is none", self.name));
        }
        Ok(())
    }

    /// The ids that can be in it. What is no id leaves nothing that could.
    pub(crate) fn range(&self) -> std::ops::RangeInclusive<ShortId> {
        match (ShortId::parse(&self.first), ShortId::parse(&self.last)) {
            (Some(first), Some(last)) => first..=last,
            _ => ShortId([1; 20])..=ShortId([0; 20]),
        }
    }

    /// Where its blocks end and its tail begins.
    pub(super) fn blocks_end(&self) -> u64 {
        self.length - self.tail
    }
}

/// Makes a segment of entries, which must be sorted, and not none.
pub(crate) fn encode(name: Token, level: u32, entries: &[IndexEntry]) -> (SegmentRef, Vec<u8>) {
    debug_assert!(entries.is_sorted() && !entries.is_empty());
    let mut bytes = Vec::with_capacity(entries.len() * (ENTRY + 2) + 1024);
    let mut fences = Vec::new();
    for block in entries.chunks(PER_BLOCK) {
        let start = bytes.len();
        block.iter().for_each(|entry| entry.encode(&mut bytes));
        fences.extend_from_slice(&block[0].id.0);
        fences.extend_from_slice(&blake3::hash(&bytes[start..]).as_bytes()[..16]);
    }
    let filter = filter::build(entries.iter().map(|entry| entry.id));
    let tail_at = bytes.len();
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(filter.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(&fences);
    bytes.extend_from_slice(&filter);
    let hex =
        |entry: Option<&IndexEntry>| entry.map(|entry| cas_core::id::hex(&entry.id.0)).unwrap_or_default();
    let segment = SegmentRef {
        name,
        level,
        entries: count,
        length: bytes.len() as u64,
        tail: (bytes.len() - tail_at) as u64,
        hash: blake3::hash(&bytes[tail_at..]).to_hex().to_string(),
        first: hex(entries.first()),
        last: hex(entries.last()),
    };
    (segment, bytes)
}

/// What a client keeps of a segment.
#[derive(Debug)]
pub struct Tail {
    entries: usize,
    fences: Vec<(ShortId, [u8; 16])>,
    filter: Vec<u8>,
}

impl Tail {
    /// Reads a tail and compares it with what `root` says. `Err` is a sentence.
    pub fn parse(segment: &SegmentRef, bytes: &[u8]) -> Result<Self, String> {
        if blake3::hash(bytes).to_hex().as_str() != segment.hash {
            return Err("has a tail that does not fit its hash".to_owned());
        }
        let tail = Self::parse_unchecked(bytes)?;
        if tail.entries != segment.entries as usize {
            return Err("has another number of entries than was said".to_owned());
        }
        Ok(tail)
    }

    /// The same for bytes whose hash nobody knows.
    pub fn parse_unchecked(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() < TAIL_HEAD || &bytes[..8] != MAGIC {
            return Err("has no tail where one should be".to_owned());
        }
        let version = u16::from_le_bytes(array(bytes, 8));
        if version != VERSION {
            return Err(format!("has segment version {version}, this program reads version {VERSION}"));
        }
        let entries = u32::from_le_bytes(array(bytes, 12)) as usize;
        let filter_len = u32::from_le_bytes(array(bytes, 16)) as usize;
        let blocks = entries.div_ceil(PER_BLOCK);
        let fences_end = TAIL_HEAD + blocks * FENCE;
        if entries == 0 || filter_len == 0 || fences_end.checked_add(filter_len) != Some(bytes.len()) {
            return Err("has a tail of the wrong length".to_owned());
        }
        let fence = |bytes: &[u8]| (ShortId(array(bytes, 0)), array(bytes, 20));
        let fences: Vec<_> = bytes[TAIL_HEAD..fences_end].chunks_exact(FENCE).map(fence).collect();
        if !fences.is_sorted_by(|a, b| a.0 <= b.0) {
            return Err("has blocks that are not in order".to_owned());
        }
        Ok(Self { entries, fences, filter: bytes[fences_end..].to_vec() })
    }

    /// Whether an id may be in the segment. Costs no request.
    pub fn may_contain(&self, id: &ShortId) -> bool {
        filter::may_contain(&self.filter, id)
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        self.fences.len()
    }

    /// The blocks in which an id can be: one, or several if many copies of it are there.
    pub(super) fn blocks_of(&self, id: &ShortId) -> std::ops::Range<usize> {
        let end = self.fences.partition_point(|(first, _)| first <= id);
        let start = self.fences.partition_point(|(first, _)| first < id).saturating_sub(1);
        start..end
    }

    /// Where a block lies in the segment.
    pub(super) fn place(&self, block: usize) -> std::ops::Range<u64> {
        let at = |entry: usize| (entry.min(self.entries) * ENTRY) as u64;
        at(block * PER_BLOCK)..at((block + 1) * PER_BLOCK)
    }

    /// Reads a block. `Err` is a sentence.
    pub(super) fn block(&self, block: usize, bytes: &[u8]) -> Result<Vec<IndexEntry>, String> {
        let (first, hash) = self.fences.get(block).ok_or("has no such block")?;
        if blake3::hash(bytes).as_bytes()[..16] != *hash {
            return Err(format!("has a block {block} that does not fit its hash"));
        }
        let (entries, rest) = bytes.as_chunks::<ENTRY>();
        let entries: Vec<_> = entries.iter().map(IndexEntry::parse).collect::<Result<_, _>>()?;
        let fits =
            rest.is_empty() && entries.first().map(|entry| entry.id) == Some(*first) && entries.is_sorted();
        if fits { Ok(entries) } else { Err(format!("has a block {block} that is not in order")) }
    }
}
