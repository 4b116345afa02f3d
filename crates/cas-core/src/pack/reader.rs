//! Reading objects out of a pack.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::format::{
    ENTRY_LEN, Entry, FooterRecord, HEADER_LEN, PackHeader, TRAILER_LEN, Trailer, parse_footer,
    stored_checksum,
};
use crate::codec::{Decoder, MAX_OBJECT};
use crate::crypto::PackKey;
use crate::error::{Result, StoreError};
use crate::id::{ObjectId, PackId};

/// An open pack. Reads by position, so one reader serves many threads.
#[derive(Debug)]
pub struct PackReader {
    path: PathBuf,
    file: File,
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
    /// Opens a pack and checks its header.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        let mut header = [0; HEADER_LEN];
        file.read_exact_at(&mut header, 0).map_err(|error| truncated(path, error))?;
        let header =
            PackHeader::parse(&header).map_err(|detail| StoreError::damaged("pack", path, detail))?;
        Ok(Self { path: path.to_path_buf(), file, header })
    }

    /// Its header.
    pub fn header(&self) -> &PackHeader {
        &self.header
    }

    /// The file's path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads trailer and footer, and checks that they belong together and to this file's name.
    pub fn footer(&self, name: &PackId) -> Result<Vec<FooterRecord>> {
        let damaged = |detail: String| StoreError::damaged("pack", &self.path, detail);
        let len = self.file.metadata().map_err(StoreError::io("read", &self.path))?.len();
        let end =
            len.checked_sub(TRAILER_LEN as u64).ok_or_else(|| damaged("is too short for a pack".into()))?;
        let mut trailer = [0; TRAILER_LEN];
        self.file.read_exact_at(&mut trailer, end).map_err(StoreError::io("read", &self.path))?;
        let trailer = Trailer::parse(&trailer).map_err(damaged)?;
        if trailer.footer_offset.checked_add(u64::from(trailer.footer_len)) != Some(end) {
            return Err(damaged("has a footer that does not reach its trailer".into()));
        }
        let mut footer = vec![0; trailer.footer_len as usize];
        self.file
            .read_exact_at(&mut footer, trailer.footer_offset)
            .map_err(StoreError::io("read", &self.path))?;
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
            |detail: String| StoreError::damaged("object", &self.path, format!("{}: {detail}", id.short()));
        if stored_len as usize > MAX_OBJECT * 2 {
            return Err(damaged(format!("has an impossible length of {stored_len}")));
        }
        // Bytes left over from the last object are overwritten; growing writes zeros only the first time.
        let want = ENTRY_LEN + stored_len as usize;
        if buffer.len() < want {
            buffer.resize(want, 0);
        }
        let buffer = &mut buffer[..want];
        self.file.read_exact_at(buffer, offset).map_err(|error| truncated(&self.path, error))?;
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
        StoreError::damaged("object", &self.path, format!("{}: {detail}", raw.entry.id.short()))
    }
}

fn truncated(path: &Path, error: std::io::Error) -> StoreError {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        StoreError::damaged("pack", path, "ends too early")
    } else {
        StoreError::io("read", path)(error)
    }
}
