//! The catalogue and the collection of a store that has grown, for `store-scale`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use cas_core::catalogue::{Catalogue, NewEntry, NewPack, PackClass};
use cas_core::gc::GcOptions;
use cas_core::memory::{PAGE, PageSource, Region};
use cas_core::progress::Silent;
use cas_core::reach::{Reference, References};
use cas_core::{Kind, ObjectId, OpenOptions, PackId};

use crate::measure::{median, peak_memory, timed};
use crate::rng::Rng;

/// Entries of a synthetic pack.
const PACK: u64 = 500;
/// Lookups and inserts that are measured.
const LOOKUPS: u64 = 100_000;
const INSERTS: u64 = 40;
/// One part in so many is inserted before anything is measured. A bulk load leaves every page of the database full, and the
/// first insert into a full page splits it; a catalogue that has grown by use has done that long ago.
const SETTLING: u64 = 20;

/// What a catalogue of some size costs.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct CatalogueCost {
    /// Objects in it.
    pub(crate) objects: u64,
    /// CPU seconds for one lookup.
    pub(crate) lookup_s: f64,
    /// CPU seconds for one insert into a catalogue of this size that has grown by use.
    pub(crate) insert_s: f64,
    /// The same right after a bulk load, as `store rebuild` leaves it.
    pub(crate) insert_after_rebuild_s: f64,
    /// Peak memory of the process that did it.
    pub(crate) peak_bytes: u64,
}

/// Fills a catalogue below `dir` the way `store rebuild` does, and measures it the way readers and writers use it.
pub(crate) fn catalogue_cost(dir: &Path, objects: u64) -> Result<CatalogueCost> {
    let path = dir.join(format!("catalogue-{objects}.sqlite"));
    remove(&path);
    let mut load = Catalogue::bulk(&path)?;
    for number in 0..objects / PACK {
        let (pack, entries) = synthetic(number);
        load.add(&pack, &entries)?;
    }
    let catalogue = load.finish()?;
    let mut rng = Rng::of(&[objects]);
    let wanted: Vec<ObjectId> = (0..LOOKUPS).map(|_| id(rng.below(objects / PACK * PACK))).collect();
    // Once to warm the caches, once to measure; the second half of the ids is not there.
    for id in &wanted {
        catalogue.lookup(id)?;
    }
    let (found, lookups) = timed(|| {
        let mut found = 0;
        for (n, id) in wanted.iter().enumerate() {
            let absent = ObjectId::from_bytes({
                let mut bytes = *id.as_bytes();
                bytes[31] ^= 1;
                bytes
            });
            found += u64::from(catalogue.lookup_reusable(if n % 2 == 0 { id } else { &absent })?.is_some());
        }
        Ok(found)
    })?;
    anyhow::ensure!(found == LOOKUPS / 2, "{found} of {} objects were found", LOOKUPS / 2);
    let mut next = objects / PACK;
    let mut insert = |count: u64| -> Result<f64> {
        let packs: Vec<_> = (next..next + count).map(synthetic).collect();
        next += count;
        let ((), took) = timed(|| {
            for (pack, entries) in &packs {
                catalogue.add_pack(pack, entries, None)?;
            }
            catalogue.checkpoint()?;
            Ok(())
        })?;
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        Ok(took.cpu_s / (count * PACK) as f64)
    };
    let insert_after_rebuild_s = insert(INSERTS)?;
    for _ in 0..(objects / SETTLING / PACK).div_ceil(INSERTS) {
        insert(INSERTS)?;
    }
    let insert_s = median(&[insert(INSERTS)?, insert(INSERTS)?, insert(INSERTS)?]);
    let peak_bytes = peak_memory()?;
    drop(catalogue);
    remove(&path);
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    Ok(CatalogueCost {
        objects,
        lookup_s: lookups.cpu_s / LOOKUPS as f64,
        insert_s,
        insert_after_rebuild_s,
        peak_bytes,
    })
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(name);
    }
}

fn id(n: u64) -> ObjectId {
    ObjectId::from_bytes(*blake3::hash(&n.to_le_bytes()).as_bytes())
}

