//! From the store back to a directory of plain CRIU images, byte for byte what CRIU wrote.
//!
//! The images that are blobs are written first. Among them are the pagemaps, and a pagemap says where in its pages file each
//! page of the map belongs. Pages are written by all cores at once, each where it belongs; pages of zeros stay holes, which
//! read the same and cost neither time nor room. This is the inverse of [`ingest`](crate::ingest).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base::io_error;
use cas_core::Store;
use cas_core::memory::MapRoot;
use cas_core::progress::Progress;
use checkpoint_criu::images::{Images, pagemap_without};
use manifest::snapshot::{CriuSection, MemorySection};
use manifest::{FileName, Snapshot};

use crate::error::{ImageError, Result};
use crate::pages::{PagesFile, PagesLayout, pagemap_image, pagemaps, pages_image, process_of};

/// Writes the images of `snapshot` to `dir`, which must be empty. `commit` is for errors. How much is compared on the way is the
/// store's setting: for images, it should be the content's identity.
pub fn lay_out(
    store: &Store,
    commit: &str,
    snapshot: &Snapshot,
    dir: &Path,
    progress: &dyn Progress,
) -> Result<()> {
    lay_out_without(store, commit, snapshot, dir, &BTreeMap::new(), progress)
}

/// The same without some pages of some processes, by their numbers: to CRIU they were never there.
pub(crate) fn lay_out_without(
    store: &Store,
    commit: &str,
    snapshot: &Snapshot,
    dir: &Path,
    gone: &BTreeMap<u32, Vec<Range<u64>>>,
    progress: &dyn Progress,
) -> Result<()> {
    let bad = |detail: String| ImageError::NotWhole { commit: commit.to_owned(), detail };
    let criu = snapshot.get::<CriuSection>()?.ok_or_else(|| bad("it has no images".to_owned()))?;
    lay_out_blobs(store, commit, &criu, dir, progress)?;
    for (pid, gone) in gone {
        let path = dir.join(pagemap_image(*pid));
        let pagemap = fs::read(&path).map_err(io_error("read", &path))?;
        let left = pagemap_without(&path, &pagemap, gone)?;
        fs::write(&path, left).map_err(io_error("write", &path))?;
    }
    let memory = snapshot.get::<MemorySection>()?.unwrap_or_default();
    let mut maps: BTreeMap<String, MapRoot> =
        memory.spaces.into_iter().map(|space| (space.name, space.map.into())).collect();
    for (space, pagemap) in pagemaps(&Images::open(dir)?)? {
        let image = pages_image(pagemap.pages_id);
        let Some(map) = maps.remove(&space) else {
            // It was stored as it is.
            if criu.images.contains_key(&image) {
                continue;
            }
            return Err(bad(format!("the memory of {space} is missing")));
        };
        let gone = process_of(&space).and_then(|pid| gone.get(&pid)).map(Vec::as_slice).unwrap_or_default();
        let gone_bytes: u64 = gone.iter().map(|run| run.end - run.start).sum();
        let layout = PagesLayout::of(&pagemap)
            .ok()
            .filter(|layout| layout.bytes().checked_add(gone_bytes) == Some(map.bytes()))
            .ok_or_else(|| bad(format!("the memory of {space} does not fit its pagemap")))?;
        let file = create(&dir.join(&image))?;
        file.set_len(layout.bytes()).map_err(io_error("set the length of", dir.join(&image)))?;
        let regions = layout.regions();
        let pages = PagesFile::new(file, layout);
        if gone.is_empty() {
            store.read_memory(&map, &pages, progress)?;
        } else {
            store.read_memory_in(&map, &regions, &pages, progress)?;
        }
        if !pages.is_full() {
            return Err(bad(format!("the memory of {space} has other pages than its pagemap says")));
        }
    }
    Ok(())
}

/// Writes the images that are blobs.
fn lay_out_blobs(
    store: &Store,
    commit: &str,
    criu: &CriuSection,
    dir: &Path,
    progress: &dyn Progress,
) -> Result<()> {
    for (name, image) in &criu.images {
        // The name becomes a path, and it may come from anybody's snapshot.
        FileName::new(name.as_str()).map_err(|_| ImageError::NotWhole {
            commit: commit.to_owned(),
            detail: format!("{name:?} is not the name of an image"),
        })?;
        let mut file = create(&dir.join(name))?;
        store.read_blob(&(*image).into(), &mut file, progress)?;
    }
    Ok(())
}

fn create(path: &Path) -> Result<File> {
    let mut options = File::options();
    Ok(options.write(true).create_new(true).mode(0o600).open(path).map_err(io_error("create", path))?)
}
