//! From a directory of plain CRIU images into the store.
//!
//! The pages go into extent maps, one for each process and each segment of shared memory, against the parent snapshot's map
//! of the same name: what has not changed is shared with it, and not read from the store again (fingerprints tell). Every
//! other image is a blob. A pages file is not stored as such: [`materialise`](crate::materialise) rebuilds it from its
//! pagemap and the map, byte for byte. Pages that a dump left to a memory path ([`LeftOut`]) are stored as if CRIU had written
//! them, and so is the pagemap. A pages file that cannot be said like that (nothing of CRIU's, but nothing forbids
//! it) is a blob too, so that no dump is refused for its form, and what comes out is always what went in.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use base::io_error;
use cas_core::WriteTransaction;
use cas_core::memory::{MapRoot, PAGE, PageSource};
use cas_core::progress::Progress;
use checkpoint_criu::images::{Images, whole_pagemap};
use checkpoint_criu::{LeftOut, MapId};
use manifest::Snapshot;
use manifest::snapshot::{AddressSpace, CriuSection, MemorySection};

use crate::assembled::Assembled;
use crate::error::{ImageError, Result};
use crate::pages::{
    Odd, PagesFile, PagesLayout, has_left_out, pagemap_image, pagemaps, pages_image, process_of,
};

/// A snapshot's sections that come from CRIU's images.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ingested {
    /// The pages.
    pub memory: MemorySection,
    /// Everything else.
    pub criu: CriuSection,
    /// What it took.
    pub stats: IngestStats,
}

/// What an ingest did, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IngestStats {
    /// Pages of all address spaces.
    pub memory_bytes: u64,
    /// Of these, all zeros.
    pub zero_bytes: u64,
    /// Of these, not as in the parent.
    pub new_bytes: u64,
    /// All other images.
    pub image_bytes: u64,
}

impl IngestStats {
    /// Counts one more address space.
    pub(crate) fn add(&mut self, pages: &cas_core::memory::IngestStats) {
        self.memory_bytes += pages.present * PAGE as u64;
        self.zero_bytes += pages.zero * PAGE as u64;
        self.new_bytes += pages.new * PAGE as u64;
    }
}

impl Ingested {
    /// Device memory that was stored beside the images belongs to the snapshot, too.
    pub fn with_device_memory(mut self, spaces: Vec<AddressSpace>, stats: &IngestStats) -> Self {
        self.memory.spaces.extend(spaces);
        self.memory.spaces.sort_by(|one, other| one.name.cmp(&other.name));
        self.stats.memory_bytes += stats.memory_bytes;
        self.stats.zero_bytes += stats.zero_bytes;
        self.stats.new_bytes += stats.new_bytes;
        self
    }
}

/// Stores the images in `images`, with the pages that were left out of them. The caller has pinned the commit of `parent` when the session began; everything is
/// durable after the session's next flush or commit.
pub fn ingest_images(
    session: &WriteTransaction,
    images: &Path,
    parent: Option<&Snapshot>,
    left_out: Option<&Arc<dyn LeftOut>>,
    progress: &dyn Progress,
) -> Result<Ingested> {
    let before = parent.map(parent_maps).transpose()?.unwrap_or_default();
    let mut names = image_names(images)?;
    let mut done = Ingested {
        memory: MemorySection::default(),
        criu: CriuSection::default(),
        stats: IngestStats::default(),
    };
    let mut made_whole = BTreeSet::new();
    for Pages { space, image, layout, shared } in pages_of(images, left_out)? {
        let path = images.join(&image);
        let file = File::open(&path).map_err(io_error("open", &path))?;
        let before = before.get(&space);
        let source: Arc<dyn PageSource> = match &shared {
            None => Arc::new(PagesFile::new(file, layout)),
            Some(Shared { pid, all, left_out }) => Arc::new(Assembled {
                pid: *pid,
                file,
                in_file: layout,
                all: all.clone(),
                left_out: Arc::clone(left_out),
                parent: before.map(|map| *map.id.as_bytes()),
            }),
        };
        let (map, stats) = session.put_memory(&source, before, progress)?;
        if let Some(Shared { pid, left_out, .. }) = &shared {
            left_out.stored(*pid, map.id.as_bytes());
            made_whole.insert(pagemap_image(*pid));
        }
        done.stats.add(&stats);
        done.memory.spaces.push(AddressSpace { name: space, map: map.into(), bytes: map.bytes() });
        names.remove(&image);
    }
    done.memory.spaces.sort_by(|one, other| one.name.cmp(&other.name));
    for name in names {
        let path = images.join(&name);
        let blob = if made_whole.contains(&name) {
            let pagemap = fs::read(&path).map_err(io_error("read", &path))?;
            session.put_blob(&mut whole_pagemap(&path, &pagemap)?.as_slice(), progress)?
        } else {
            let mut file = File::open(&path).map_err(io_error("open", &path))?;
            session.put_blob(&mut file, progress)?
        };
        done.stats.image_bytes += blob.len;
        done.criu.images.insert(name, blob.into());
    }
    Ok(done)
}