fn synthetic(number: u64) -> (NewPack, Vec<NewEntry>) {
    let name = *blake3::hash(&(number | 1 << 63).to_le_bytes()).as_bytes();
    let pack =
        NewPack { id: PackId::from_bytes(name), class: PackClass::Data, epoch: 0, file_len: PACK * 200_000 };
    let entry = |n: u32| NewEntry {
        id: id(number * PACK + u64::from(n)),
        entry: n,
        offset: 64 + u64::from(n) * 200_000,
        stored_len: 199_000,
        plain_len: 524_288,
        kind: Kind::PAGES,
    };
    (pack, (0..u32::try_from(PACK).unwrap_or(0)).map(entry).collect())
}

/// A commit as the plan sees one: an object that refers to a map and to its parent.
const COMMIT: Kind = Kind(40);
/// Address space of the history: 64 MiB, of which each commit changes a few pages all over.
const PAGES: u64 = 16 << 10;
const CHANGED: u64 = 12;

/// Seconds for the plan of a collection over a history of so many commits.
pub(crate) fn gc_plan(dir: &Path, commits: u64) -> Result<f64> {
    let root = dir.join("history.infinijup");
    if root.exists() {
        std::fs::remove_dir_all(&root)?;
    }
    let store = cas_core::Store::init(&root, None, OpenOptions::default())?;
    let transaction = store.write(&[])?;
    let mut memory = History { changes: vec![0; usize::try_from(PAGES)?] };
    let mut rng = Rng::of(&[commits]);
    let (mut map, mut parent): (Option<cas_core::memory::MapRoot>, Option<ObjectId>) = (None, None);
    for commit in 1..=commits {
        for _ in 0..CHANGED {
            memory.changes[usize::try_from(rng.below(PAGES))?] = commit;
        }
        let source: Arc<dyn PageSource> = Arc::new(memory.clone());
        let (next, _) = transaction.put_memory(&source, map.as_ref(), &Silent)?;
        let mut content = next.id.as_bytes().to_vec();
        content.extend(parent.iter().flat_map(|parent| *parent.as_bytes()));
        (map, parent) = (Some(next), Some(transaction.put(COMMIT, content)?));
        transaction.flush()?;
    }
    let change = cas_core::refs::RefChange {
        name: "threads/main".to_owned(),
        expected: cas_core::refs::Expected::Any,
        new: parent,
    };
    transaction.commit(&[change])?;
    let (plan, took) = timed(|| Ok(store.plan_gc(&Commits, &GcOptions::default(), &Silent)?))?;
    anyhow::ensure!(
        plan.unreadable.is_empty() && plan.live_objects > commits,
        "the plan did not see the history"
    );
    drop(store);
    std::fs::remove_dir_all(&root)?;
    Ok(took.wall_s)
}

struct Commits;

impl References for Commits {
    fn references(&self, _: Kind, content: &[u8]) -> Result<Vec<Reference>, String> {
        let (ids, []) = content.as_chunks::<32>() else { return Err("is no commit".to_owned()) };
        let kinds = [Kind::MAP_NODE, COMMIT];
        Ok(ids
            .iter()
            .zip(kinds)
            .map(|(id, kind)| Reference::strong(kind, ObjectId::from_bytes(*id)))
            .collect())
    }
}

/// Small pages that say when they were changed last; quick to make.
#[derive(Clone)]
struct History {
    changes: Vec<u64>,
}

impl PageSource for History {
    fn regions(&self) -> Vec<Region> {
        vec![Region { start: 0x7f00_0000_0000, len: PAGES * PAGE as u64 }]
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let first = usize::try_from((address - 0x7f00_0000_0000) / PAGE as u64).map_err(io::Error::other)?;
        for (n, page) in buffer.chunks_mut(PAGE).enumerate() {
            page.fill(1);
            page[..8].copy_from_slice(&self.changes[first + n].to_le_bytes());
            page[8..16].copy_from_slice(&((first + n) as u64).to_le_bytes());
        }
        Ok(())
    }
}
