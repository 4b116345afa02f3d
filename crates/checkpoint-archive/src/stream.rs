//! Compression, and how much may come out of it.
//!
//! A few kilobytes of zstd can become terabytes. So what comes out is counted as it comes, against what went in ([`Budget`]), and the stream
//! fails before the disk is full. The budget is one for all streams of an archive: a compressed layer in a compressed file does not
//! multiply.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::io_error;

use crate::error::{ArchiveError, Result};
use crate::limits::Limits;

/// How an archive is, or shall be, compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip, which everything reads.
    Gzip,
    /// zstd, podman's own choice.
    Zstd,
}

impl Compression {
    /// What the name of a file asks for: `x.tar.gz`, `x.tgz`, `x.tar.zst`; anything else is plain.
    pub fn of_name(name: &[u8]) -> Self {
        let ends = |suffix: &[u8]| name.to_ascii_lowercase().ends_with(suffix);
        if ends(b".gz") || ends(b".tgz") {
            Self::Gzip
        } else if ends(b".zst") || ends(b".zstd") {
            Self::Zstd
        } else {
            Self::None
        }
    }
}

/// What was read of the file, and what came out of it, for all streams of one archive.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limits: Limits,
    read: Arc<AtomicU64>,
    plain: Arc<AtomicU64>,
}

/// That the budget is used up, on its way through readers that know of I/O only.
#[derive(Debug)]
struct Overdrawn(u64);

impl fmt::Display for Overdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} bytes come out of it", self.0)
    }
}

impl std::error::Error for Overdrawn {}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, read: Arc::default(), plain: Arc::default() }
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        let plain = self.plain.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let allowed = self.limits.allowed(self.read.load(Ordering::Relaxed));
        if plain > allowed {
            return Err(io::Error::other(Overdrawn(allowed)));
        }
        Ok(())
    }
}

/// What went wrong while something of the archive was read.
pub(crate) fn read_failed(error: io::Error) -> ArchiveError {
    if let Some(Overdrawn(most)) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return ArchiveError::TooMuch { what: "bytes", most: *most };
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::damaged("it ends too early"),
        // What a decompressor says of bytes that it does not understand.
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
            ArchiveError::damaged(error.to_string())
        }
        _ => io_error("read", "the archive")(error).into(),
    }
}

/// A part that is held in memory.
pub(crate) fn small(input: &mut dyn Read, size: u64, most: u64) -> Result<Vec<u8>> {
    if size > most {
        return Err(ArchiveError::TooMuch { what: "bytes of JSON", most });
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    input.read_exact(&mut bytes).map_err(read_failed)?;
    Ok(bytes)
}

/// Hands content on to somebody who wraps errors, and remembers what really went wrong.
pub(crate) struct Remembering<'a> {
    input: &'a mut dyn Read,
    failed: Option<io::Error>,
}

impl<'a> Remembering<'a> {
    pub(crate) fn new(input: &'a mut dyn Read) -> Self {
        Self { input, failed: None }
    }

    /// What became of it: an error in the archive comes before one of whoever took it.
    pub(crate) fn result<T>(self, taken: Result<T>) -> Result<T> {
        self.failed.map_or(taken, |error| Err(read_failed(error)))
    }
}

impl Read for Remembering<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer).map_err(|error| {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.failed.get_or_insert(error);
            copy
        })
    }
}

/// The file as it is, counted.
struct Counted<R> {
    input: R,
    budget: Budget,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.budget.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// What comes out, counted.
pub(crate) struct Plain<'a> {
    output: Box<dyn Read + 'a>,
    /// None where the same bytes were counted before.
    budget: Option<Budget>,
}

impl Read for Plain<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.output.read(buffer)?;
        if let Some(budget) = &self.budget {
            budget.spend(read)?;
        }
        Ok(read)
    }
}

impl fmt::Debug for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").field("budget", &self.budget).finish_non_exhaustive()
    }
}

/// The file that was given. What it decompresses to is allowed in proportion to it.
pub(crate) fn outer<'a>(input: impl Read + 'a, budget: &Budget) -> Result<Plain<'a>> {
    plain(Counted { input, budget: budget.clone() }, budget)
}

/// A stream that was found in the file.
pub(crate) fn plain<'a>(input: impl Read + 'a, budget: &Budget) -> Result<Plain<'a>> {
    let (output, _) = decompressed(input)?;
    Ok(Plain { output, budget: Some(budget.clone()) })
}

/// The same for one whose bytes were counted as they are: only what decompression makes of them is new.
pub(crate) fn within<'a>(input: impl Read + 'a, budget: &Budget) -> Result<Plain<'a>> {
    let (output, is_compressed) = decompressed(input)?;
    Ok(Plain { output, budget: is_compressed.then(|| budget.clone()) })
}

