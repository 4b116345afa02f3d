//! Dumps that left pages to somebody else.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cas_core::Store;
use cas_core::memory::PAGE;
use cas_core::progress::Silent;
use checkpoint_criu::images::PagemapEntry;
use checkpoint_criu::{LeftOut, MapId};
use manifest::{Snapshot, TypedSection};
use prost::Message;

use crate::error::Result;
use crate::ingest::{IngestStats, ingest_images};
use crate::materialise::lay_out;
use crate::pages::{pagemap_image, pages_image};
use crate::tests::{
    PAGEMAP, Pages, assert_same, fresh, ingest, page, store, write_image, write_inventory, write_pages,
};

const PID: u32 = 5;
const IN_PARENT: u32 = 1;
const PRESENT: u32 = 4;

/// Memory that was copied from a process.
#[derive(Debug, Default)]
struct Copied {
    pages: Pages,
    /// The map that `written` counts from.
    since: Option<MapId>,
    written: BTreeSet<u64>,
    read: Mutex<BTreeSet<u64>>,
    stored: Mutex<Option<MapId>>,
}

impl LeftOut for Copied {
    fn copied_frozen(&self) -> u64 {
        0
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        assert_eq!(pid, PID);
        for (number, bytes) in (address / PAGE as u64..).zip(buffer.chunks_exact_mut(PAGE)) {
            self.read.lock().unwrap().insert(number);
            bytes.copy_from_slice(&page(*self.pages.get(&number).ok_or(io::ErrorKind::NotFound)?));
        }
        Ok(())
    }

    fn written(&self, _: u32, map: &MapId) -> Option<Vec<Range<u64>>> {
        let range = |page: &u64| page * PAGE as u64..(page + 1) * PAGE as u64;
        (self.since.as_ref() == Some(map)).then(|| self.written.iter().map(range).collect())
    }

    fn stored(&self, _: u32, map: &MapId) {
        *self.stored.lock().unwrap() = Some(*map);
    }
}

/// Writes images of `pages` with every page an entry of its own, those of `ours` in the file and the others left out.
fn write_partly(dir: &Path, pages: &Pages, ours: &BTreeSet<u64>) {
    write_inventory(dir);
    let entry = |number: &u64| PagemapEntry {
        vaddr: number * PAGE as u64,
        compat_nr_pages: 1,
        flags: Some(if ours.contains(number) { PRESENT } else { IN_PARENT }),
        nr_pages: Some(1),
        ..PagemapEntry::default()
    };
    let entries = pages.keys().map(|number| entry(number).encode_to_vec());
    let entries: Vec<_> = std::iter::once(vec![0x08, 1]).chain(entries).collect();
    write_image(dir, &pagemap_image(PID), PAGEMAP, &entries);
    let bytes: Vec<u8> = pages
        .iter()
        .filter(|(number, _)| ours.contains(number))
        .flat_map(|(_, content)| page(*content))
        .collect();
    fs::write(dir.join(pages_image(1)), bytes).unwrap();
}

fn ingest_copied(
    store: &Arc<Store>,
    dir: &Path,
    parent: Option<&Snapshot>,
    copied: &Arc<Copied>,
) -> Result<(Snapshot, IngestStats)> {
    let session = store.write(&[]).unwrap();
    let left_out: Arc<dyn LeftOut> = Arc::<Copied>::clone(copied);
    let done = ingest_images(&session, dir, parent, Some(&left_out), &Silent)?;
    session.flush().unwrap();
    let sections = vec![done.memory.to_section().unwrap(), done.criu.to_section().unwrap()];
    Ok((Snapshot::new(sections).unwrap(), done.stats))
}

#[test]
fn what_was_left_out_is_stored_as_if_it_had_been_there() {
    let base = tempfile::tempdir().unwrap();
    let store = store(base.path());
    let mut pages: Pages = (0x55_0000..0x55_0400).zip((0..24).cycle()).collect();
    pages.extend((0x7_fff0_0000..0x7_fff0_0003).zip(1..));
    let ours: BTreeSet<u64> = pages.keys().copied().filter(|number| number % 5 == 0).collect();

    let partly = fresh(base.path(), "partly");
    write_partly(&partly, &pages, &ours);
    let copied = Arc::new(Copied { pages: pages.clone(), ..Copied::default() });
    let (snapshot, stats) = ingest_copied(&store, &partly, None, &copied).unwrap();
    assert_eq!(stats.memory_bytes, (pages.len() * PAGE) as u64);
    assert!(copied.read.lock().unwrap().is_disjoint(&ours), "what CRIU has written is read from its file");

    // As if CRIU had written all of it.
    let whole = fresh(base.path(), "whole");
    write_inventory(&whole);
    write_pages(&whole, &pagemap_image(PID), 1, &pages, 1);
    let out = fresh(base.path(), "out");
    lay_out(&store, "x", &snapshot, &out, &Silent).unwrap();
    assert_same(&whole, &out);
    assert_eq!(ingest(&store, &whole, None).0, snapshot);

    // The next one: three pages were written, one of them by somebody whom nobody watches.
    let mut later = pages.clone();
    for number in [0x55_0005, 0x55_0041, 0x55_0042] {
        later.insert(number, 99);
    }
    let ours = BTreeSet::from([0x55_0005]);
    let partly = fresh(base.path(), "later");
    write_partly(&partly, &later, &ours);
    let since = *copied.stored.lock().unwrap();
    let written = BTreeSet::from([0x55_0041, 0x55_0042]);
    let copied =
        Arc::new(Copied { pages: later.clone(), since, written: written.clone(), ..Copied::default() });
    let (child, stats) = ingest_copied(&store, &partly, Some(&snapshot), &copied).unwrap();
    assert_eq!(*copied.read.lock().unwrap(), written);
    assert_eq!(stats.new_bytes, 3 * PAGE as u64);
    let whole = fresh(base.path(), "whole-later");
    write_inventory(&whole);
    write_pages(&whole, &pagemap_image(PID), 1, &later, 1);
    let out = fresh(base.path(), "out-later");
    lay_out(&store, "x", &child, &out, &Silent).unwrap();
    assert_same(&whole, &out);
}

#[test]
fn a_word_about_another_parent_does_not_count() {
    let base = tempfile::tempdir().unwrap();
    let store = store(base.path());
    let pages: Pages = (0x55_0000..0x55_0100).zip((0..24).cycle()).collect();
    let before = fresh(base.path(), "before");
    write_inventory(&before);
    write_pages(&before, &pagemap_image(PID), 1, &pages.keys().map(|number| (*number, 77)).collect(), 1);
    let (parent, _) = ingest(&store, &before, None);

    let partly = fresh(base.path(), "partly");
    write_partly(&partly, &pages, &BTreeSet::new());
    let copied = Arc::new(Copied { pages: pages.clone(), since: Some([7; 32]), ..Copied::default() });
    ingest_copied(&store, &partly, Some(&parent), &copied).unwrap();
    assert_eq!(copied.read.lock().unwrap().len(), pages.len());
}

#[test]
fn what_nobody_has_is_an_error() {
    let base = tempfile::tempdir().unwrap();
    let store = store(base.path());
    let pages: Pages = (0x55_0000..0x55_0010).zip(1..).collect();
    let partly = fresh(base.path(), "partly");
    write_partly(&partly, &pages, &BTreeSet::new());
    ingest_copied(&store, &partly, None, &Arc::new(Copied::default())).unwrap_err();
    let session = store.write(&[]).unwrap();
    let error = ingest_images(&session, &partly, None, None, &Silent).unwrap_err().to_string();
    assert!(error.contains("an earlier dump"), "{error}");
}
