//! What the memory of an analysis kernel holds, one block of at most 1 MiB at a time.
//!
//! The real images that the figures are calibrated against come from an ipykernel that holds a random array, rounded
//! sin() values, a zeroed array, picture-like bytes, a data frame of four million rows with two string columns, and
//! a dict with 700,000 entries. Each [`Content`] imitates one of these as CPython 3.11 lays it out: pools of 16 KiB
//! with a 48 byte header, objects of one size class per pool, a reference count and a type pointer in front of each.
//! Text comes from a vocabulary in which few words are frequent and many are rare, as in any real column of labels.
//!
//! A block depends only on the seed, the region and the block's number, so blocks can be made in any order.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "bytes are made here: values are cut to the width they are stored in"
)]

use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// A page of memory.
pub(crate) const PAGE: usize = 4096;
/// Regions are made in blocks of this size.
pub(crate) const BLOCK: usize = 1 << 20;

const POOL: usize = 16 * 1024;
const POOL_HEADER: usize = 48;
/// Where objects live, for pointers that must look alike.
pub(crate) const ARENAS: u64 = 0x7f3a_4000_0000;
const STR_TYPE: u64 = 0x5581_29f1_bd20;
const INT_TYPE: u64 = 0x5581_29f1_9a40;
const FLOAT_TYPE: u64 = 0x5581_29f1_85e0;
/// One page in so many was touched and is zero again: freed and never used again, or calloc'ed and not yet filled.
const ZERO_PAGE_EVERY: u64 = 18;
const WORDS: usize = 4000;

/// What a region holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Content {
    /// Bytes without any structure.
    RandomBytes,
    /// `numpy.random.random`.
    RandomFloats,
    /// `numpy.zeros`, touched.
    Zeros,
    /// `numpy.round(numpy.sin(x / 100), 3)`.
    RoundedSin,
    /// 8 bit grey values of a picture.
    Picture,
    /// A column of numbers: measurements with two decimals, or small categories.
    Numbers,
    /// Objects in CPython's arenas: strings, ints, floats.
    Objects,
    /// A column of pointers to strings.
    Pointers,
    /// The table of a large dict: hash, key, value.
    DictTable,
    /// The malloc heap: a bit of everything in small pieces.
    Heap,
    /// The private pages of a shared library, or a stack: pointers among zeros.
    Library,
}

impl Content {
    /// Whether Python's objects are in it, so that touching objects writes to its pages.
    pub(crate) const fn has_objects(self) -> bool {
        matches!(self, Self::Objects | Self::Heap | Self::DictTable | Self::Pointers)
    }
}

/// Fills `out`, which is all zeros, with block number `block` of a region.
pub(crate) fn fill(content: Content, seed: u64, block: u64, out: &mut [u8]) {
    let mut rng = Rng::of(&[seed, content as u64, block]);
    match content {
        Content::RandomBytes => out.chunks_mut(8).for_each(|word| put(word, rng.next())),
        Content::RandomFloats => out.chunks_mut(8).for_each(|word| put(word, rng.unit().to_bits())),
        Content::Zeros => {}
        Content::RoundedSin => rounded_sin(block, out),
        Content::Picture => picture(&mut rng, block, out),
        Content::Numbers => numbers(&mut rng, block, out),
        Content::Objects => objects(&mut rng, block, out),
        Content::Pointers => pointers(&mut rng, block, out),
        Content::DictTable => dict_table(&mut rng, block, out),
        Content::Heap => heap(&mut rng, block, out),
        Content::Library => library(&mut rng, out),
    }
    if matches!(content, Content::Objects | Content::Heap) {
        for page in out.chunks_mut(PAGE) {
            if rng.below(ZERO_PAGE_EVERY) == 0 {
                page.fill(0);
            }
        }
    }
}

/// Changes a few bytes of a page as running Python does: a reference count here, a pointer or a value there.
pub(crate) fn edit_page(page: &mut [u8], rng: &mut Rng) {
    for _ in 0..=rng.below(3) {
        let at = rng.below((page.len() / 16) as u64) as usize * 16;
        let word = &mut page[at..at + 8];
        let old = get(word);
        match rng.below(10) {
            0..=6 => put(word, old.wrapping_add(1 + rng.below(3))),
            7 | 8 => put(word, ARENAS + (rng.below(1 << 24) << 4 | 8)),
            _ => put(word, (rng.unit() * 1e4).to_bits() | 1),
        }
    }
}

