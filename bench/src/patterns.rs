//! How memory changes between two snapshots.
//!
//! What a page store gains over one with larger blocks depends on how changed pages cluster, so the images B, C and D
//! reproduce the clustering that was measured on a real kernel of 2487 MiB: how many MiB are touched by a change when
//! one looks at pieces of 4 KiB, 16 KiB, 64 KiB and 1 MiB of the address space ([`PATTERNS`]). The four numbers are
//! met by choosing from the top down: so many blocks of 1 MiB, in them so many of 64 KiB with at least one in each,
//! in these so many of 16 KiB, and so on. Each chosen page then gets an edit of a few bytes
//! ([`content::edit_page`]), since real changes are a reference count here and a pointer there. S is the other extreme, as
//! many changed pages as in B, but no two of them in the same MiB: what a page store is for, and what blocks cannot do.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::content::{self, BLOCK, Content, PAGE};
use crate::image::{Image, Region, pages, region, reuse_or_make};
use crate::measure::{MIB, mib};
use crate::rng::Rng;

/// How many steps there are.
pub(crate) const STEPS: usize = 4;

/// The sizes of the pieces by which change is counted.
pub(crate) const PIECES: [u64; 4] = [4 << 10, 16 << 10, 64 << 10, 1 << 20];

/// Size of the real image that the patterns were measured on.
const MEASURED_MIB: f64 = 2487.0;

/// One step from a snapshot to the next, in MiB of an image of 2487 MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    /// "B" and so on.
    pub(crate) name: &'static str,
    /// What happened, for people.
    pub(crate) what: &'static str,
    /// Changed, by [`PIECES`].
    pub(crate) changed: [f64; 4],
    /// A new region of this size, part of `changed`.
    pub(crate) new: f64,
    /// What the new region holds.
    pub(crate) new_content: Content,
    /// A region that goes away.
    pub(crate) freed: Option<Content>,
    /// Whether pages of every content change, and not only those with objects in them.
    pub(crate) everywhere: bool,
}

/// The steps, each from the one before: three that were measured, and scattered changes.
pub(crate) const PATTERNS: [Pattern; STEPS] = [
    Pattern {
        name: "B",
        what: "`x += 1`",
        changed: [3.7, 9.4, 24.0, 59.0],
        new: 0.0,
        new_content: Content::Numbers,
        freed: None,
        everywhere: false,
    },
    Pattern {
        name: "C",
        what: "a new column, a groupby, 7000 scattered object edits",
        changed: [78.0, 169.0, 378.0, 413.0],
        new: 32.0,
        new_content: Content::Numbers,
        freed: None,
        everywhere: false,
    },
    Pattern {
        name: "D",
        what: "64 MiB new, 256 MiB freed, 12000 scattered writes",
        changed: [115.0, 263.0, 468.0, 508.0],
        new: 64.0,
        new_content: Content::RandomBytes,
        freed: Some(Content::Picture),
        everywhere: false,
    },
    Pattern {
        name: "S",
        what: "as many pages as B, each in a MiB of its own",
        changed: [3.7, 14.8, 59.2, 947.0],
        new: 0.0,
        new_content: Content::Numbers,
        freed: None,
        everywhere: true,
    },
];

/// Changed bytes by [`PIECES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changed(pub(crate) [u64; 4]);

impl Pattern {
    /// What an image of `len` bytes should change by.
    pub(crate) fn wanted_mib(&self, len: u64) -> [f64; 4] {
        self.changed.map(|changed| changed * mib(len) / MEASURED_MIB)
    }

    /// Makes the next image after `parent`. `first_len` is the length of image A, which everything scales with.
    pub(crate) fn apply(&self, parent: &Image, first_len: u64, seed: u64) -> Result<Image> {
        let stem =
            parent.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let path = parent.path.with_file_name(format!("{}{}.img", self.name, &stem[1..]));
        reuse_or_make(&path, || {
            let mut regions = parent.regions.clone();
            if let Some(freed) = self.freed {
                regions.retain(|region| region.content != freed);
            }
            let edits = self.choose_pages(&regions, first_len, seed)?;
            let new_len = pages(bytes_of(self.new * mib(first_len) / MEASURED_MIB));
            if new_len > 0 {
                regions.push(self.new_region(&regions, new_len, seed));
            }
            Image::assign_offsets(&mut regions);
            let image = Image { path: path.clone(), regions };
            let old = File::open(&parent.path).context("cannot open the parent image")?;
            let old_offset: HashMap<u64, u64> =
                parent.regions.iter().map(|old| (old.start, old.offset)).collect();
            image.write(|region, block, out| {
                let Some(offset) = old_offset.get(&region.start) else {
                    content::fill(region.content, region.seed, block, out);
                    return Ok(());
                };
                old.read_exact_at(out, offset + block * BLOCK as u64)
                    .context("cannot read the parent image")?;
                let first = region.start + block * BLOCK as u64;
                for page in edits.range(first..first + out.len() as u64) {
                    let at = usize::try_from(page.0 - first)?;
                    content::edit_page(&mut out[at..at + PAGE], &mut Rng::of(&[*page.1]));
                }
                Ok(())
            })?;
            Ok(image)
        })
    }

