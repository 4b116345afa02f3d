//! What is left out of images, and that nothing else is.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cas_core::Store;
use cas_core::memory::PAGE;
use cas_core::progress::Silent;
use checkpoint_criu::images::{
    Core, Images, Mm, PstreeEntry, Registers, Rseq, TaskCore, TaskState, ThreadCore, ThreadInfo, Vma,
};
use checkpoint_criu::{Missing, TakePages};
use manifest::Snapshot;
use manifest::snapshot::MemorySection;
use proptest::prelude::*;
use prost::Message;

use crate::pages::{pagemap_image, pages_image};
use crate::skeleton::{MissingPages, Skeleton};
use crate::tests::{
    Pages, assert_same, fresh, ingest, page, store, write_image, write_inventory, write_pages,
};

const PSTREE: u32 = 0x5027_3030;
const CORE: u32 = 0x5505_3847;
const MM: u32 = 0x5749_2820;

/// Pages of 2 MiB.
const HUGE: u64 = 512;

/// A process of a tree.
#[derive(Clone)]
struct Process {
    pid: u32,
    ppid: u32,
    core: Core,
    vmas: Vec<Vma>,
    pages: Pages,
}

/// A mapping of pages `first..first + count` that is plain.
fn plain(first: u64, count: u64) -> Vma {
    let (start, end) = (first * PAGE as u64, (first + count) * PAGE as u64);
    Vma { start, end, prot: 3, flags: 0x22, status: 513, fd: -1, ..Vma::default() }
}

/// One that runs, with its stack and what else a thread has at an address where nothing is.
fn process(pid: u32, vmas: &[Vma], pages: Pages) -> Process {
    let task = TaskCore { state: TaskState::Alive.into(), ..TaskCore::default() };
    let core = Core {
        mtype: 1,
        info: Some(ThreadInfo::default()),
        task: Some(task),
        thread: Some(ThreadCore::default()),
        ..Core::default()
    };
    Process { pid, ppid: 0, core, vmas: vmas.to_vec(), pages }
}

fn write(dir: &Path, processes: &[Process]) {
    write_inventory(dir);
    let tree = processes.iter().map(|process| {
        let threads = vec![process.pid];
        PstreeEntry { pid: process.pid, ppid: process.ppid, threads, ..PstreeEntry::default() }
            .encode_to_vec()
    });
    write_image(dir, "pstree.img", PSTREE, &tree.collect::<Vec<_>>());
    for process in processes {
        let pid = process.pid;
        write_image(dir, &format!("core-{pid}.img"), CORE, &[process.core.encode_to_vec()]);
        let mm = Mm { vmas: process.vmas.clone(), ..Mm::default() };
        write_image(dir, &format!("mm-{pid}.img"), MM, &[mm.encode_to_vec()]);
        write_pages(dir, &pagemap_image(pid), pid, &process.pages, 7);
    }
}

/// Takes pages into memory.
#[derive(Default)]
struct Taken(Mutex<BTreeMap<u64, Vec<u8>>>);

impl TakePages for Taken {
    fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let mut taken = self.0.lock().unwrap();
        for (number, page) in (address / PAGE as u64..).zip(bytes.chunks_exact(PAGE)) {
            assert!(taken.insert(number, page.to_vec()).is_none(), "page {number} was given twice");
        }
        Ok(())
    }

    fn zeros(&self, address: u64, len: u64) -> io::Result<()> {
        self.pages(address, &vec![0; usize::try_from(len).unwrap()])
    }
}

fn missing_of(missing: &MissingPages, pid: u32) -> BTreeMap<u64, Vec<u8>> {
    if !missing.runs().contains_key(&pid) {
        return BTreeMap::new();
    }
    let taken = Taken::default();
    missing.read(pid, &taken).unwrap();
    taken.0.into_inner().unwrap()
}

