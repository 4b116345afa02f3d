//! From a directory of plain CRIU images into the store.
//!
//! The pages go into extent maps, one for each process and each segment of shared memory, against the parent snapshot's map
//! of the same name: what has not changed is shared with it, and not read from the store again (fingerprints tell). Every
//! other image is a blob. A pages file is not stored as such: [`materialise`](crate::materialise) rebuilds it from its
//! pagemap and the map, byte for byte. A pages file that cannot be said like that (nothing of CRIU's, but nothing forbids
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
use checkpoint_criu::images::Images;
use manifest::Snapshot;
use manifest::snapshot::{AddressSpace, CriuSection, MemorySection};

use crate::error::{ImageError, Result};
use crate::pages::{Odd, PagesFile, PagesLayout, pagemaps, pages_image};

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

/// Stores the images in `images`. The caller has pinned the commit of `parent` when the session began; everything is
/// durable after the session's next flush or commit.
pub fn ingest_images(
    session: &WriteTransaction,
    images: &Path,
    parent: Option<&Snapshot>,
    progress: &dyn Progress,
) -> Result<Ingested> {
    let before = parent.map(parent_maps).transpose()?.unwrap_or_default();
    let mut names = image_names(images)?;
    let mut done = Ingested {
        memory: MemorySection::default(),
        criu: CriuSection::default(),
        stats: IngestStats::default(),
    };
    for Pages { space, image, layout } in pages_of(images)? {
        let path = images.join(&image);
        let file = File::open(&path).map_err(io_error("open", &path))?;
        let source: Arc<dyn PageSource> = Arc::new(PagesFile::new(file, layout));
        let (map, stats) = session.put_memory(&source, before.get(&space), progress)?;
        done.stats.memory_bytes += stats.present * PAGE as u64;
        done.stats.zero_bytes += stats.zero * PAGE as u64;
        done.stats.new_bytes += stats.new * PAGE as u64;
        done.memory.spaces.push(AddressSpace { name: space, map: map.into(), bytes: map.bytes() });
        names.remove(&image);
    }
    done.memory.spaces.sort_by(|one, other| one.name.cmp(&other.name));
    for name in names {
        let path = images.join(&name);
        let mut file = File::open(&path).map_err(io_error("open", &path))?;
        let blob = session.put_blob(&mut file, progress)?;
        done.stats.image_bytes += blob.len;
        done.criu.images.insert(name, blob.into());
    }
    Ok(done)
}

/// The parent's maps by the names of their spaces.
fn parent_maps(parent: &Snapshot) -> Result<BTreeMap<String, MapRoot>> {
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
}

/// Which pages files become maps, the largest first.
fn pages_of(images: &Path) -> Result<Vec<Pages>> {
    let mut list: Vec<Pages> = Vec::new();
    let mut met = BTreeSet::new();
    let mut stay_files = BTreeSet::new();
    for (space, pagemap) in pagemaps(&Images::open(images)?)? {
        let image = pages_image(pagemap.pages_id);
        if !met.insert(image.clone()) {
            stay_files.insert(image.clone());
        }
        let layout = match PagesLayout::of(&pagemap) {
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
            Ordering::Equal => list.push(Pages { space, image, layout }),
            Ordering::Greater => _ = stay_files.insert(image),
            Ordering::Less => {
                let detail = format!("{image} has {found} bytes, its pagemap says {}", layout.bytes());
                return Err(not_images(images, detail));
            }
        }
    }
    list.retain(|pages| !stay_files.contains(&pages.image));
    list.sort_by_key(|pages| Reverse(pages.layout.bytes()));
    Ok(list)
}

fn not_images(images: &Path, detail: String) -> ImageError {
    ImageError::NotWhole { commit: format!("in `{}`", images.display()), detail }
}