    /// Changes an image in place, keeping its regions: for long chains of snapshots. Returns how many pages changed.
    pub(crate) fn apply_in_place(&self, image: &Image, seed: u64) -> Result<usize> {
        let file =
            OpenOptions::new().read(true).write(true).open(&image.path).context("cannot open an image")?;
        let edits = self.choose_pages(&image.regions, image.len(), seed)?;
        let mut regions = image.regions.iter().peekable();
        let mut page = vec![0; PAGE];
        for (address, edit) in &edits {
            while regions.next_if(|region| region.start + region.len <= *address).is_some() {}
            let region = regions.peek().context("a page outside of all regions was chosen")?;
            let offset = region.offset + (address - region.start);
            file.read_exact_at(&mut page, offset)?;
            content::edit_page(&mut page, &mut Rng::of(&[*edit]));
            file.write_all_at(&page, offset)?;
        }
        Ok(edits.len())
    }

    /// A free place below the mappings: mmap goes downwards, so the newest is the lowest of them.
    fn new_region(&self, regions: &[Region], len: u64, seed: u64) -> Region {
        let lowest = regions.iter().map(|region| region.start).filter(|start| *start >> 40 == 0x7f).min();
        let start = lowest.unwrap_or(0x7f30_0000_0000) - len - 0x17_3000;
        region(start, len, self.new_content, seed ^ start)
    }

    /// Addresses of the pages to change, each with a seed for its edit.
    fn choose_pages(&self, regions: &[Region], first_len: u64, seed: u64) -> Result<BTreeMap<u64, u64>> {
        let mut rng = Rng::of(&[seed, u64::from(self.name.as_bytes()[0])]);
        // New pages count at each size, so only the rest is to be reached by edits. From large pieces to small.
        let scale = mib(first_len) / MEASURED_MIB;
        let count = |at: usize| {
            let bytes = bytes_of((self.changed[at] - self.new) * scale);
            usize::try_from((bytes + PIECES[at] / 2) / PIECES[at]).unwrap_or(usize::MAX).max(1)
        };
        let mut chosen: Vec<u64> = regions
            .iter()
            .filter(|region| match region.content {
                Content::Zeros => false,
                content => self.everywhere || content.has_objects(),
            })
            .flat_map(|region| {
                let first = region.start.div_ceil(MIB);
                let end = (region.start + region.len) / MIB;
                (first..end).map(|block| block * MIB)
            })
            .collect();
        ensure!(chosen.len() >= count(3), "pattern {} wants more blocks than the image has", self.name);
        rng.shuffle(&mut chosen);
        chosen.truncate(count(3));
        for at in (0..3).rev() {
            chosen = spread(&chosen, PIECES[at + 1] / PIECES[at], PIECES[at], count(at), &mut rng);
        }
        Ok(chosen.into_iter().map(|page| (page, rng.next())).collect())
    }
}

/// Chooses `count` pieces of `len` bytes, at least one in each parent; a parent holds `room` of them.
fn spread(parents: &[u64], room: u64, len: u64, count: usize, rng: &mut Rng) -> Vec<u64> {
    let mut chosen = Vec::with_capacity(count);
    let mut others = Vec::new();
    for parent in parents {
        let must = rng.below(room);
        for piece in 0..room {
            let address = parent + piece * len;
            if piece == must { chosen.push(address) } else { others.push(address) }
        }
    }
    rng.shuffle(&mut others);
    let more = count.saturating_sub(chosen.len());
    chosen.extend(others.into_iter().take(more));
    chosen
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes in MiB are positive and small"
)]
fn bytes_of(mib: f64) -> u64 {
    (mib * MIB as f64) as u64
}

