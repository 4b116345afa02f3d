//! The memory image: which regions an address space has, and the file that holds their pages.
//!
//! Like CRIU's `pages-N.img`, the file is the touched pages of all regions in address order, one after the other; the
//! region list says where each run belongs. Addresses look like those of a real process: a heap at 0x55…, many
//! anonymous mappings, libraries and thread stacks at 0x7f…, the main stack on top. Between them lie gaps, so the
//! address space is sparse, and a new or freed region moves every later byte of the file.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::content::{self, BLOCK, Content, PAGE};
use crate::measure;
use crate::rng::Rng;

/// Changes whenever the generator does: images of an older one are not reused.
pub(crate) const GENERATOR: u32 = 2;

/// A run of touched pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Region {
    /// Address of the first byte.
    pub(crate) start: u64,
    /// Length in bytes, a multiple of the page size.
    pub(crate) len: u64,
    /// Where its bytes are in the file.
    pub(crate) offset: u64,
    /// What it holds.
    pub(crate) content: Content,
    /// Made from this seed.
    pub(crate) seed: u64,
}

/// A whole image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Image {
    /// The file with the pages.
    pub(crate) path: PathBuf,
    /// Its regions in address order.
    pub(crate) regions: Vec<Region>,
}

/// Shares of the image in thousandths; what is left goes to random bytes.
const SHARES: [(Content, u64, u64); 9] = [
    // content, share, into how many mappings it is split
    (Content::RandomFloats, 40, 2),
    (Content::Zeros, 110, 1),
    (Content::RoundedSin, 165, 2),
    (Content::Picture, 103, 1),
    (Content::Numbers, 35, 6),
    (Content::Objects, 200, 14),
    (Content::Pointers, 30, 4),
    (Content::DictTable, 20, 2),
    (Content::Heap, 45, 1),
];

impl Image {
    /// All bytes of the file.
    pub(crate) fn len(&self) -> u64 {
        self.regions.iter().map(|region| region.len).sum()
    }

    /// The image of `len` bytes that belongs to `seed`, made unless it is there already.
    pub(crate) fn first(dir: &Path, len: u64, seed: u64) -> Result<Self> {
        let path = dir.join(format!("A-{}m-s{seed}-g{GENERATOR}.img", len / measure::MIB));
        reuse_or_make(&path, || {
            let regions = layout(len, seed);
            let image = Self { path: path.clone(), regions };
            image.write(|region, block, out| {
                content::fill(region.content, region.seed, block, out);
                Ok(())
            })?;
            Ok(image)
        })
    }

    /// Writes the file block by block on all cores; `fill` gets each block zeroed.
    pub(crate) fn write(&self, fill: impl Fn(&Region, u64, &mut [u8]) -> Result<()> + Sync) -> Result<()> {
        let file =
            File::create(&self.path).with_context(|| format!("cannot create {}", self.path.display()))?;
        file.set_len(self.len())?;
        self.for_blocks(|region, block, len| {
            let mut buffer = vec![0; len];
            fill(region, block, &mut buffer)?;
            file.write_all_at(&buffer, region.offset + block * BLOCK as u64).context("cannot write an image")
        })?;
        // An image that is still dirty would be written back in the middle of the first measurement.
        file.sync_all().context("cannot sync an image")
    }

    /// Calls `visit` for each block of each region, on all cores.
    pub(crate) fn for_blocks(&self, visit: impl Fn(&Region, u64, usize) -> Result<()> + Sync) -> Result<()> {
        let blocks: Vec<(&Region, u64, usize)> = self
            .regions
            .iter()
            .flat_map(|region| {
                (0..region.len.div_ceil(BLOCK as u64)).map(move |block| {
                    let left = region.len - block * BLOCK as u64;
                    (region, block, usize::try_from(left).unwrap_or(BLOCK).min(BLOCK))
                })
            })
            .collect();
        on_all_cores(blocks.len(), |at| visit(blocks[at].0, blocks[at].1, blocks[at].2))
    }

    /// Renumbers file offsets after the list of regions changed.
    pub(crate) fn assign_offsets(regions: &mut [Region]) {
        regions.sort_by_key(|region| region.start);
        let mut offset = 0;
        for region in regions {
            region.offset = offset;
            offset += region.len;
        }
    }
}

