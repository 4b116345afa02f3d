//! The store, as the benchmarks see it. Everything that knows its API is in this file.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use cas_core::memory::{DENSE_PAGES, MapRoot, MemoryReader, PAGE, PageSink, PageSource};
use cas_core::pack::ENTRY_LEN;
use cas_core::progress::Silent;
use cas_core::{Kind, OpenOptions, Trust};
use serde::{Deserialize, Serialize};

use crate::bare::Stored;
use crate::image::Image;
use crate::measure::{Timed, TreeSize, timed, tree_size};

/// How much one object holds before compression.
pub(crate) const OBJECT_LEN: usize = DENSE_PAGES * PAGE;
/// The store's zstd level.
pub(crate) const LEVEL: i32 = cas_core::LEVEL;

/// A store in a directory of its own; removed when dropped.
pub(crate) struct Store {
    dir: PathBuf,
    store: Arc<cas_core::Store>,
}

/// Names a snapshot in a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    root: MapRoot,
}

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

impl Store {
    /// Makes a new store below `dir`.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        let dir = dir.join("store.infinijup");
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        let store = cas_core::Store::init(&dir, None, OpenOptions::default())?;
        Ok(Self { dir, store })
    }

    /// Stores an image, against the snapshot before it if there is one. In a process that is started for it and opens the store, as
    /// the backup programs are: that is part of what it costs.
    pub(crate) fn ingest(&self, image: &Image, parent: Option<&Snapshot>) -> Result<Ingest> {
        let before = self.size()?;
        let told = Told {
            dir: self.dir.clone(),
            image: image.clone(),
            parent: parent.map(|parent| Root::of(&parent.root)),
        };
        let told = serde_json::to_vec(&told)?;
        let (said, took) = timed(|| in_child(&told))?;
        let (root, new_raw) = (said.root.parse()?, said.new_raw);
        // What SQLite still has in its log would otherwise be counted twice, or not at all.
        self.store.catalogue().checkpoint()?;
        let after = self.size()?;
        let grew = TreeSize {
            bytes: after.bytes.saturating_sub(before.bytes),
            allocated: after.allocated.saturating_sub(before.allocated),
        };
        Ok(Ingest { snapshot: Snapshot { root }, took, new_raw, grew })
    }

    /// The store without its cache, which may be deleted at any time. The rivals' caches lie outside of their repositories
    /// and are not counted either.
    fn size(&self) -> Result<TreeSize> {
        let (all, cache) = (tree_size(&self.dir)?, tree_size(&self.dir.join("cache"))?);
        Ok(TreeSize { bytes: all.bytes - cache.bytes, allocated: all.allocated - cache.allocated })
    }

    /// Reads a whole snapshot back, timed, and once more to compare it with the image that it was made from.
    pub(crate) fn read_all(&self, snapshot: &Snapshot, image: &Image) -> Result<Timed> {
        let ((), took) = timed(|| Ok(self.store.read_memory(&snapshot.root, &Nowhere, &Silent)?))?;
        let same = Compare { image: ImageFile::open(image)?, differs: AtomicBool::new(false) };
        self.store.read_memory(&snapshot.root, &same, &Silent)?;
        if same.differs.into_inner() || snapshot.root.bytes() != image.len() {
            bail!("what was read back differs from {}", image.path.display());
        }
        Ok(took)
    }

    /// The same with every object's id compared with its content.
    pub(crate) fn read_all_verified(&self, snapshot: &Snapshot) -> Result<Timed> {
        let options = OpenOptions { trust: Trust::Identity, ..OpenOptions::default() };
        let store = cas_core::Store::open(&self.dir, options)?;
        let ((), took) = timed(|| Ok(store.read_memory(&snapshot.root, &Nowhere, &Silent)?))?;
        Ok(took)
    }

    /// Reads each range (address, length) by itself, with a warm catalogue; seconds for each.
    pub(crate) fn read_ranges(&self, snapshot: &Snapshot, ranges: &[(u64, usize)]) -> Result<Vec<f64>> {
        let mut buffer = Vec::new();
        let mut run = |ranges: &[(u64, usize)]| -> Result<Vec<f64>> {
            let mut reader = MemoryReader::new(self.store.clone(), snapshot.root)?;
            let mut seconds = Vec::with_capacity(ranges.len());
            for (address, len) in ranges {
                buffer.resize(*len, 0);
                let start = Instant::now();
                reader.read(*address, &mut buffer)?;
                seconds.push(start.elapsed().as_secs_f64());
            }
            Ok(seconds)
        };
        // The first pass warms the catalogue; it is the second one's ranges that are measured.
        run(&ranges[..ranges.len() / 4])?;
        run(ranges)
    }

    /// Where the page objects of the store lie. Asked after the first snapshot, these are that snapshot's.
    pub(crate) fn stored_objects(&self) -> Result<Vec<Stored>> {
        let layout = cas_core::layout::Layout::new(&self.dir);
        let catalogue = self.store.catalogue();
        let paths: HashMap<_, _> =
            catalogue.packs()?.iter().map(|row| (row.no, layout.pack(&row.id))).collect();
        let mut objects = Vec::new();
        catalogue.for_each_object(&mut |_, location| {
            if let (Kind::PAGES, Some(path)) = (location.kind, paths.get(&location.pack)) {
                objects.push(Stored {
                    path: path.clone(),
                    offset: location.offset + ENTRY_LEN as u64,
                    len: location.stored_len as usize,
                    raw_len: location.plain_len as usize,
                });
            }
            Ok(())
        })?;
        objects.sort_by(|a, b| (&a.path, a.offset).cmp(&(&b.path, b.offset)));
        Ok(objects)
    }
}

