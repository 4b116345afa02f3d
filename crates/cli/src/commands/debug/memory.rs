//! Files that stand for the memory of a process.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use cas_core::StoreError;
use cas_core::memory::{PAGE, PageSource, Region};

use super::wrong;
use crate::args::number;

/// Each file at its address, filled up with zeros to whole pages.
pub(super) fn open(arguments: &[OsString]) -> Result<Arc<dyn PageSource>> {
    let mut pieces = Vec::new();
    for text in arguments {
        let bytes = text.as_bytes();
        let form = || wrong(text, "FILE@ADDRESS");
        let at = bytes.iter().rposition(|byte| *byte == b'@').ok_or_else(form)?;
        let path = Path::new(std::ffi::OsStr::from_bytes(&bytes[..at]));
        let address =
            std::str::from_utf8(&bytes[at + 1..]).ok().and_then(|text| number(text).ok()).ok_or_else(form)?;
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        let len = file.metadata().map_err(StoreError::io("read", path))?.len();
        let region = Region { start: address, len: len.next_multiple_of(PAGE as u64) };
        pieces.push(Piece { region, len, file });
    }
    pieces.sort_by_key(|piece| piece.region.start);
    Ok(Arc::new(Files(pieces)))
}

struct Piece {
    region: Region,
    /// Bytes of the file.
    len: u64,
    file: File,
}

struct Files(Vec<Piece>);

impl PageSource for Files {
    fn regions(&self) -> Vec<Region> {
        self.0.iter().map(|piece| piece.region).collect()
    }

    /// Regions may touch, so one read may need several files.
    fn read(&self, mut address: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let piece = self
                .0
                .iter()
                .find(|piece| {
                    address >= piece.region.start && address - piece.region.start < piece.region.len
                })
                .ok_or_else(|| io::Error::other(format!("nothing is at {address:#x}")))?;
            let offset = address - piece.region.start;
            let here = usize::try_from(piece.region.len - offset).unwrap_or(usize::MAX).min(buffer.len());
            let (now, rest) = buffer.split_at_mut(here);
            let content = usize::try_from(piece.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(here);
            piece.file.read_exact_at(&mut now[..content], offset)?;
            now[content..].fill(0);
            address += here as u64;
            buffer = rest;
        }
        Ok(())
    }
}
