//! Writing one pack, from a temporary file to a sealed one.

use std::path::{Path, PathBuf};

use super::format::{
    ENTRY_LEN, Entry, FooterRecord, HEADER_LEN, PackClass, PackHeader, Trailer, encode_footer,
};
use crate::error::{Result, StoreError};
use crate::fsio::{self, Disk, DiskFile};
use crate::id::PackId;

/// A pack that is being filled under a temporary name. Dropped unsealed, it leaves the temporary file to its transaction's
/// clean-up.
pub struct PackWriter {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    header: PackHeader,
    records: Vec<FooterRecord>,
    len: u64,
}

impl std::fmt::Debug for PackWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackWriter").field("path", &self.path).field("len", &self.len).finish_non_exhaustive()
    }
}

/// A pack whose bytes are durable, still under its temporary name.
#[derive(Debug)]
pub struct SealedPack {
    /// The name it will have.
    pub id: PackId,
    /// The temporary name that it was written under.
    pub path: PathBuf,
    /// Its header.
    pub header: PackHeader,
    /// Its objects.
    pub records: Vec<FooterRecord>,
    /// Its length in bytes.
    pub file_len: u64,
}

impl PackWriter {
    /// Starts a pack in a new file.
    pub fn create(
        disk: &dyn Disk,
        path: &Path,
        class: PackClass,
        epoch: Option<u32>,
        salt: [u8; 32],
    ) -> Result<Self> {
        let header = PackHeader { class, epoch, salt };
        let mut file = disk.create(path).map_err(StoreError::io("create", path))?;
        fsio::write_all(file.as_mut(), &header.encode()).map_err(StoreError::io("write", path))?;
        Ok(Self { path: path.to_path_buf(), file, header, records: Vec::new(), len: HEADER_LEN as u64 })
    }

    /// How long the file is so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no object was appended yet.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Appends one object. After an error the pack is of no more use.
    pub fn append(&mut self, entry: Entry, stored: &[u8]) -> Result<()> {
        let offset = self.len;
        fsio::write_all(self.file.as_mut(), &entry.encode()).map_err(StoreError::io("write", &self.path))?;
        fsio::write_all(self.file.as_mut(), stored).map_err(StoreError::io("write", &self.path))?;
        self.len += (ENTRY_LEN + stored.len()) as u64;
        self.records.push(FooterRecord { offset, entry });
        Ok(())
    }

    /// Writes footer and trailer and makes the file durable.
    pub fn seal(mut self) -> Result<SealedPack> {
        let footer = encode_footer(&self.header, &self.records);
        let trailer = Trailer::of(self.len, &footer);
        let end = [&footer[..], &trailer.encode()[..]].concat();
        fsio::write_all(self.file.as_mut(), &end).map_err(StoreError::io("write", &self.path))?;
        self.file.sync().map_err(StoreError::io("sync", &self.path))?;
        Ok(SealedPack {
            id: trailer.id,
            path: self.path,
            header: self.header,
            records: self.records,
            file_len: self.len + end.len() as u64,
        })
    }
}
