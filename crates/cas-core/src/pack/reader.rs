//! Reading objects out of a pack.

use std::path::Path;

use super::format::{
    ENTRY_LEN, Entry, FooterRecord, HEADER_LEN, PackHeader, TRAILER_LEN, Trailer, parse_footer,
    stored_checksum,
};
use crate::codec::{Decoder, MAX_OBJECT};
use crate::crypto::PackKey;
use crate::error::{Result, StoreError};
use crate::id::{ObjectId, PackId};
use crate::packs::PackBytes;

/// An open pack. Reads by position, so one reader serves many threads.
#[derive(Debug)]
pub struct PackReader {
    bytes: PackBytes,
    header: PackHeader,
}

/// An object as it is stored, its checksum compared.
#[derive(Debug)]
pub struct RawObject<'a> {
    /// Its header.
    pub entry: Entry,
    /// Its bytes: compressed, and sealed if the pack is.
    pub stored: &'a [u8],
}

impl PackReader {
    /// Reads and checks the header of a pack.
    pub fn new(bytes: PackBytes) -> Result<Self> {
        let mut header = [0; HEADER_LEN];
        bytes.read_exact(&mut header, 0)?;
        let header = PackHeader::parse(&header)
            .map_err(|detail| StoreError::damaged("pack", bytes.place(), detail))?;
        Ok(Self { bytes, header })
    }

    /// Its header.
    pub fn header(&self) -> &PackHeader {
        &self.header
    }

    /// Where the pack is, for messages.
    pub fn place(&self) -> &Path {
        self.bytes.place()
    }

    /// How long it is.
    pub fn size(&self) -> Result<u64> {
        self.bytes.size()
    }

    /// Reads trailer and footer, and checks that they belong together and to this file's name.
    pub fn footer(&self, name: &PackId) -> Result<Vec<FooterRecord>> {
        let damaged = |detail: String| StoreError::damaged("pack", self.place(), detail);
        let end = self
            .size()?
            .checked_sub(TRAILER_LEN as u64)
            .ok_or_else(|| damaged("is too short for a pack".into()))?;
        let mut trailer = [0; TRAILER_LEN];
        self.bytes.read_exact(&mut trailer, end)?;
        let trailer = Trailer::parse(&trailer).map_err(damaged)?;
        if trailer.footer_offset.checked_add(u64::from(trailer.footer_len)) != Some(end) {
            return Err(damaged("has a footer that does not reach its trailer".into()));
        }
        let mut footer = vec![0; trailer.footer_len as usize];
        self.bytes.read_exact(&mut footer, trailer.footer_offset)?;
        if !trailer.fits(&footer) {
            return Err(damaged("has a footer that does not fit its hash".into()));
        }
        if trailer.id != *name {
            return Err(damaged(format!("is pack {}, not the one its name says", trailer.id)));
        }
        let (header, records) = parse_footer(&footer).map_err(damaged)?;
        if header != self.header {
            return Err(damaged("has a footer of another header".into()));
        }
        Ok(records)
    }

    /// Reads the object whose entry starts at `offset` into `buffer` and compares its checksum. `stored_len` comes from
    /// the catalogue, so that one read fetches header and content.
    pub fn read<'b>(
        &self,
        id: &ObjectId,
        offset: u64,
        stored_len: u32,
        buffer: &'b mut Vec<u8>,
    ) -> Result<RawObject<'b>> {
        let damaged =
            |detail: String| StoreError::damaged("object", self.place(), format!("{}: {detail}", id.short()));
        if stored_len as usize > MAX_OBJECT * 2 {
            return Err(damaged(format!("has an impossible length of {stored_len}")));
        }
        // Bytes left over from the last object are overwritten; growing writes zeros only the first time.
        let want = ENTRY_LEN + stored_len as usize;
        if buffer.len() < want {
            buffer.resize(want, 0);
        }
        let buffer = &mut buffer[..want];
        self.bytes.read_exact(buffer, offset)?;
        let entry = Entry::parse(buffer).map_err(damaged)?;
        if entry.id != *id || entry.stored_len != stored_len {
            return Err(damaged(format!("is object {} here", entry.id.short())));
        }
        let stored = &buffer[ENTRY_LEN..];
        if stored_checksum(stored) != entry.checksum {
            return Err(damaged("does not fit its checksum".into()));
        }
        Ok(RawObject { entry, stored })
    }

    /// Turns stored bytes into content, which fills `out` exactly.
    pub(crate) fn decode(
        &self,
        raw: &RawObject<'_>,
        key: Option<&PackKey>,
        decoder: &mut Decoder,
        opened: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<()> {
        let encoded = self.unseal(raw, key, opened)?;
        decoder.decode(raw.entry.codec, encoded, out).map_err(|detail| self.damaged(raw, detail))
    }

    /// The encoded content of an object, without its seal.
    pub fn unseal<'b>(
        &self,
        raw: &RawObject<'b>,
        key: Option<&PackKey>,
        opened: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        let Some(key) = key else { return Ok(raw.stored) };
        opened.clear();
        key.open(&raw.entry.associated_data(), raw.stored, opened)
            .map_err(|_| self.damaged(raw, "cannot be decrypted: content or header was changed".into()))?;
        Ok(opened)
    }

    fn damaged(&self, raw: &RawObject<'_>, detail: String) -> StoreError {
        StoreError::damaged("object", self.place(), format!("{}: {detail}", raw.entry.id.short()))
    }
}
