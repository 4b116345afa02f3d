//! Finding what is left in a damaged pack.
//!
//! The footer is used where it is whole. Otherwise the file is walked from entry to entry; where the chain is broken,
//! the next entry magic is looked for. Only objects whose header and stored bytes fit their checksums are reported.

use super::format::{ENTRY_LEN, ENTRY_MAGIC, Entry, FooterRecord, HEADER_LEN, PackHeader, stored_checksum};
use crate::error::Result;
use crate::packs::PackBytes;

/// How far one search step reads. Larger than an entry header, so that no magic is missed at a seam.
const WINDOW: usize = 1 << 20;

/// What was found in a damaged pack.
#[derive(Debug)]
pub struct Salvaged {
    /// Its header; without it nothing sealed can be opened.
    pub header: Option<PackHeader>,
    /// The objects that are whole.
    pub records: Vec<FooterRecord>,
    /// Bytes that belong to no whole object.
    pub lost: u64,
}

/// Walks a pack. What cannot be read at all is an error: an object is lost only if its bytes were seen and are not its own.
pub fn salvage(pack: &PackBytes) -> Result<Salvaged> {
    let len = pack.size()?;
    let read = |at: u64, want: usize| -> Result<Vec<u8>> {
        let left = usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; want.min(left)];
        pack.read_exact(&mut bytes, at)?;
        Ok(bytes)
    };

    let header = PackHeader::parse(&read(0, HEADER_LEN)?).ok();
    let mut records = Vec::new();
    let mut whole = if header.is_some() { HEADER_LEN as u64 } else { 0 };
    let mut at = HEADER_LEN as u64;
    while at < len {
        if let Ok(entry) = Entry::parse(&read(at, ENTRY_LEN)?) {
            let stored = read(at + ENTRY_LEN as u64, entry.stored_len as usize)?;
            if stored.len() == entry.stored_len as usize && stored_checksum(&stored) == entry.checksum {
                records.push(FooterRecord { offset: at, entry });
                let step = (ENTRY_LEN + stored.len()) as u64;
                whole += step;
                at += step;
                continue;
            }
        }
        let window = read(at + 1, WINDOW)?;
        at += 1;
        match window.windows(ENTRY_MAGIC.len()).position(|bytes| bytes == ENTRY_MAGIC) {
            Some(found) => at += found as u64,
            None if window.len() < WINDOW => break,
            None => at += (WINDOW - ENTRY_MAGIC.len()) as u64,
        }
    }
    Ok(Salvaged { header, records, lost: len - whole })
}
