//! Images as CRIU would write them, and what becomes of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cas_core::memory::PAGE;
use cas_core::progress::Silent;
use cas_core::{OpenOptions, Store, Trust};
use checkpoint_criu::images::{Inventory, PagemapEntry};
use manifest::snapshot::{CriuSection, MemorySection};
use manifest::{Snapshot, TypedSection};
use proptest::prelude::*;
use prost::Message;

use crate::ingest::{IngestStats, ingest_images};
use crate::materialise::lay_out;
use crate::pages::pages_image;

const COMMON: u32 = 0x5456_4319;
const INVENTORY: u32 = 0x5831_3116;
pub(crate) const PAGEMAP: u32 = 0x5608_4025;

/// Writes an image file: two magic numbers, then each entry with its length.
pub(crate) fn write_image(dir: &Path, name: &str, magic: u32, entries: &[Vec<u8>]) {
    let mut bytes = [COMMON.to_le_bytes(), magic.to_le_bytes()].concat();
    for entry in entries {
        bytes.extend(u32::try_from(entry.len()).unwrap().to_le_bytes());
        bytes.extend(entry);
    }
    fs::write(dir.join(name), bytes).unwrap();
}

/// The image without which a directory is not one of images.
pub(crate) fn write_inventory(dir: &Path) {
    let inventory = Inventory { img_version: 2, ..Inventory::default() };
    write_image(dir, "inventory.img", INVENTORY, &[inventory.encode_to_vec()]);
}

/// An address space: page number to what is in the page.
pub(crate) type Pages = BTreeMap<u64, u8>;

/// The bytes of a page: zeros, or such that no two sorts are alike.
pub(crate) fn page(content: u8) -> Vec<u8> {
    match content {
        0 => vec![0; PAGE],
        seed => [seed, 1, !seed, 2].repeat(PAGE / 4),
    }
}

/// Writes a pagemap and its pages. Every `cut`-th page begins a new entry, wherever it is.
pub(crate) fn write_pages(dir: &Path, pagemap: &str, pages_id: u32, pages: &Pages, cut: usize) {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (at, number) in pages.keys().enumerate() {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == *number && at % cut != 0 => *count += 1,
            _ => runs.push((*number, 1)),
        }
    }
    // The head has one field, the number of the pages file.
    let mut head = vec![0x08];
    prost::encoding::encode_varint(pages_id.into(), &mut head);
    let entry = |(first, count): (u64, u64)| PagemapEntry {
        vaddr: first * PAGE as u64,
        compat_nr_pages: u32::try_from(count).unwrap(),
        flags: Some(1 << 2),
        nr_pages: Some(count),
        ..PagemapEntry::default()
    };
    let entries = runs.into_iter().map(|run| entry(run).encode_to_vec());
    write_image(dir, pagemap, PAGEMAP, &std::iter::once(head).chain(entries).collect::<Vec<_>>());
    let bytes: Vec<u8> = pages.values().flat_map(|content| page(*content)).collect();
    fs::write(dir.join(pages_image(pages_id)), bytes).unwrap();
}

/// A directory of its own in `base`.
pub(crate) fn fresh(base: &Path, name: &str) -> PathBuf {
    let dir = base.join(name);
    fs::create_dir(&dir).unwrap();
    dir
}

pub(crate) fn store(base: &Path) -> Arc<Store> {
    let options = OpenOptions { trust: Trust::Identity, threads: 2, ..OpenOptions::default() };
    Store::init(&base.join("store"), None, options).unwrap()
}

/// Ingests a directory of images, against a parent.
pub(crate) fn ingest(store: &Arc<Store>, dir: &Path, parent: Option<&Snapshot>) -> (Snapshot, IngestStats) {
    let session = store.write(&[]).unwrap();
    let done = ingest_images(&session, dir, parent, None, &Silent).unwrap();
    session.flush().unwrap();
    let sections = vec![done.memory.to_section().unwrap(), done.criu.to_section().unwrap()];
    (Snapshot::new(sections).unwrap(), done.stats)
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

/// What comes out is what went in. Not `assert_eq!`: nobody wants to read that.
#[track_caller]
pub(crate) fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (contents(one), contents(other));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, bytes) in &one {
        assert!(bytes == &other[name], "{name} differs");
    }
}