/// Hands out the numbers below `count` to one thread a core. The first error ends it.
pub(crate) fn on_all_cores(count: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let run = || -> Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return Ok(());
            }
            work(at)?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..measure::cores()).map(|_| scope.spawn(run)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a worker thread panicked")).and_then(|result| result)
        })
    })
}

/// Takes the image at `path` if its description is beside it, else makes it. The description is written last.
pub(crate) fn reuse_or_make(path: &Path, make: impl FnOnce() -> Result<Image>) -> Result<Image> {
    let description = path.with_extension("json");
    if let Ok(text) = fs::read(&description)
        && let Ok(image) = serde_json::from_slice::<Image>(&text)
        && fs::metadata(path).is_ok_and(|meta| meta.len() == image.len())
    {
        return Ok(Image { path: path.to_path_buf(), ..image });
    }
    let image = make()?;
    fs::write(&description, serde_json::to_vec(&image)?)
        .with_context(|| format!("cannot write {}", description.display()))?;
    Ok(image)
}

/// Rounds to whole pages.
pub(crate) const fn pages(len: u64) -> u64 {
    len / PAGE as u64 * PAGE as u64
}

/// Lays out the address space of a kernel with `len` touched bytes.
fn layout(len: u64, seed: u64) -> Vec<Region> {
    let mut rng = Rng::of(&[seed, 0xadd7]);
    let mut small = vec![region(0x7ffd_3c5e_0000, 33 * PAGE as u64, Content::Library, seed)];
    // Libraries and thread stacks: many runs of a few pages. About 7 MiB in 2 GiB.
    let mut top = 0x7f3a_f000_0000u64;
    for number in 0..=len / (10 * measure::MIB) {
        let stack = number % 8 == 0;
        let run = if stack { 4 + rng.below(16) } else { 1 + rng.below(16) } * PAGE as u64;
        top -= run + if stack { 8 * measure::MIB } else { (16 + rng.below(500)) * PAGE as u64 };
        small.push(region(top, run, Content::Library, seed ^ number));
    }

    let mut mappings: Vec<(Content, u64)> = Vec::new();
    for (content, share, parts) in SHARES {
        let total = len / 1000 * share;
        if content == Content::Heap {
            small.push(region(0x5581_2a3c_1000, pages(total), content, seed));
            continue;
        }
        for part in 0..parts {
            // Uneven parts, as allocators leave them; together they are the share.
            let weight = 2 * part + 1;
            mappings.push((content, pages(total / (parts * parts) * weight).max(PAGE as u64)));
        }
    }
    let used: u64 = small.iter().map(|region| region.len).chain(mappings.iter().map(|(_, len)| *len)).sum();
    mappings.push((Content::RandomBytes, len - used));

    // mmap hands out addresses from the top down, newest lowest; in between, something was freed.
    rng.shuffle(&mut mappings);
    for (number, (content, len)) in mappings.into_iter().enumerate() {
        top -= len + (1 + rng.below(600)) * PAGE as u64;
        small.push(region(top, len, content, seed ^ (1000 + number as u64)));
    }
    Image::assign_offsets(&mut small);
    small
}

/// A region whose place in the file is not known yet.
pub(crate) const fn region(start: u64, len: u64, content: Content, seed: u64) -> Region {
    Region { start, len, offset: 0, content, seed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_apart_in_order_and_add_up() {
        for len in [64 * measure::MIB, 2048 * measure::MIB] {
            let regions = layout(len, 7);
            let mut offset = 0;
            let mut end = 0;
            for region in &regions {
                assert!(region.start > end, "{region:x?} touches its neighbour");
                assert_eq!(region.start % PAGE as u64, 0);
                assert_eq!(region.len % PAGE as u64, 0);
                assert_eq!(region.offset, offset);
                offset += region.len;
                end = region.start + region.len;
            }
            assert_eq!(offset, len);
        }
    }

    #[test]
    fn an_image_is_made_once_and_is_the_same_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let image = Image::first(dir.path(), 8 * measure::MIB, 3).unwrap();
        let bytes = fs::read(&image.path).unwrap();
        assert_eq!(bytes.len() as u64, 8 * measure::MIB);
        let again = Image::first(dir.path(), 8 * measure::MIB, 3).unwrap();
        assert_eq!(again.regions, image.regions);
        let other = tempfile::tempdir().unwrap();
        let other = Image::first(other.path(), 8 * measure::MIB, 3).unwrap();
        assert_eq!(fs::read(other.path).unwrap(), bytes);
    }
}