fn put(out: &mut [u8], word: u64) {
    let bytes = word.to_le_bytes();
    let len = out.len().min(8);
    out[..len].copy_from_slice(&bytes[..len]);
}

fn get(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

fn rounded_sin(block: u64, out: &mut [u8]) {
    let first = block * (BLOCK / 8) as u64;
    for (at, word) in out.chunks_mut(8).enumerate() {
        let x = (first + at as u64) as f64 * 1e-2;
        put(word, ((x.sin() * 1e3).round() / 1e3).to_bits());
    }
}

/// Rows of 1024 grey values: flat areas with edges, and every third strip a photograph with its noise.
fn picture(rng: &mut Rng, block: u64, out: &mut [u8]) {
    for (y, row) in out.chunks_mut(1024).enumerate() {
        let y = y as u64 + block * 1024;
        let sky = (y / 8 % 200) as u8;
        let photograph = (y / 64).is_multiple_of(3);
        for (x, value) in row.iter_mut().enumerate() {
            let shape = if (x as u64 / 128 + y / 96).is_multiple_of(2) { 24 } else { 0 };
            let noise = if photograph { (rng.next() & 31) as u8 } else { 0 };
            *value = sky.wrapping_add(shape).wrapping_add(noise);
        }
    }
}

fn numbers(rng: &mut Rng, block: u64, out: &mut [u8]) {
    match block % 4 {
        // measurements, two decimals
        0 => out.chunks_mut(8).for_each(|word| put(word, ((rng.unit() * 1e3).round() / 1e2).to_bits())),
        // a category of few values
        1 | 2 => out.chunks_mut(8).for_each(|word| put(word, rng.below(12))),
        // a row number
        _ => {
            let first = block * (BLOCK / 8) as u64;
            out.chunks_mut(8).enumerate().for_each(|(at, word)| put(word, first + at as u64));
        }
    }
}

/// A word of the vocabulary; low numbers are frequent. Words are syllables, 3 to 12 letters.
fn word(number: usize, text: &mut Vec<u8>) {
    const SYLLABLES: [&[u8]; 16] = [
        b"an", b"ber", b"co", b"da", b"el", b"fir", b"go", b"hil", b"in", b"ka", b"lo", b"mar", b"ni",
        b"ost", b"re", b"sun",
    ];
    let mut rest = number + 16;
    while rest > 0 {
        text.extend_from_slice(SYLLABLES[rest % 16]);
        rest /= 16;
    }
}

fn frequent_first(rng: &mut Rng) -> usize {
    let unit = rng.unit();
    (unit * unit * unit * WORDS as f64) as usize
}

/// Pools of one size class each; what a pool holds goes by its number.
fn objects(rng: &mut Rng, block: u64, out: &mut [u8]) {
    let mut text = Vec::with_capacity(64);
    for (number, pool) in out.chunks_mut(POOL).enumerate() {
        if pool.len() < POOL {
            break;
        }
        let serial = block * 64 + number as u64;
        put(&mut pool[..8], 200);
        put(&mut pool[8..16], ARENAS + serial * POOL as u64 + 0x3f40);
        put(&mut pool[16..24], ARENAS + (serial + 1) * POOL as u64);
        let body = &mut pool[POOL_HEADER..];
        match serial % 8 {
            // row keys: distinct, made one after the other; hashed once they were grouped by
            kind @ 0..=2 => {
                for (at, object) in body.chunks_exact_mut(64).enumerate() {
                    text.clear();
                    text.extend_from_slice(format!("user_{:07}", serial * 256 + at as u64).as_bytes());
                    string(object, 1, if kind == 0 { u64::MAX } else { rng.next() }, &text);
                }
            }
            // labels: two words, as read from a file, one object a row
            3 | 4 => {
                for object in body.chunks_exact_mut(80) {
                    text.clear();
                    word(frequent_first(rng), &mut text);
                    text.push(b' ');
                    word(frequent_first(rng) / 8, &mut text);
                    text.truncate(31);
                    string(object, 1, u64::MAX, &text);
                }
            }
            // keys of a dict: hashed
            5 => {
                for (at, object) in body.chunks_exact_mut(64).enumerate() {
                    text.clear();
                    text.extend_from_slice(format!("key{}", serial * 256 + at as u64).as_bytes());
                    string(object, 2, rng.next(), &text);
                }
            }
            // ints
            6 => {
                for (at, object) in body.chunks_exact_mut(32).enumerate() {
                    put(&mut object[..8], 1);
                    put(&mut object[8..16], INT_TYPE);
                    put(&mut object[16..24], 1);
                    put(&mut object[24..32], (serial * 512 + at as u64) & 0x3fff_ffff);
                }
            }
            // floats
            _ => {
                for object in body.chunks_exact_mut(24) {
                    put(&mut object[..8], 1);
                    put(&mut object[8..16], FLOAT_TYPE);
                    put(&mut object[16..24], ((rng.unit() * 1e4).round() / 1e2).to_bits());
                }
            }
        }
    }
}

/// A compact ASCII `str`: count, type, length, hash, state, the unused wchar pointer, then the text and a NUL.
fn string(object: &mut [u8], refcount: u64, hash: u64, text: &[u8]) {
    put(&mut object[..8], refcount);
    put(&mut object[8..16], STR_TYPE);
    put(&mut object[16..24], text.len() as u64);
    put(&mut object[24..32], hash);
    put(&mut object[32..40], 0xe4);
    let room = object.len() - 49;
    let text = &text[..text.len().min(room)];
    object[48..48 + text.len()].copy_from_slice(text);
}

/// Every other MiB is a column of distinct strings, in the order in which they were made; the rest points to a
/// few labels.
fn pointers(rng: &mut Rng, block: u64, out: &mut [u8]) {
    let first = block * (BLOCK / 8) as u64;
    for (at, slot) in out.chunks_mut(8).enumerate() {
        let target = if block.is_multiple_of(2) {
            let object = first + at as u64;
            ARENAS + object / 255 * POOL as u64 + POOL_HEADER as u64 + object % 255 * 64
        } else {
            ARENAS + 0x0200_0000 + (frequent_first(rng) / 4) as u64 * 80
        };
        put(slot, target);
    }
}

/// Entries of 24 bytes, two thirds of them used, as after doubling.
fn dict_table(rng: &mut Rng, block: u64, out: &mut [u8]) {
    let first = block * (BLOCK / 24) as u64;
    for (at, entry) in out.chunks_exact_mut(24).enumerate() {
        let serial = first + at as u64;
        if at % 64 < 42 {
            put(&mut entry[..8], rng.next());
            put(&mut entry[8..16], ARENAS + 0x0800_0000 + serial * 64);
            put(&mut entry[16..24], ARENAS + 0x0a00_0000 + serial * 32);
        }
    }
}

fn heap(rng: &mut Rng, block: u64, out: &mut [u8]) {
    for (number, piece) in out.chunks_mut(64 * 1024).enumerate() {
        let serial = block * 16 + number as u64;
        match serial % 8 {
            0 | 1 => objects(rng, serial, piece),
            2 => pointers(rng, serial | 1, piece),
            3 => dict_table(rng, serial, piece),
            4 => library(rng, piece),
            5 => text_lines(rng, piece),
            6 => picture(rng, serial, piece),
            _ => numbers(rng, serial, piece),
        }
    }
}

/// Source text and docstrings.
fn text_lines(rng: &mut Rng, out: &mut [u8]) {
    let mut text = Vec::with_capacity(out.len() + 64);
    while text.len() < out.len() {
        text.extend_from_slice(b"    ");
        for _ in 0..1 + rng.below(7) {
            word(frequent_first(rng), &mut text);
            text.push(b' ');
        }
        text.push(b'\n');
    }
    text.truncate(out.len());
    out.copy_from_slice(&text);
}

/// Relocated pointers and small numbers among zeros.
fn library(rng: &mut Rng, out: &mut [u8]) {
    let base = 0x7f3a_c000_0000 + (rng.below(1 << 16) << 12);
    for slot in out.chunks_exact_mut(8) {
        match rng.below(8) {
            0..=2 => put(slot, base + (rng.below(1 << 12) << 4)),
            3 => put(slot, rng.below(256)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_depends_on_seed_and_number_only() {
        let make = |seed, block| {
            let mut out = vec![0; BLOCK];
            fill(Content::Heap, seed, block, &mut out);
            out
        };
        assert_eq!(make(1, 2), make(1, 2));
        assert_ne!(make(1, 2), make(2, 2));
        assert_ne!(make(1, 2), make(1, 3));
    }

    #[test]
    fn an_edit_is_small_and_changes_the_page() {
        let mut rng = Rng::of(&[1]);
        for _ in 0..1000 {
            let mut page = vec![7; PAGE];
            edit_page(&mut page, &mut rng);
            let changed = page.iter().filter(|byte| **byte != 7).count();
            assert!((1..=24).contains(&changed), "{changed} bytes changed");
        }
    }
}
