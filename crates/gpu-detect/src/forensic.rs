//! Reading memory through a window that is smaller than it: for forensics, and for nothing else.
//!
//! A GPU shows its memory to the CPU through a PCI window, the *aperture*. Where the window is smaller than the memory it is slid
//! along: set its base, read what it shows, set it further on. What comes out are bytes. It is never a snapshot that restores:
//! the page tables that say which bytes are whose, the channels with work in flight, and the contexts, streams and modules
//! that the driver keeps in its own memory and on the GPU are not among them, and nothing but the driver could put them back.
//! Besides, the GPU goes on working while the window moves, so the pieces are of different moments. Therefore no [`Strategy`]
//! leads here, and the whole module is behind a feature of the crate.
//!
//! Only reading is here. How the base of a real GPU's window is set is the driver's own business and not public, so no aperture of
//! real hardware is here either: whoever has one brings it as an [`Aperture`]. [`FileAperture`] is a window onto a file, such
//! as a dump of device memory.
//!
//! [`Strategy`]: crate::Strategy

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// A window onto a larger memory.
pub trait Aperture {
    /// How large the memory is.
    fn memory(&self) -> u64;

    /// How much of it shows at a time; never 0.
    fn window(&self) -> u64;

    /// What the base of the window must be a multiple of; never 0.
    fn alignment(&self) -> u64 {
        1
    }

    /// Lets the window begin at `base`.
    fn slide(&mut self, base: u64) -> io::Result<()>;

    /// Fills `into` from the window, beginning at `offset` in it. The caller stays inside the window and the memory.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

/// What could not be read; its place in the output is filled with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Where in the memory it begins.
    pub start: u64,
    /// Its length.
    pub len: u64,
}

/// What a capture gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Captured {
    /// How many bytes were written, gaps included.
    pub bytes: u64,
    /// How often the window was moved.
    pub slides: u64,
    /// What could not be read.
    pub gaps: Vec<Gap>,
}

/// Copies `len` bytes from `start` on, in pieces of at most `piece` bytes, sliding the window as needed.
///
/// A piece that cannot be read becomes a [`Gap`]: a lost page is no reason to lose the rest. A window that cannot be moved, a range
/// beyond the memory and an output that fails are errors.
pub fn capture(
    aperture: &mut dyn Aperture,
    start: u64,
    len: u64,
    piece: usize,
    out: &mut dyn Write,
) -> io::Result<Captured> {
    let refuse = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    let end = start.checked_add(len).filter(|end| *end <= aperture.memory());
    let end = end.ok_or_else(|| refuse("the range goes beyond the memory"))?;
    let (window, alignment) = (aperture.window(), aperture.alignment());
    if window == 0 || alignment == 0 || alignment > window || piece == 0 {
        return Err(refuse("a window, an alignment within it and a piece are needed"));
    }
    let mut buffer = vec![0; piece];
    let mut captured = Captured::default();
    let mut at = start;
    let mut base = None;
    while at < end {
        // The last window of a memory may hang over its end, but its base must be a good one.
        let wanted = at - at % alignment;
        let shown = match base {
            Some(base) if at - base < window => base,
            _ => {
                aperture.slide(wanted)?;
                captured.slides += 1;
                base = Some(wanted);
                wanted
            }
        };
        let room = (window - (at - shown)).min(end - at);
        let now = usize::try_from(room).unwrap_or(usize::MAX).min(piece);
        let into = &mut buffer[..now];
        if aperture.read(at - shown, into).is_err() {
            into.fill(0);
            add_gap(&mut captured.gaps, at, now as u64);
        }
        out.write_all(into)?;
        captured.bytes += now as u64;
        at += now as u64;
    }
    Ok(captured)
}

fn add_gap(gaps: &mut Vec<Gap>, start: u64, len: u64) {
    match gaps.last_mut() {
        Some(last) if last.start + last.len == start => last.len += len,
        _ => gaps.push(Gap { start, len }),
    }
}

/// A window onto a file.
#[derive(Debug)]
pub struct FileAperture {
    file: File,
    memory: u64,
    window: u64,
    base: u64,
}