/// The pages that images have.
fn laid_out(dir: &Path, pid: u32) -> BTreeMap<u64, Vec<u8>> {
    let pagemap = Images::open(dir).unwrap().pagemap(pid).unwrap();
    let bytes = fs::read(dir.join(pages_image(pagemap.pages_id))).unwrap();
    let numbers = pagemap.entries.iter().flat_map(|entry| {
        let first = entry.vaddr / PAGE as u64;
        first..first + entry.pages()
    });
    let numbers: Vec<u64> = numbers.collect();
    assert_eq!(numbers.len() * PAGE, bytes.len(), "the pages file of {pid}");
    numbers.into_iter().zip(bytes.chunks_exact(PAGE).map(<[u8]>::to_vec)).collect()
}

/// The numbers of the pages that are missing, for each process, after it was seen that with the images they are the whole.
#[track_caller]
fn missing(base: &Path, store: &Arc<Store>, processes: &[Process]) -> BTreeMap<u32, Vec<u64>> {
    let dir = fresh(base, "images");
    write(&dir, processes);
    let (snapshot, _) = ingest(store, &dir, None);
    let found = missing_in(base, store, &snapshot, processes);
    let whole = fresh(base, "whole");
    crate::lay_out(store, "x", &snapshot, &whole, &Silent).unwrap();
    assert_same(&dir, &whole);
    found
}

fn missing_in(
    base: &Path,
    store: &Arc<Store>,
    snapshot: &Snapshot,
    processes: &[Process],
) -> BTreeMap<u32, Vec<u64>> {
    let Some(skeleton) = Skeleton::of_at_least(1, store, "x", snapshot).unwrap() else {
        return BTreeMap::new();
    };
    let bytes = skeleton.missing_bytes();
    let out = fresh(base, "skeleton");
    let missing = skeleton.lay_out("x", snapshot, &out, &Silent).unwrap();
    let mut found = BTreeMap::new();
    let mut count = 0;
    for process in processes {
        let mut all = laid_out(&out, process.pid);
        let given = missing_of(&missing, process.pid);
        count += given.len() * PAGE;
        found.insert(process.pid, given.keys().copied().collect());
        for (number, bytes) in given {
            assert!(all.insert(number, bytes).is_none(), "page {number} is in the images, too");
        }
        let expected: BTreeMap<u64, Vec<u8>> =
            process.pages.iter().map(|(number, content)| (*number, page(*content))).collect();
        assert!(all == expected, "process {} is not what it was", process.pid);
    }
    assert_eq!(count as u64, bytes);
    found
}

fn some_pages(first: u64, count: u64) -> Pages {
    (first..first + count).zip((0..24).cycle()).collect()
}

#[test]
fn large_plain_mappings_are_left_out_and_nothing_else() {
    let base = tempfile::tempdir().unwrap();
    let store = store(base.path());
    let large = 8 * HUGE;
    let starts: Vec<u64> = (1..9).map(|number| number * 100 * HUGE).collect();
    let locked = Vma { flags: 0x2022, ..plain(starts[2], large) };
    let readable = Vma { prot: 1, ..plain(starts[3], large) };
    let shared = Vma { status: 257, flags: 0x21, ..plain(starts[4], large) };
    let stack = Vma { status: 515, flags: 0x122, ..plain(starts[5], large) };
    let file = Vma { status: 65, flags: 2, ..plain(starts[6], large) };
    let vmas = [
        plain(starts[0], large),
        plain(starts[1], large - 1),
        locked,
        readable,
        shared,
        stack,
        file,
        plain(starts[7], large),
    ];
    let mut pages: Pages = starts.iter().flat_map(|start| some_pages(*start + 3, 20)).collect();
    pages.extend(some_pages(50, 5));
    let found = missing(base.path(), &store, &[process(5, &vmas, pages)]);
    let expected: Vec<u64> = [starts[0], starts[7]].iter().flat_map(|start| start + 3..start + 23).collect();
    assert_eq!(found, BTreeMap::from([(5, expected)]));
}