/// What a snapshot has of the memory of processes, by their numbers in its images.
pub fn stored_memory(snapshot: &Snapshot) -> Result<BTreeMap<u32, MapId>> {
    let maps = parent_maps(snapshot)?.into_iter();
    Ok(maps.filter_map(|(space, map)| Some((process_of(&space)?, *map.id.as_bytes()))).collect())
}

/// The parent's maps by the names of their spaces.
pub(crate) fn parent_maps(parent: &Snapshot) -> Result<BTreeMap<String, MapRoot>> {
    let memory = parent.get::<MemorySection>()?.unwrap_or_default();
    Ok(memory.spaces.into_iter().map(|space| (space.name, space.map.into())).collect())
}

/// Everything that lies in the directory.
fn image_names(images: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(images).map_err(io_error("list", images))? {
        let entry = entry.map_err(io_error("list", images))?;
        let is_file = entry.file_type().map_err(io_error("look at", entry.path()))?.is_file();
        match entry.file_name().into_string() {
            Ok(name) if is_file => _ = names.insert(name),
            _ => return Err(not_images(images, format!("{:?} is not an image", entry.file_name()))),
        }
    }
    Ok(names)
}

/// A pages file that becomes a map.
struct Pages {
    space: String,
    image: String,
    layout: PagesLayout,
    /// If it has not all pages of the map.
    shared: Option<Shared>,
}

/// Whose pages were left out of a pages file, and who has them.
struct Shared {
    pid: u32,
    all: PagesLayout,
    left_out: Arc<dyn LeftOut>,
}

/// Which pages files become maps, the largest first.
fn pages_of(images: &Path, left_out: Option<&Arc<dyn LeftOut>>) -> Result<Vec<Pages>> {
    let mut list: Vec<Pages> = Vec::new();
    let mut met = BTreeSet::new();
    let mut stay_files = BTreeSet::new();
    for (space, pagemap) in pagemaps(&Images::open(images)?)? {
        let image = pages_image(pagemap.pages_id);
        if !met.insert(image.clone()) {
            stay_files.insert(image.clone());
        }
        let shared = match (process_of(&space), left_out) {
            (Some(pid), Some(left_out)) if has_left_out(&pagemap) => {
                let detail = || format!("{space} has pages out of order, and not all of them");
                let all = PagesLayout::of_all(&pagemap).map_err(|_| not_images(images, detail()))?;
                Some(Shared { pid, all, left_out: Arc::clone(left_out) })
            }
            _ => None,
        };
        let layout = match &shared {
            Some(_) => PagesLayout::of_present(&pagemap),
            None => PagesLayout::of(&pagemap),
        };
        let layout = match layout {
            Ok(layout) => layout,
            Err(Odd::Order) => {
                stay_files.insert(image);
                continue;
            }
            Err(Odd::InParent) => {
                return Err(not_images(images, format!("{space} refers to images of an earlier dump")));
            }
        };
        let path = images.join(&image);
        let found = fs::metadata(&path).map_err(io_error("look at", &path))?.len();
        match found.cmp(&layout.bytes()) {
            Ordering::Equal => list.push(Pages { space, image, layout, shared }),
            Ordering::Greater if shared.is_none() => _ = stay_files.insert(image),
            Ordering::Greater => {
                return Err(not_images(
                    images,
                    format!("{image} has {found} bytes, more than its pagemap says"),
                ));
            }
            Ordering::Less => {
                let detail = format!("{image} has {found} bytes, its pagemap says {}", layout.bytes());
                return Err(not_images(images, detail));
            }
        }
    }
    if let Some(pages) = list.iter().find(|pages| pages.shared.is_some() && stay_files.contains(&pages.image))
    {
        return Err(not_images(images, format!("{} is of two processes, and not whole", pages.image)));
    }
    list.retain(|pages| !stay_files.contains(&pages.image));
    list.sort_by_key(|pages| Reverse(pages.layout.bytes()));
    Ok(list)
}

fn not_images(images: &Path, detail: String) -> ImageError {
    ImageError::NotWhole { commit: format!("in `{}`", images.display()), detail }
}