impl FileAperture {
    /// Shows `window` bytes of `file` at a time.
    pub fn new(mut file: File, window: u64) -> io::Result<Self> {
        let memory = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, memory, window, base: 0 })
    }
}

impl Aperture for FileAperture {
    fn memory(&self) -> u64 {
        self.memory
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn slide(&mut self, base: u64) -> io::Result<()> {
        self.base = base;
        Ok(())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.base + offset))?;
        self.file.read_exact(into)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Behaves as hardware would: shows its window only, insists on alignment, and has pages that cannot be read.
    struct Simulated {
        bytes: Vec<u8>,
        window: u64,
        alignment: u64,
        base: u64,
        broken: Vec<u64>,
    }

    impl Simulated {
        fn new(len: usize, window: u64, alignment: u64) -> Self {
            let bytes = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
            Self { bytes, window, alignment, base: 0, broken: Vec::new() }
        }
    }

    impl Aperture for Simulated {
        fn memory(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn window(&self) -> u64 {
            self.window
        }

        fn alignment(&self) -> u64 {
            self.alignment
        }

        fn slide(&mut self, base: u64) -> io::Result<()> {
            assert_eq!(base % self.alignment, 0, "the base {base} is not aligned");
            assert!(base < self.memory());
            self.base = base;
            Ok(())
        }

        fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
            let end = offset + into.len() as u64;
            assert!(end <= self.window, "{offset} to {end} is outside the window");
            let (from, to) = (self.base + offset, self.base + end);
            if self.broken.iter().any(|page| (from..to).contains(page)) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let range = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
            into.copy_from_slice(&self.bytes[range]);
            Ok(())
        }
    }

    #[test]
    fn a_file_is_read_through_a_small_window() {
        let bytes: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let mut aperture = FileAperture::new(file, 4096).unwrap();
        let mut out = Vec::new();
        let captured = capture(&mut aperture, 0, bytes.len() as u64, 1000, &mut out).unwrap();
        assert!(out == bytes);
        assert_eq!(captured, Captured { bytes: 400_000, slides: 98, gaps: vec![] });
    }

    #[test]
    fn what_cannot_be_read_is_a_gap() {
        let mut aperture = Simulated::new(1000, 300, 100);
        aperture.broken = vec![420, 430, 900];
        let mut out = Vec::new();
        let captured = capture(&mut aperture, 0, 1000, 10, &mut out).unwrap();
        let gap = |start, len| Gap { start, len };
        assert_eq!(captured.gaps, [gap(420, 20), gap(900, 10)]);
        assert_eq!(out[420..440], [0; 20]);
        assert_eq!(out[440..900], aperture.bytes[440..900]);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut out = Vec::new();
        let mut try_it = |start, len, window, piece| {
            let mut aperture = Simulated::new(1000, window, 1);
            capture(&mut aperture, start, len, piece, &mut out).unwrap_err().kind()
        };
        for (start, len, window, piece) in
            [(0, 1001, 100, 10), (1000, 1, 100, 10), (u64::MAX, 2, 100, 10), (0, 10, 0, 10), (0, 10, 100, 0)]
        {
            assert_eq!(try_it(start, len, window, piece), io::ErrorKind::InvalidInput);
        }
    }

    proptest! {
        #[test]
        fn any_range_through_any_window(
            len in 1usize..3000, window in 1u64..700, alignment in 1u64..64, piece in 1usize..500, a: u16, b: u16,
        ) {
            let alignment = alignment.min(window);
            let mut aperture = Simulated::new(len, window, alignment);
            let (a, b) = (usize::from(a) % (len + 1), usize::from(b) % (len + 1));
            let (start, end) = (a.min(b), a.max(b));
            let mut out = Vec::new();
            let captured =
                capture(&mut aperture, start as u64, (end - start) as u64, piece, &mut out).unwrap();
            prop_assert_eq!(captured.bytes, (end - start) as u64);
            prop_assert_eq!(&out[..], &aperture.bytes[start..end]);
        }
    }
}