/// What comes out of a stream, and whether it was compressed.
fn decompressed<'a>(input: impl Read + 'a) -> Result<(Box<dyn Read + 'a>, bool)> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    // A buffer that was filled has what the first read gave, which of a pipe can be a single byte.
    let mut head = Vec::new();
    (&mut input).take(6).read_to_end(&mut head).map_err(read_failed)?;
    let whole = io::Cursor::new(head.clone()).chain(input);
    Ok(match head.as_slice() {
        [0x1f, 0x8b, ..] => (Box::new(flate2::bufread::MultiGzDecoder::new(whole)), true),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => (Box::new(zstd_decoder(whole).map_err(read_failed)?), true),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => return Err(ArchiveError::Compression { name: "xz" }),
        [b'B', b'Z', b'h', ..] => return Err(ArchiveError::Compression { name: "bzip2" }),
        _ => (Box::new(whole), false),
    })
}

fn zstd_decoder<'a>(input: impl BufRead + 'a) -> io::Result<impl Read + 'a> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
    // 128 MiB, what `zstd` itself takes without being asked.
    decoder.window_log_max(27)?;
    Ok(decoder)
}

/// A file that is being written, compressed.
pub(crate) enum Compressor<W: Write> {
    None(W),
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Compressor<W> {
    pub(crate) fn new(out: W, how: Compression) -> io::Result<Self> {
        Ok(match how {
            Compression::None => Self::None(out),
            Compression::Gzip => Self::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::fast())),
            Compression::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(out, 1)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
        })
    }

    /// Writes what is left, and gives the file back.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Self::None(out) => Ok(out),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::None(out) => out.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::None(out) => out.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(bytes: &[u8], how: Compression) -> Vec<u8> {
        let mut out = Compressor::new(Vec::new(), how).unwrap();
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn read(bytes: &[u8], limits: Limits) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        outer(bytes, &Budget::new(limits))?.read_to_end(&mut out).map_err(read_failed)?;
        Ok(out)
    }

    #[test]
    fn each_compression_is_known_by_its_first_bytes() {
        let text = b"abc".repeat(1000);
        for how in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let mut file = compressed(&text, how);
            assert_eq!(read(&file, Limits::default()).unwrap(), text, "{how:?}");
            // A second stream behind the first is read by everybody else, too.
            file.extend(compressed(b"more", how));
            assert_eq!(read(&file, Limits::default()).unwrap().len(), 3004, "{how:?}");
        }
        let xz = [0xfd, b'7', b'z', b'X', b'Z', 0, 0];
        assert_eq!(read(&xz, Limits::default()).unwrap_err().code(), "IJ-A003");
        assert_eq!(read(b"BZh91AY", Limits::default()).unwrap_err().code(), "IJ-A003");
    }

    #[test]
    fn a_stream_that_is_cut_is_damaged_and_not_short() {
        for how in [Compression::Gzip, Compression::Zstd] {
            let file = compressed(&(0..100_000u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>(), how);
            let error = read(&file[..file.len() / 2], Limits::default()).unwrap_err();
            assert_eq!(error.code(), "IJ-A010", "{how:?}: {error}");
        }
    }

    #[test]
    fn a_bomb_goes_off_at_the_limit_and_not_later() {
        let zeros = vec![0; 8 << 20];
        for how in [Compression::Gzip, Compression::Zstd] {
            let file = compressed(&zeros, how);
            assert!(file.len() < zeros.len() / 200, "{how:?}");
            let budget = Budget::new(Limits { bytes: Some(1 << 20), ..Limits::default() });
            let mut out = Vec::new();
            let error = outer(&file[..], &budget).unwrap().read_to_end(&mut out).map_err(read_failed);
            assert_eq!(error.unwrap_err().code(), "IJ-A020", "{how:?}");
            assert!(out.len() <= 1 << 20, "{how:?}: {}", out.len());
        }
    }

    #[test]
    fn without_a_number_the_limit_grows_with_the_file() {
        let limits = Limits::default();
        assert_eq!(limits.allowed(0), 1 << 30);
        assert_eq!(limits.allowed(1 << 30), 201 << 30);
        assert_eq!(limits.allowed(u64::MAX), u64::MAX);
        assert_eq!(Limits { bytes: Some(7), ..limits }.allowed(1 << 40), 7);
    }

    #[test]
    fn two_streams_of_one_archive_share_their_budget() {
        let budget = Budget::new(Limits { bytes: Some(1000), ..Limits::default() });
        let mut out = Vec::new();
        outer(&[1; 600][..], &budget).unwrap().read_to_end(&mut out).unwrap();
        let error = plain(&[1; 600][..], &budget).unwrap().read_to_end(&mut out).unwrap_err();
        assert_eq!(read_failed(error).code(), "IJ-A020");
    }

    #[test]
    fn names_say_how_to_compress() {
        for (name, how) in [
            ("a.tar", Compression::None),
            ("a.tar.gz", Compression::Gzip),
            ("A.TGZ", Compression::Gzip),
            ("a.tar.zst", Compression::Zstd),
            ("a", Compression::None),
        ] {
            assert_eq!(Compression::of_name(name.as_bytes()), how, "{name}");
        }
    }
}
