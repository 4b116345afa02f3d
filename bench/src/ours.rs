//! The store, as the benchmarks see it. Everything that knows its API is in this file.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::bare::Stored;
use crate::image::Image;
use crate::measure::{Timed, TreeSize, mib, peak_memory};

/// How much one object holds before compression.
pub(crate) const OBJECT_LEN: usize = 512 * 1024;
/// The store's zstd level.
pub(crate) const LEVEL: i32 = 1;

/// A store in a directory of its own; removed when dropped.
pub(crate) struct Store {
    dir: PathBuf,
}

/// Names a snapshot in a store.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {}

/// What one ingest did.
#[derive(Clone, Debug)]
pub(crate) struct Ingest {
    /// The snapshot it made.
    pub(crate) snapshot: Snapshot,
    /// What it cost, until everything was durable.
    pub(crate) took: Timed,
    /// New bytes before compression: pages and metadata.
    pub(crate) new_raw: u64,
    /// How much the store's directory grew.
    pub(crate) grew: TreeSize,
}

/// False until the store can be called.
pub(crate) const fn available() -> bool {
    false
}

impl Store {
    /// Makes a new store below `dir`.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        bail!("the store cannot be called yet (in {})", dir.display())
    }

    /// Stores an image, against the snapshot before it if there is one.
    pub(crate) fn ingest(&self, image: &Image, parent: Option<&Snapshot>) -> Result<Ingest> {
        bail!(
            "the store at {} cannot ingest {} yet (parent: {})",
            self.dir.display(),
            image.path.display(),
            parent.is_some()
        )
    }

    /// Reads a whole snapshot back and compares it with the image that it was made from.
    pub(crate) fn read_all(&self, snapshot: &Snapshot, image: &Image) -> Result<Timed> {
        bail!("{snapshot:?} of {} cannot be read yet", image.path.display())
    }

    /// Reads each range (address, length) by itself, with a warm catalogue; seconds for each.
    pub(crate) fn read_ranges(&self, snapshot: &Snapshot, ranges: &[(u64, usize)]) -> Result<Vec<f64>> {
        bail!("{snapshot:?} cannot be read yet in {} ranges", ranges.len())
    }

    /// Where the page objects of a snapshot lie.
    pub(crate) fn stored_objects(&self, snapshot: &Snapshot) -> Result<Vec<Stored>> {
        bail!("the objects of {snapshot:?} cannot be listed yet")
    }
}

/// What a catalogue of some size costs.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct CatalogueCost {
    /// Objects in it.
    pub(crate) objects: u64,
    /// CPU seconds for one lookup.
    pub(crate) lookup_s: f64,
    /// CPU seconds for one insert into a catalogue of this size.
    pub(crate) insert_s: f64,
    /// Peak memory of the process that did it.
    pub(crate) peak_bytes: u64,
}

/// Fills a catalogue below `dir` and measures it.
pub(crate) fn catalogue_cost(dir: &Path, objects: u64) -> Result<CatalogueCost> {
    let peak = mib(peak_memory()?);
    bail!("there is no catalogue of {objects} objects in {} yet (peak memory {peak} MiB)", dir.display())
}

/// Seconds for the plan of a collection over a history of so many commits.
pub(crate) fn gc_plan(dir: &Path, commits: u64) -> Result<f64> {
    bail!("there is no plan for {commits} commits in {} yet", dir.display())
}
