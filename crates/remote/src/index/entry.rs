//! Where one object is in a remote: 45 bytes.

use cas_core::{Kind, MAX_OBJECT, ObjectId};

use crate::token::Token;

/// Length of an entry.
pub(crate) const ENTRY: usize = 45;

/// The longest stored form of an object, with its seal.
pub(crate) const MAX_STORED: u32 = (64 << 20) + 64;
const _: () = assert!(MAX_STORED as usize == MAX_OBJECT + 64);

/// The first 20 bytes of an id. What is found by it is compared with the whole one when it is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShortId(pub [u8; 20]);

impl ShortId {
    /// The short form of an id.
    pub fn of(id: &ObjectId) -> Self {
        let mut bytes = [0; 20];
        bytes.copy_from_slice(&id.as_bytes()[..20]);
        Self(bytes)
    }

    /// Reads one that is written as 40 hex digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The rest is there for the parser only, which knows 32 bytes and one spelling.
        let whole = cas_core::id::unhex32(&format!("{text}{}", "0".repeat(24)))?;
        Some(Self(array(&whole, 0)))
    }
}

/// An entry. In the order of ids, then of packs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IndexEntry {
    /// The object.
    pub id: ShortId,
    /// The pack that it is in.
    pub pack: Token,
    /// Where its entry header begins there.
    pub offset: u32,
    /// Its stored length.
    pub stored: u32,
    /// Its kind.
    pub kind: Kind,
}

impl IndexEntry {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(self.pack.as_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.stored.to_le_bytes());
        out.push(self.kind.0);
    }

    /// Reads an entry. `Err` is a sentence.
    pub(super) fn parse(bytes: &[u8; ENTRY]) -> Result<Self, String> {
        let entry = Self {
            id: ShortId(array(bytes, 0)),
            pack: Token::from_bytes(array(bytes, 20)),
            offset: u32::from_le_bytes(array(bytes, 36)),
            stored: u32::from_le_bytes(array(bytes, 40)),
            kind: Kind(bytes[44]),
        };
        if entry.stored > MAX_STORED {
            return Err(format!("promises an object of {} bytes", entry.stored));
        }
        Ok(entry)
    }
}

/// Entries as text, for small objects.
pub(crate) fn to_hex(entries: &[IndexEntry]) -> String {
    let mut bytes = Vec::with_capacity(entries.len() * ENTRY);
    entries.iter().for_each(|entry| entry.encode(&mut bytes));
    cas_core::id::hex(&bytes)
}

/// Reads them back. `Err` is a sentence.
pub(crate) fn from_hex(text: &str) -> Result<Vec<IndexEntry>, String> {
    let bytes = cas_core::id::unhex(text).ok_or("has entries that are not hex")?;
    let (entries, rest) = bytes.as_chunks::<ENTRY>();
    if !rest.is_empty() {
        return Err("has a part of an entry".to_owned());
    }
    entries.iter().map(IndexEntry::parse).collect()
}

pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