#[test]
fn what_belongs_to_a_thread_stays_with_criu() {
    let base = tempfile::tempdir().unwrap();
    let store = store(base.path());
    // Not aligned, as the kernel makes them.
    let start = 1000 * HUGE + 77;
    let pages = some_pages(start, 12 * HUGE);
    let mut one = process(5, &[plain(start, 12 * HUGE)], pages);
    let at = |huge: u64| ((1000 + huge) * HUGE + 100) * PAGE as u64 + 345;
    let registers = Registers { sp: at(2), fs_base: at(4), gs_base: at(6) };
    one.core.info = Some(ThreadInfo { clear_tid: at(8), registers });
    one.core.thread = Some(ThreadCore {
        robust_list: at(10),
        rseq: Some(Rseq { pointer: at(0) }),
        ..ThreadCore::default()
    });
    let found = missing(base.path(), &store, std::slice::from_ref(&one));
    let kept = [0, 2, 4, 6, 8, 10];
    let expected: Vec<u64> =
        (start..start + 12 * HUGE).filter(|page| !kept.contains(&(page / HUGE - 1000))).collect();
    assert!(found == BTreeMap::from([(5, expected)]), "{} pages are missing", found[&5].len());
}

#[test]
fn what_a_child_may_share_with_its_parent_stays_with_criu() {
    let base = tempfile::tempdir().unwrap();
    let store = store(base.path());
    let (shared, own) = (plain(1000 * HUGE, 9 * HUGE), plain(2000 * HUGE, 9 * HUGE));
    let locked = Vma { flags: 0x2022, ..plain(3000 * HUGE, 9 * HUGE) };
    let pages =
        |firsts: &[u64]| firsts.iter().flat_map(|first| some_pages(first * HUGE, 4)).collect::<Pages>();
    let parent = process(5, &[shared, own, locked], pages(&[1000, 2000, 3000]));
    let child = process(6, &[shared, plain(3000 * HUGE, 9 * HUGE)], pages(&[1000, 3000]));
    let stranger = process(7, &[shared], pages(&[1000]));
    let tree = [parent, Process { ppid: 5, ..child }, stranger];
    let found = missing(base.path(), &store, &tree);
    let four = |first: u64| (first * HUGE..first * HUGE + 4).collect::<Vec<u64>>();
    assert_eq!(found, BTreeMap::from([(5, four(2000)), (6, vec![]), (7, four(1000))]));
}

#[test]
fn a_tree_of_which_something_is_not_known_is_laid_out_as_a_whole() {
    let good = process(5, &[plain(1000 * HUGE, 9 * HUGE)], some_pages(1000 * HUGE, 9 * HUGE));
    let mut stopped = good.clone();
    stopped.pid = 6;
    stopped.core.task = Some(TaskCore { state: TaskState::Stopped.into(), ..TaskCore::default() });
    let mut elsewhere = good.clone();
    elsewhere.core.info = None;
    for tree in [vec![good.clone(), stopped], vec![elsewhere]] {
        let base = tempfile::tempdir().unwrap();
        assert_eq!(missing(base.path(), &store(base.path()), &tree), BTreeMap::new());
    }
    let base = tempfile::tempdir().unwrap();
    let store = store(base.path());
    for (number, name) in (0..).zip(["pstree.img", "core-5.img", "mm-5.img"]) {
        for bytes in [vec![], vec![7; 100]] {
            let dir = fresh(base.path(), &format!("{number}-{}", bytes.len()));
            write(&dir, std::slice::from_ref(&good));
            fs::write(dir.join(name), bytes).unwrap();
            let (snapshot, _) = ingest(&store, &dir, None);
            assert!(Skeleton::of(&store, "x", &snapshot).unwrap().is_none(), "{name}");
        }
    }
    let dir = fresh(base.path(), "good");
    write(&dir, std::slice::from_ref(&good));
    let (snapshot, _) = ingest(&store, &dir, None);
    assert_eq!(
        Skeleton::of(&store, "x", &snapshot).unwrap().unwrap().missing_bytes(),
        9 * HUGE * PAGE as u64
    );
}