/// What a process is told that stores an image.
#[derive(Serialize, Deserialize)]
struct Told {
    dir: PathBuf,
    image: Image,
    parent: Option<Root>,
}

/// What it says.
#[derive(Serialize, Deserialize)]
struct Said {
    root: Root,
    new_raw: u64,
}

/// A [`MapRoot`] between processes.
#[derive(Serialize, Deserialize)]
struct Root {
    id: String,
    pages: u64,
}

impl Root {
    fn of(root: &MapRoot) -> Self {
        Self { id: root.id.to_string(), pages: root.pages }
    }

    fn parse(&self) -> Result<MapRoot> {
        Ok(MapRoot { id: self.id.parse()?, pages: self.pages })
    }
}

fn in_child(told: &[u8]) -> Result<Said> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--ingest-child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a process for a snapshot")?;
    // Dropped at once, which ends its input.
    child.stdin.take().context("the process for a snapshot has no input")?.write_all(told)?;
    let done = child.wait_with_output()?;
    ensure!(done.status.success(), "the process for a snapshot failed: {}", done.status);
    serde_json::from_slice(&done.stdout).context("the process for a snapshot did not answer with JSON")
}

/// That process: stores the image that `told` names and returns what it says.
pub(crate) fn ingest_as_told(told: impl io::Read) -> Result<String> {
    let told: Told = serde_json::from_reader(told).context("nobody said what to store")?;
    let store = cas_core::Store::open(&told.dir, OpenOptions::default())?;
    let source: Arc<dyn PageSource> = Arc::new(ImageFile::open(&told.image)?);
    let parent = told.parent.as_ref().map(Root::parse).transpose()?;
    let pins: Vec<_> = parent.iter().map(|parent| parent.id).collect();
    let session = store.write(&pins)?;
    let (root, _) = session.put_memory(&source, parent.as_ref(), &Silent)?;
    let change = cas_core::refs::RefChange {
        name: format!("threads/{}", root.id.short()),
        expected: cas_core::refs::Expected::Any,
        new: Some(root.id),
    };
    let stats = session.commit(&[change])?;
    Ok(serde_json::to_string(&Said { root: Root::of(&root), new_raw: stats.new_plain })?)
}

impl Drop for Store {
    fn drop(&mut self) {
        // The next run removes what this one could not.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// An image file as a source of pages.
struct ImageFile {
    file: File,
    regions: Vec<crate::image::Region>,
}

impl ImageFile {
    fn open(image: &Image) -> Result<Self> {
        let file =
            File::open(&image.path).with_context(|| format!("cannot open {}", image.path.display()))?;
        Ok(Self { file, regions: image.regions.clone() })
    }
}

impl PageSource for ImageFile {
    fn regions(&self) -> Vec<cas_core::memory::Region> {
        self.regions
            .iter()
            .map(|region| cas_core::memory::Region { start: region.start, len: region.len })
            .collect()
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = address + done as u64;
            let after = self.regions.partition_point(|region| region.start <= at);
            let region =
                after.checked_sub(1).map(|before| self.regions[before]).ok_or(io::ErrorKind::NotFound)?;
            let left = usize::try_from(region.start + region.len - at).unwrap_or(usize::MAX);
            let piece = left.min(buffer.len() - done);
            if piece == 0 {
                return Err(io::ErrorKind::NotFound.into());
            }
            self.file.read_exact_at(&mut buffer[done..done + piece], region.offset + at - region.start)?;
            done += piece;
        }
        Ok(())
    }
}

/// Where bytes go that only have to be produced.
struct Nowhere;

impl PageSink for Nowhere {
    fn pages(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn zeros(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Holds what is read against the image.
struct Compare {
    image: ImageFile,
    differs: AtomicBool,
}

impl PageSink for Compare {
    fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let mut expected = vec![0; bytes.len()];
        self.image.read(address, &mut expected)?;
        if expected != bytes {
            self.differs.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn zeros(&self, address: u64, len: u64) -> io::Result<()> {
        self.pages(address, &vec![0; usize::try_from(len).map_err(io::Error::other)?])
    }
}