/// Compares two images page by page at equal addresses. A page that the parent lacks counts as changed.
pub(crate) fn compare(parent: &Image, child: &Image) -> Result<Changed> {
    let old = File::open(&parent.path).context("cannot open the parent image")?;
    let new = File::open(&child.path).context("cannot open an image")?;
    // Pieces that have a changed page, and how many of the child's bytes each piece covers.
    let touched: Mutex<[BTreeMap<u64, bool>; 4]> = Mutex::default();
    child.for_blocks(|region, block, len| {
        let first = region.start + block * BLOCK as u64;
        let mut now = vec![0; len];
        new.read_exact_at(&mut now, region.offset + block * BLOCK as u64)?;
        let before = read_addresses(parent, &old, first, len)?;
        let mut pages = Vec::new();
        for (at, page) in now.chunks(PAGE).enumerate() {
            let address = first + (at * PAGE) as u64;
            if before.get(&address).is_none_or(|before| before != page) {
                pages.push(address);
            }
        }
        let mut touched = touched.lock().map_err(|_| anyhow::anyhow!("a worker thread panicked"))?;
        for address in pages {
            for (size, set) in PIECES.iter().zip(touched.iter_mut()) {
                set.insert(address / size, true);
            }
        }
        Ok(())
    })?;
    let touched = touched.into_inner().map_err(|_| anyhow::anyhow!("a worker thread panicked"))?;
    let mut changed = [0; 4];
    for ((size, set), sum) in PIECES.iter().zip(&touched).zip(&mut changed) {
        *sum = set.keys().map(|piece| present(child, piece * size, *size)).sum();
    }
    Ok(Changed(changed))
}

/// The pages of `image` in a range of addresses.
fn read_addresses(image: &Image, file: &File, start: u64, len: usize) -> Result<HashMap<u64, Vec<u8>>> {
    let end = start + len as u64;
    let mut found = HashMap::new();
    for region in overlapping(image, start, end) {
        let from = region.start.max(start);
        let to = (region.start + region.len).min(end);
        let mut bytes = vec![0; usize::try_from(to - from)?];
        file.read_exact_at(&mut bytes, region.offset + (from - region.start))?;
        for (at, page) in bytes.chunks(PAGE).enumerate() {
            found.insert(from + (at * PAGE) as u64, page.to_vec());
        }
    }
    Ok(found)
}

fn overlapping(image: &Image, start: u64, end: u64) -> impl Iterator<Item = &Region> {
    let first = image.regions.partition_point(move |region| region.start + region.len <= start);
    image.regions[first..].iter().take_while(move |region| region.start < end)
}

/// How many bytes of the image lie in a range of addresses.
fn present(image: &Image, start: u64, len: u64) -> u64 {
    let end = start + len;
    overlapping(image, start, end)
        .map(|region| (region.start + region.len).min(end) - region.start.max(start))
        .sum()
}

/// Image A and its three descendants, made unless they are there already.
pub(crate) fn family(dir: &Path, len: u64, seed: u64) -> Result<Vec<Image>> {
    let mut images = vec![Image::first(dir, len, seed)?];
    for pattern in &PATTERNS {
        let parent = images.last().context("there is an image A")?;
        images.push(pattern.apply(parent, len, seed)?);
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_clustering_comes_out() {
        let dir = tempfile::tempdir().unwrap();
        let len = 256 * MIB;
        let images = family(dir.path(), len, 5).unwrap();
        for (pattern, pair) in PATTERNS.iter().zip(images.windows(2)) {
            let changed = compare(&pair[0], &pair[1]).unwrap();
            for ((bytes, wanted), size) in changed.0.iter().zip(pattern.wanted_mib(len)).zip(PIECES) {
                let slack = (wanted * 0.15).max(mib(size));
                assert!((mib(*bytes) - wanted).abs() <= slack, "{} by {size}: {changed:?}", pattern.name);
            }
        }
        let freed = images[2].len() + 64 * 256 * MIB / 2487 - images[3].len();
        assert!(freed > 25 * MIB, "D frees {} MiB", freed / MIB);
    }

    #[test]
    fn a_step_in_place_changes_what_it_says() {
        let dir = tempfile::tempdir().unwrap();
        let image = Image::first(dir.path(), 64 * MIB, 5).unwrap();
        let copy = Image { path: dir.path().join("copy.img"), ..image.clone() };
        std::fs::copy(&image.path, &copy.path).unwrap();
        let pages = PATTERNS[0].apply_in_place(&copy, 9).unwrap();
        assert_eq!(compare(&image, &copy).unwrap().0[0], (pages * PAGE) as u64);
        assert!(pages > 0);
    }
}
