//! A tar file, written so that every program reads the same: POSIX's headers, and its records where a header is too small.

use std::io::{self, Read, Write};

use super::header::Header;
use super::pax::Records;
use super::{BLOCK, Entry, Kind};

/// Writes entries one after the other.
#[derive(Debug)]
pub struct TarWriter<W> {
    out: W,
}

impl<W: Write> TarWriter<W> {
    /// A new tar file.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// An entry without content.
    pub fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        self.put(entry, &mut io::empty())
    }

    /// An entry with as much content as it says. Content that is shorter or longer is an error, and then the file is none.
    pub fn put(&mut self, entry: &Entry, content: &mut dyn Read) -> io::Result<()> {
        self.header(entry)?;
        let size = if entry.kind == Kind::File { entry.size } else { 0 };
        let written = io::copy(&mut content.take(size), &mut self.out)?;
        if written < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if content.read(&mut [0])? != 0 {
            return Err(io::Error::other("a file has grown while it was read"));
        }
        self.fill(size)
    }

    /// Ends the file, and gives back where it was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        Ok(self.out)
    }

    fn fill(&mut self, size: u64) -> io::Result<()> {
        let rest = usize::try_from(size.wrapping_neg() % BLOCK as u64).unwrap_or_default();
        self.out.write_all([0; BLOCK].get(..rest).unwrap_or_default())
    }

    fn header(&mut self, entry: &Entry) -> io::Result<()> {
        let (kind, link, (major, minor)) = match &entry.kind {
            Kind::File => (b'0', &[][..], (0, 0)),
            Kind::HardLink(target) => (b'1', target.as_slice(), (0, 0)),
            Kind::Symlink(target) => (b'2', target.as_slice(), (0, 0)),
            Kind::Char(major, minor) => (b'3', &[][..], (*major, *minor)),
            Kind::Block(major, minor) => (b'4', &[][..], (*major, *minor)),
            Kind::Directory => (b'5', &[][..], (0, 0)),
            Kind::Fifo => (b'6', &[][..], (0, 0)),
        };
        let mut path = entry.path.clone();
        if entry.kind == Kind::Directory && !path.ends_with(b"/") {
            path.push(b'/');
        }
        let (uid, gid) = (u64::from(entry.uid), u64::from(entry.gid));
        let time_fits = entry.mtime.1 == 0 && u64::try_from(entry.mtime.0).is_ok_and(Header::large_fits);
        let size = if entry.kind == Kind::File { entry.size } else { 0 };
        let records = Records {
            path: (!Header::fits(&path)).then(|| path.clone()),
            link: (!Header::fits(link)).then(|| link.to_vec()),
            size: (!Header::large_fits(size)).then_some(size),
            uid: (!Header::owner_fits(uid)).then_some(uid),
            gid: (!Header::owner_fits(gid)).then_some(gid),
            mtime: (!time_fits).then_some(entry.mtime),
            xattrs: entry.xattrs.iter().cloned().collect(),
        };
        let bytes = records.bytes();
        if !bytes.is_empty() {
            let name = b"PaxHeaders/entry".to_vec();
            let header =
                Header { name, mode: 0o600, size: bytes.len() as u64, kind: b'x', ..Header::default() };
            self.out.write_all(&header.block())?;
            self.out.write_all(&bytes)?;
            self.fill(bytes.len() as u64)?;
        }
        let name = if records.path.is_some() { b"long-name".to_vec() } else { path };
        let header = Header {
            name,
            mode: entry.mode,
            uid: if records.uid.is_some() { 0 } else { uid },
            gid: if records.gid.is_some() { 0 } else { gid },
            size: if records.size.is_some() { 0 } else { size },
            mtime: entry.mtime.0.max(0),
            kind,
            link: if records.link.is_some() { b"long-name".to_vec() } else { link.to_vec() },
            major,
            minor,
        };
        self.out.write_all(&header.block())
    }
}
