//! A pack that is made in memory, for somewhere else.

use super::format::{ENTRY_LEN, Entry, FooterRecord, PackHeader, Trailer, encode_footer};
use crate::id::PackId;

/// A pack that is being filled.
#[derive(Debug)]
pub struct MemoryPack {
    header: PackHeader,
    bytes: Vec<u8>,
    records: Vec<FooterRecord>,
}

impl MemoryPack {
    /// Starts a pack.
    pub fn new(header: PackHeader) -> Self {
        Self { header, bytes: header.encode().to_vec(), records: Vec::new() }
    }

    /// How long it is so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no object was appended yet.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Appends one object.
    pub fn append(&mut self, entry: Entry, stored: &[u8]) {
        let offset = self.bytes.len() as u64;
        self.bytes.reserve(ENTRY_LEN + stored.len());
        self.bytes.extend_from_slice(&entry.encode());
        self.bytes.extend_from_slice(stored);
        self.records.push(FooterRecord { offset, entry });
    }

    /// Writes footer and trailer.
    pub fn seal(mut self) -> (PackId, Vec<u8>, Vec<FooterRecord>) {
        let footer = encode_footer(&self.header, &self.records);
        let trailer = Trailer::of(self.bytes.len() as u64, &footer);
        self.bytes.extend_from_slice(&footer);
        self.bytes.extend_from_slice(&trailer.encode());
        (trailer.id, self.bytes, self.records)
    }
}