/// Address spaces at addresses like those of a process: a heap, mappings far above, and near leaf borders.
fn spaces() -> impl Strategy<Value = Vec<(bool, Pages)>> {
    let bases = prop_oneof![Just(0u64), Just(0x5_5555_5555), Just(0x7_fff0_0000), Just(510)];
    let run = (bases, 0u64..600, 1u8..40, any::<u8>(), 0u8..4);
    let pages = prop::collection::vec(run, 0..6).prop_map(|runs| {
        let mut pages = Pages::new();
        for (base, offset, count, seed, step) in runs {
            // Step 0 makes equal pages, others different ones; some are zeros.
            pages
                .extend((0..count).map(|n| (base + offset + u64::from(n), seed.wrapping_add(n * step) % 24)));
        }
        pages
    });
    prop::collection::vec((any::<bool>(), pages), 1..4)
}

fn write_all(dir: &Path, spaces: &[(bool, Pages)], cut: usize) {
    write_inventory(dir);
    fs::write(dir.join("core-1.img"), vec![7; 3000]).unwrap();
    fs::write(dir.join("empty.img"), []).unwrap();
    for (number, (is_shm, pages)) in (1u32..).zip(spaces) {
        let kind = if *is_shm { "shmem-" } else { "" };
        write_pages(dir, &format!("pagemap-{kind}{number}.img"), number, pages, cut);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn images_come_out_as_they_went_in(
        first in spaces(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..60),
        cuts in (1usize..50, 1usize..50),
    ) {
        let base = tempfile::tempdir().unwrap();
        let store = store(base.path());
        let (parent, child) = (fresh(base.path(), "parent"), fresh(base.path(), "child"));
        write_all(&parent, &first, cuts.0);
        let mut second = first.clone();
        for (_, pages) in &mut second {
            for (which, content) in &changes {
                if pages.is_empty() {
                    break;
                }
                let page = *pages.keys().nth(which.index(pages.len())).unwrap();
                match content % 4 {
                    0 => _ = pages.remove(&page),
                    1 => _ = pages.insert(page + 1, *content),
                    _ => _ = pages.insert(page, content % 24),
                }
            }
        }
        write_all(&child, &second, cuts.1);
        let (parent_snapshot, stats) = ingest(&store, &parent, None);
        let present: usize = first.iter().map(|(_, pages)| pages.len()).sum();
        prop_assert_eq!(stats.memory_bytes, (present * PAGE) as u64);
        let (child_snapshot, _) = ingest(&store, &child, Some(&parent_snapshot));
        for (name, images, snapshot) in [("p", &parent, &parent_snapshot), ("c", &child, &child_snapshot)] {
            let out = fresh(base.path(), name);
            lay_out(&store, "x", snapshot, &out, &Silent).unwrap();
            assert_same(images, &out);
        }
    }
}

#[test]
fn only_what_changed_is_new() {
    let base = tempfile::tempdir().unwrap();
    let store = store(base.path());
    let (parent, child) = (fresh(base.path(), "parent"), fresh(base.path(), "child"));
    let mut pages: Pages = (0..1000).map(|page| (0x1_0000 + page, (page % 200) as u8 + 1)).collect();
    pages.extend((0..100).map(|page| (0x9_0000 + page, 0)));
    write_all(&parent, &[(false, pages.clone())], 1000);
    let (snapshot, stats) = ingest(&store, &parent, None);
    assert_eq!((stats.zero_bytes, stats.new_bytes), (100 * 4096, 1000 * 4096));
    for page in [0x1_0000, 0x1_0123, 0x9_0001] {
        pages.insert(page, 255);
    }
    // Cut elsewhere, as CRIU does each time.
    write_all(&child, &[(false, pages)], 7);
    let (_, stats) = ingest(&store, &child, Some(&snapshot));
    assert_eq!((stats.memory_bytes, stats.new_bytes), (1100 * 4096, 3 * 4096));
}

#[test]
fn zeros_are_holes_in_what_is_laid_out() {
    use std::os::unix::fs::MetadataExt;
    let base = tempfile::tempdir().unwrap();
    let (store, dir, out) = (store(base.path()), fresh(base.path(), "images"), fresh(base.path(), "out"));
    let mut pages: Pages = (0..4096).map(|page| (page, 0)).collect();
    pages.insert(5, 1);
    write_all(&dir, &[(false, pages)], 4096);
    let (snapshot, _) = ingest(&store, &dir, None);
    lay_out(&store, "x", &snapshot, &out, &Silent).unwrap();
    let laid = fs::metadata(out.join("pages-1.img")).unwrap();
    assert_eq!(laid.len(), 4096 * 4096);
    assert!(laid.blocks() * 512 < 1 << 20, "{} blocks", laid.blocks());
}

#[test]
fn pages_files_of_an_unusual_form_are_kept_as_they_are() {
    let base = tempfile::tempdir().unwrap();
    let (store, dir, out) = (store(base.path()), fresh(base.path(), "images"), fresh(base.path(), "out"));
    let pages: Pages = (16..24).map(|page| (page, 3)).collect();
    write_all(&dir, &[(false, pages.clone()), (true, pages.clone())], 3);
    // One pages file for two pagemaps, and one that is longer than its pagemap says.
    write_pages(&dir, "pagemap-7.img", 1, &pages, 3);
    fs::write(dir.join("pages-2.img"), vec![1; 9 * PAGE]).unwrap();
    let (snapshot, stats) = ingest(&store, &dir, None);
    assert_eq!(stats.memory_bytes, 0);
    lay_out(&store, "x", &snapshot, &out, &Silent).unwrap();
    assert_same(&dir, &out);
}

#[test]
fn a_dump_that_is_not_whole_is_refused() {
    let base = tempfile::tempdir().unwrap();
    let (store, dir) = (store(base.path()), fresh(base.path(), "images"));
    let pages: Pages = (16..24).map(|page| (page, 3)).collect();
    write_all(&dir, &[(false, pages)], 3);
    let refusal = || {
        let session = store.write(&[]).unwrap();
        ingest_images(&session, &dir, None, None, &Silent).unwrap_err().to_string()
    };
    fs::write(dir.join("pages-1.img"), vec![1; 7 * PAGE]).unwrap();
    assert!(refusal().contains("pages-1.img has 28672 bytes"), "{}", refusal());
    fs::create_dir(dir.join("sub")).unwrap();
    assert!(refusal().contains("is not an image"), "{}", refusal());
    fs::remove_dir(dir.join("sub")).unwrap();
    let entry = PagemapEntry { vaddr: 0, flags: Some(1), nr_pages: Some(1), ..PagemapEntry::default() };
    write_image(&dir, "pagemap-1.img", PAGEMAP, &[vec![0x08, 1], entry.encode_to_vec()]);
    assert!(refusal().contains("an earlier dump"), "{}", refusal());
}

#[test]
fn a_snapshot_that_does_not_fit_together_is_not_laid_out() {
    let base = tempfile::tempdir().unwrap();
    let (store, dir) = (store(base.path()), fresh(base.path(), "images"));
    let pages: Pages = (16..24).map(|page| (page, 3)).collect();
    write_all(
        &dir,
        &[(false, pages.clone()), (false, pages.iter().map(|(at, n)| (at + 9, *n)).collect())],
        3,
    );
    let (snapshot, _) = ingest(&store, &dir, None);
    let (memory, criu) =
        (snapshot.get::<MemorySection>().unwrap().unwrap(), snapshot.get::<CriuSection>().unwrap().unwrap());
    let refusal = |name: &str, memory: &MemorySection, criu: &CriuSection| {
        let sections = vec![memory.to_section().unwrap(), criu.to_section().unwrap()];
        let out = fresh(base.path(), name);
        let result = lay_out(&store, "abc", &Snapshot::new(sections).unwrap(), &out, &Silent);
        result.unwrap_err().to_string()
    };
    let mut fewer = memory.clone();
    fewer.spaces.pop();
    assert!(refusal("a", &fewer, &criu).contains("the memory of pid:2 is missing"));
    // The same number of pages, but at other addresses.
    let mut swapped = memory.clone();
    swapped.spaces[1].map = swapped.spaces[0].map;
    refusal("b", &swapped, &criu);
    let mut outside = criu;
    let image = outside.images["core-1.img"];
    outside.images.insert("../evil".into(), image);
    assert!(refusal("c", &memory, &outside).contains("not the name of an image"));
    assert!(!base.path().join("evil").exists());
}
