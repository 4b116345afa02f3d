//! The form of an image file: magic numbers, then entries, each a length and a message.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use prost::Message;

use super::{Pagemap, PagemapEntry, PagemapHead};
use crate::error::{CriuError, Result};

/// First word of an image file, and of a file about CRIU itself.
const COMMON: u32 = 0x5456_4319;
const SERVICE: u32 = 0x5510_5940;

/// The second word, by the sort of file.
pub(super) mod magic {
    pub(in super::super) const INVENTORY: u32 = 0x5831_3116;
    pub(in super::super) const PSTREE: u32 = 0x5027_3030;
    pub(in super::super) const FDINFO: u32 = 0x5621_3732;
    pub(in super::super) const PAGEMAP: u32 = 0x5608_4025;
    pub(in super::super) const CORE: u32 = 0x5505_3847;
    pub(in super::super) const IDS: u32 = 0x5443_2030;
    pub(in super::super) const FS: u32 = 0x5140_3912;
    pub(in super::super) const MM: u32 = 0x5749_2820;
    pub(in super::super) const REMAP_FPATH: u32 = 0x5913_3954;
    pub(in super::super) const GHOST_FILE: u32 = 0x5258_3605;
    pub(in super::super) const MNTS: u32 = 0x5556_3928;
    pub(in super::super) const TTY_INFO: u32 = 0x5945_3036;
    pub(in super::super) const SECCOMP: u32 = 0x6441_3049;
    pub(in super::super) const USERNS: u32 = 0x5547_4906;
    pub(in super::super) const FILES: u32 = 0x5630_3138;
    pub(in super::super) const MEMFD_INODE: u32 = 0x4845_3499;
    pub(in super::super) const STATS: u32 = 0x5709_3306;
}

/// The largest image of messages that is read: a tree with a hundred thousand open files needs 10 MiB.
pub(super) const MAX_IMAGE: u64 = 64 << 20;
/// Pagemaps grow with memory: this is enough for 64 GiB in single pages.
pub(super) const MAX_PAGEMAP: u64 = 512 << 20;

/// The entries of an image file.
pub(super) struct Entries<'a> {
    path: &'a Path,
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    pub(super) fn new(path: &'a Path, bytes: &'a [u8], magic: u32) -> Result<Self> {
        let mut entries = Self { path, rest: bytes };
        let first = entries.word()?;
        // Before version 2 of the format there was only the file's own number.
        let own = if first == COMMON || first == SERVICE { entries.word()? } else { first };
        if own != magic {
            return Err(CriuError::image(path, format!("starts with {own:#010x}, not with {magic:#010x}")));
        }
        Ok(entries)
    }

    /// The magic numbers of `image`, which this was made from and nothing was read of yet.
    pub(super) fn head(&self, image: &'a [u8]) -> &'a [u8] {
        image.get(..image.len() - self.rest.len()).unwrap_or_default()
    }

    /// Bytes of the next entry.
    pub(super) fn next_bytes(&mut self) -> Result<Option<&'a [u8]>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let size = usize::try_from(self.word()?)
            .map_err(|_| CriuError::image(self.path, "has an entry that is too long"))?;
        let (entry, rest) = self.rest.split_at_checked(size).ok_or_else(|| self.cut_short())?;
        self.rest = rest;
        Ok(Some(entry))
    }

    pub(super) fn next_message<M: Message + Default>(&mut self) -> Result<Option<M>> {
        let Some(bytes) = self.next_bytes()? else { return Ok(None) };
        M::decode(bytes)
            .map(Some)
            .map_err(|error| CriuError::image(self.path, format!("cannot be decoded: {error}")))
    }

    fn word(&mut self) -> Result<u32> {
        let (word, rest) = self.rest.split_first_chunk::<4>().ok_or_else(|| self.cut_short())?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*word))
    }

    fn cut_short(&self) -> CriuError {
        CriuError::image(self.path, "ends in the middle of an entry")
    }
}

pub(super) fn read_whole(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let bytes = read_head(path, limit + 1)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(CriuError::image(path, format!("is larger than {} MiB", limit >> 20)));
    }
    Ok(bytes)
}

/// At most `limit` bytes of the file. A symbolic link is not followed: an image directory has none.
pub(super) fn read_head(path: &Path, limit: u64) -> Result<Vec<u8>> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).unwrap_or_default();
    let file =
        File::options().read(true).custom_flags(flags).open(path).map_err(CriuError::io("open", path))?;
    if !file.metadata().map_err(CriuError::io("look at", path))?.is_file() {
        return Err(CriuError::image(path, "is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(CriuError::io("read", path))?;
    Ok(bytes)
}

/// Appends an entry to an image.
pub(super) fn put_entry(path: &Path, out: &mut Vec<u8>, entry: &[u8]) -> Result<()> {
    let size = u32::try_from(entry.len()).map_err(|_| CriuError::image(path, "an entry is too long"))?;
    out.extend(size.to_le_bytes());
    out.extend(entry);
    Ok(())
}

/// Gives an image other bytes: all of them or none.
pub(super) fn replace(path: &Path, fresh: &[u8]) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.new"));
    let mut file = File::create(&temporary).map_err(CriuError::io("create", &temporary))?;
    file.write_all(fresh).map_err(CriuError::io("write", &temporary))?;
    file.sync_all().map_err(CriuError::io("sync", &temporary))?;
    fs::rename(&temporary, path).map_err(CriuError::io("rename", &temporary))
}

pub(super) fn one<M: Message + Default>(path: &Path, bytes: &[u8], magic: u32) -> Result<M> {
    let mut all = all(path, bytes, magic)?;
    match (all.pop(), all.len()) {
        (Some(only), 0) => Ok(only),
        (Some(_), more) => {
            Err(CriuError::image(path, format!("has {} entries where one is expected", more + 1)))
        }
        (None, _) => Err(CriuError::image(path, "has no entry")),
    }
}

pub(super) fn all<M: Message + Default>(path: &Path, bytes: &[u8], magic: u32) -> Result<Vec<M>> {
    let mut entries = Entries::new(path, bytes, magic)?;
    let mut messages = Vec::new();
    while let Some(message) = entries.next_message()? {
        messages.push(message);
    }
    Ok(messages)
}

pub(super) fn pagemap(path: &Path, bytes: &[u8]) -> Result<Pagemap> {
    let mut entries = Entries::new(path, bytes, magic::PAGEMAP)?;
    let head: PagemapHead = entries.next_message()?.ok_or_else(|| CriuError::image(path, "has no head"))?;
    let mut runs = Vec::new();
    while let Some(run) = entries.next_message::<PagemapEntry>()? {
        runs.push(run);
    }
    Ok(Pagemap { pages_id: head.pages_id, entries: runs })
}

/// An image file of these entries.
#[cfg(test)]
pub(super) fn image_of(magic: u32, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(COMMON.to_le_bytes());
    bytes.extend(magic.to_le_bytes());
    for entry in entries {
        bytes.extend(u32::try_from(entry.len()).unwrap().to_le_bytes());
        bytes.extend(entry);
    }
    bytes
}