#[test]
fn memory_that_is_not_that_of_the_pagemap_is_not_taken_apart() {
    let base = tempfile::tempdir().unwrap();
    let store = store(base.path());
    let snapshot_of = |name: &str, pages: Pages| {
        let dir = fresh(base.path(), name);
        write(&dir, &[process(5, &[plain(1000 * HUGE, 9 * HUGE)], pages)]);
        ingest(&store, &dir, None).0
    };
    let one = snapshot_of("one", some_pages(1000 * HUGE, 4096));
    let memory = |pages: Pages, name: &str| snapshot_of(name, pages).get::<MemorySection>().unwrap().unwrap();
    let sections = |memory: &MemorySection| {
        use manifest::TypedSection;
        let criu = one.get::<manifest::snapshot::CriuSection>().unwrap().unwrap();
        Snapshot::new(vec![memory.to_section().unwrap(), criu.to_section().unwrap()]).unwrap()
    };
    // Another number of pages: no skeleton. As many, but others: that is seen when they are laid out or given.
    let fewer = sections(&memory(some_pages(1000 * HUGE, 4095), "fewer"));
    assert!(Skeleton::of_at_least(1, &store, "x", &fewer).unwrap().is_none());
    let others = sections(&memory(some_pages(1000 * HUGE + 1, 4096), "others"));
    let skeleton = Skeleton::of_at_least(1, &store, "x", &others).unwrap().unwrap();
    let bytes = skeleton.missing_bytes();
    let missing = skeleton.lay_out("x", &others, &fresh(base.path(), "out"), &Silent).unwrap();
    let given = missing_of(&missing, 5);
    assert!(((given.len() * PAGE) as u64) < bytes, "whoever counts sees that not all came");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn skeleton_and_missing_pages_are_the_whole(
        runs in prop::collection::vec((0_u64..9 * HUGE, 1_u64..400, any::<u8>()), 1..8),
        gap in 1_u64..700,
        sp in 0_u64..30 * HUGE,
    ) {
        let base = tempfile::tempdir().unwrap();
        let store = store(base.path());
        let first = 1000 * HUGE + gap;
        // Two that touch, with different advice, and a small one after a hole.
        let advised = Vma { madvise: Some(1 << 14), ..plain(first + 8 * HUGE, 8 * HUGE) };
        let vmas = [plain(first, 8 * HUGE), advised, plain(first + 16 * HUGE + 9, 40)];
        let mut pages = Pages::new();
        for (offset, count, seed) in runs {
            let numbers = (0..count).map(|number| first + (2 * offset + number) % (16 * HUGE));
            pages.extend(numbers.zip((seed % 24..24).cycle()));
        }
        pages.extend(some_pages(first + 16 * HUGE + 9, 40));
        let mut one = process(5, &vmas, pages);
        let registers = Registers { sp: (first + sp) * PAGE as u64, ..Registers::default() };
        one.core.info = Some(ThreadInfo { registers, ..ThreadInfo::default() });
        missing(base.path(), &store, &[one]);
    }

    /// Whatever mappings are said to be, what comes out is what went in, or is refused.
    #[test]
    fn no_mappings_break_it(
        odd in prop::collection::vec((0_u64..40, 0_u64..40, 0_u64..3, any::<bool>()), 1..10),
        far in any::<u64>(),
    ) {
        let base = tempfile::tempdir().unwrap();
        let store = store(base.path());
        let mut vmas: Vec<Vma> = odd
            .iter()
            .map(|(start, end, off, good)| {
                let at = |huge: u64| huge * HUGE * PAGE as u64 + off * 2048;
                let status = if *good { 513 } else { 1 | 1 << 16 };
                Vma { start: at(*start), end: at(*end), status, ..plain(0, 0) }
            })
            .collect();
        vmas.push(Vma { start: far, end: u64::MAX, ..plain(0, 0) });
        let pages: Pages = (0..40).flat_map(|huge| some_pages(huge * HUGE + 100, 3)).collect();
        let one = process(5, &vmas, pages);
        let inside: Vec<u64> = missing(base.path(), &store, std::slice::from_ref(&one)).remove(&5).unwrap_or_default();
        for number in inside {
            let at = number * PAGE as u64;
            let over = vmas.iter().filter(|vma| (vma.start..vma.end).contains(&at)).collect::<Vec<_>>();
            prop_assert!(matches!(over[..], [vma] if vma.status == 513), "page {number} is in {over:?}");
        }
    }
}
