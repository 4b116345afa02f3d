//! A tar file, entry by entry, as it streams by.

use std::io::{self, Read};

use super::header::Header;
use super::pax::Records;
use super::{BLOCK, Entry, Kind};
use crate::error::{ArchiveError, Result, shown};
use crate::limits::Limits;
use crate::stream::read_failed;

/// Records of one entry. Extended attributes are up to 64 KiB, and a file has few.
const MOST_RECORDS: u64 = 1 << 20;
/// Zeros behind the end: tar fills up its last record of 10 KiB, and no program writes more than a megabyte at a time.
const MOST_PADDING: u64 = 1 << 20;

/// Reads entries. The content of an entry is what it gives as a reader, until the next one is asked for.
#[derive(Debug)]
pub struct TarReader<R> {
    input: R,
    limits: Limits,
    /// Content of the entry that was not read yet, and what fills up its last block.
    left: u64,
    padding: u64,
    ended: bool,
}

impl<R: Read> TarReader<R> {
    /// Over what was decompressed, if it was compressed.
    pub fn new(input: R, limits: &Limits) -> Self {
        Self { input, limits: *limits, left: 0, padding: 0, ended: false }
    }

    /// The next entry; `None` after the last, when nothing but zeros was left.
    pub fn next_entry(&mut self) -> Result<Option<Entry>> {
        if self.ended {
            return Ok(None);
        }
        self.skip()?;
        let mut before = Before::default();
        loop {
            let Some(header) = self.header()? else {
                if before.is_anything() {
                    return Err(ArchiveError::damaged("it ends between the name of an entry and the entry"));
                }
                self.end()?;
                return Ok(None);
            };
            let wrong = |detail: String| ArchiveError::damaged(detail);
            match header.kind {
                b'x' => {
                    let bytes = self.extension(header.size)?;
                    before.records(Records::parse(&bytes).map_err(wrong)?).map_err(wrong)?;
                }
                b'L' => {
                    let name = self.long_name(header.size)?;
                    before.name(name).map_err(wrong)?;
                }
                b'K' => {
                    let link = self.long_name(header.size)?;
                    before.link(link).map_err(wrong)?;
                }
                _ => {
                    let entry = self.entry(header, before)?;
                    self.left = if entry.kind == Kind::File { entry.size } else { 0 };
                    self.padding = padding(self.left);
                    return Ok(Some(entry));
                }
            }
        }
    }

    fn header(&mut self) -> Result<Option<Header>> {
        let mut block = [0; BLOCK];
        self.input.read_exact(&mut block).map_err(read_failed)?;
        Header::parse(&block).map_err(ArchiveError::damaged)
    }

    fn entry(&self, header: Header, before: Before) -> Result<Entry> {
        let Before { records, name, link } = before;
        let records = records.unwrap_or_default();
        let path = records.path.or(name).unwrap_or(header.name);
        let link = records.link.or(link).unwrap_or(header.link);
        let refused = |what| Err(ArchiveError::Kind { name: shown(&path), what });
        if path.len() > self.limits.path || link.len() > self.limits.path {
            return Err(ArchiveError::Name { name: shown(&path), why: "it is too long" });
        }
        let size = records.size.unwrap_or(header.size);
        let kind = match header.kind {
            // A name with a slash at its end was a directory before there were types.
            b'0' | 0 if path.ends_with(b"/") => return refused("a file with the name of a directory"),
            b'0' | 0 => Kind::File,
            b'1' => Kind::HardLink(link.clone()),
            b'2' => Kind::Symlink(link.clone()),
            b'3' => Kind::Char(header.major, header.minor),
            b'4' => Kind::Block(header.major, header.minor),
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            b'g' => return refused("a record for all that follows"),
            b'S' => return refused("a sparse file"),
            _ => return refused("something that has no name here"),
        };
        if kind != Kind::File && size != 0 {
            return refused("no file, and has content");
        }
        if !matches!(kind, Kind::HardLink(_) | Kind::Symlink(_)) && !link.is_empty() {
            return refused("no link, and leads somewhere");
        }
        let id = |id: u64| u32::try_from(id).map_err(|_| ArchiveError::damaged("a user without a number"));
        Ok(Entry {
            kind,
            size,
            mode: header.mode & 0o7777,
            uid: id(records.uid.unwrap_or(header.uid))?,
            gid: id(records.gid.unwrap_or(header.gid))?,
            mtime: records.mtime.unwrap_or((header.mtime, 0)),
            xattrs: records.xattrs.into_iter().collect(),
            path,
        })
    }

    /// What stands in an entry of its own.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>> {
        if size > MOST_RECORDS {
            return Err(ArchiveError::TooMuch { what: "bytes of records", most: MOST_RECORDS });
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
        self.input.read_exact(&mut bytes).map_err(read_failed)?;
        self.padding = padding(size);
        self.skip()?;
        Ok(bytes)
    }

    /// A name of GNU's, which ends with a NUL.
    fn long_name(&mut self, size: u64) -> Result<Vec<u8>> {
        let bytes = self.extension(size)?;
        match bytes.strip_suffix(b"\0").unwrap_or(&bytes) {
            name if name.is_empty() || name.contains(&0) => {
                Err(ArchiveError::Name { name: shown(&bytes), why: "it has a NUL in it, or nothing" })
            }
            name => Ok(name.to_vec()),
        }
    }

    /// Goes to the next header.
    fn skip(&mut self) -> Result<()> {
        let rest = self.left + self.padding;
        (self.left, self.padding) = (0, 0);
        let skipped = io::copy(&mut (&mut self.input).take(rest), &mut io::sink()).map_err(read_failed)?;
        if skipped < rest {
            return Err(ArchiveError::damaged("it ends too early"));
        }
        Ok(())
    }

    /// One block of zeros was met. There is a second one, and then nothing that a program with other habits could read.
    fn end(&mut self) -> Result<()> {
        self.ended = true;
        let mut buffer = [0; 8192];
        let mut zeros = 0;
        loop {
            let read = self.input.read(&mut buffer).map_err(read_failed)?;
            if read == 0 {
                break;
            }
            zeros += read as u64;
            if buffer.iter().take(read).any(|byte| *byte != 0) {
                return Err(ArchiveError::damaged("there is something behind its end"));
            }
            if zeros > MOST_PADDING {
                return Err(ArchiveError::TooMuch { what: "bytes behind its end", most: MOST_PADDING });
            }
        }
        if zeros < BLOCK as u64 {
            return Err(ArchiveError::damaged("it ends too early"));
        }
        Ok(())
    }
}

impl<R: Read> Read for TarReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let part = buffer.get_mut(..most).unwrap_or_default();
        if part.is_empty() {
            return Ok(0);
        }
        let read = self.input.read(part)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

/// What was said of an entry before it came.
#[derive(Default)]
struct Before {
    records: Option<Records>,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

impl Before {
    fn is_anything(&self) -> bool {
        self.records.is_some() || self.name.is_some() || self.link.is_some()
    }

    fn records(&mut self, records: Records) -> Result<(), String> {
        if self.is_anything() {
            return Err("an entry is named twice".to_owned());
        }
        self.records = Some(records);
        Ok(())
    }

    fn name(&mut self, name: Vec<u8>) -> Result<(), String> {
        if self.records.is_some() || self.name.replace(name).is_some() {
            return Err("an entry is named twice".to_owned());
        }
        Ok(())
    }

    fn link(&mut self, link: Vec<u8>) -> Result<(), String> {
        if self.records.is_some() || self.link.replace(link).is_some() {
            return Err("an entry is named twice".to_owned());
        }
        Ok(())
    }
}
