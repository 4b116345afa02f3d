//! Content that can be made again from two numbers.
//!
//! A *line* is a history of one memory and one file; a *generation* is a point in it. In each generation one page in
//! sixteen, and one piece of the file in eight, gets new content; so neighbours share most of theirs, as snapshots do.
//! What a page holds depends on the generation that wrote it last, which is found by asking backwards. Nothing has to be
//! replayed, and nothing kept.

use std::io;

use cas_core::memory::{PAGE, PageSource, Region};

/// One page in this many changes in each generation.
const PAGE_CHANGES: u64 = 16;
/// One piece of the file in this many does.
const PIECE_CHANGES: u64 = 8;
/// Bytes of a piece of the file.
const PIECE: usize = 8 << 10;
/// Where the two halves of the memory begin: far apart, so that the map has several nodes.
const STARTS: [u64; 2] = [0x0040_0000, 0x7f12_3456_7000];

/// The content of one snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Model {
    /// Which history.
    pub line: u64,
    /// Which point in it.
    pub generation: u64,
    /// How many pages the memory has at most.
    pub pages: u64,
}

/// Reproducible random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// Fills `out` with noise.
    pub fn fill(&mut self, out: &mut [u8]) {
        for word in out.chunks_mut(8) {
            let bytes = self.number().to_le_bytes();
            word.copy_from_slice(&bytes[..word.len()]);
        }
    }
}

/// One number from several.
fn mix(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, number| Rng(sum ^ number.rotate_left(17)).number())
}

impl Model {
    /// The same history, some generations later.
    pub fn later(self, generations: u64) -> Self {
        Self { generation: self.generation + generations, ..self }
    }

    /// The generation that wrote item `number` last.
    fn written(&self, number: u64, one_in: u64) -> u64 {
        let wrote = |generation: &u64| mix(&[self.line, number, *generation]).is_multiple_of(one_in);
        (1..=self.generation).rev().find(wrote).unwrap_or(0)
    }

    /// Fills in the page at `address`; `false` if the memory has none there.
    pub fn page(&self, address: u64, out: &mut [u8]) -> bool {
        let mut first = 0;
        for region in self.regions() {
            if (region.start..region.start + region.len).contains(&address) {
                self.fill_page(first + (address - region.start) / PAGE as u64, out);
                return true;
            }
            first += self.pages;
        }
        false
    }

    fn fill_page(&self, number: u64, out: &mut [u8]) {
        let mut rng = Rng(mix(&[self.line, number, self.written(number, PAGE_CHANGES), 1]));
        match rng.below(8) {
            0 => out.fill(0),
            // Compresses well, and no two are alike.
            1..=3 => {
                out.fill(0x20);
                rng.fill(&mut out[..64]);
            }
            _ => rng.fill(out),
        }
    }

    /// How many pages there are.
    pub fn present(&self) -> u64 {
        self.regions().iter().map(|region| region.len / PAGE as u64).sum()
    }

    /// The file.
    pub fn file(&self) -> Vec<u8> {
        let pieces = self.pages / 16 + self.generation % 3;
        let mut out = vec![0; usize::try_from(pieces).unwrap_or(0) * PIECE + 77];
        for (number, piece) in (1 << 32..).zip(out.chunks_mut(PIECE)) {
            Rng(mix(&[self.line, number, self.written(number, PIECE_CHANGES), 2])).fill(piece);
        }
        out
    }
}

impl PageSource for Model {
    fn regions(&self) -> Vec<Region> {
        // The second half shrinks and grows: pages come and go in a process.
        let half = self.pages / 2;
        let lengths = [half, half - self.generation % 5];
        let region = |(start, pages): (u64, u64)| Region { start, len: pages * PAGE as u64 };
        STARTS.into_iter().zip(lengths).map(region).collect()
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        for (address, page) in (address..).step_by(PAGE).zip(buffer.chunks_mut(PAGE)) {
            if !self.page(address, page) {
                return Err(io::ErrorKind::NotFound.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(model: &Model) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for region in model.regions() {
            for address in (region.start..region.start + region.len).step_by(PAGE) {
                let mut page = vec![1; PAGE];
                assert!(model.page(address, &mut page));
                out.push(page);
            }
        }
        out
    }

    #[test]
    fn a_generation_changes_some_pages_and_keeps_most() {
        let model = Model { line: 7, generation: 9, pages: 512 };
        let (one, next) = (pages(&model), pages(&model.later(1)));
        assert_eq!(one, pages(&model));
        assert_eq!(one.len() as u64, model.present());
        let changed = one.iter().zip(&next).filter(|(one, next)| one != next).count();
        assert!((10..80).contains(&changed), "{changed} of {} pages changed", one.len());
        assert!(one.iter().any(|page| page.iter().all(|byte| *byte == 0)));
        assert_ne!(model.file(), model.later(1).file());
        assert_ne!(one, pages(&Model { line: 8, ..model }));
    }
}
