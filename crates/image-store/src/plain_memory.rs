//! Which memory of a dump can be put into the processes after CRIU has made them.
//!
//! CRIU makes mappings and fills them, and both it and the kernel write into some of them on the way. What is filled afterwards must be
//! memory of which neither knows anything but that it is there:
//!
//! * large mappings that are what `malloc` asks for ([`Vma::is_plain`]). Small ones are not worth it: most of a kernel's
//!   mappings are small, and all together they are some MiB.
//! * Not the surroundings of a thread: where its stack, its thread-local storage and the area are that the kernel writes to
//!   whenever the thread goes on. These may lie in large mappings, because the kernel joins what touches.
//! * Not what a process may share with its parent since `fork`. CRIU forks, too, and so they share those pages again; filled one by
//!   one each would have its own, and a tree that fitted into memory might not fit any more. CRIU takes mappings for shared that have
//!   the same addresses, and so do we.
//!
//! And all processes must have been running: those that are filled stand still and are all set going afterwards, and one that its user had
//! stopped must not be.
//!
//! Images may come from anybody. What is odd here (mappings that overlap, that end before they begin, of which an image is missing) is left
//! to CRIU, as everything is that nobody fills.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cas_core::memory::PAGE;
use checkpoint_criu::images::{Images, PstreeEntry, Vma};

use crate::pages::LIMIT;

/// A mapping is large from here on.
pub(crate) const LARGE: u64 = 16 << 20;
/// Around a place of a thread's this much stays with CRIU: a huge page, aligned as such.
const AROUND: u64 = 2 << 20;

/// The address ranges that CRIU need not fill, for each process: whole pages, sorted and apart. Empty if there are none, or if not
/// enough is known.
pub(crate) fn plain_memory(images: &Images) -> BTreeMap<u32, Vec<Range<u64>>> {
    Processes::read(images).map(|processes| processes.plain_memory()).unwrap_or_default()
}

/// What has to be known of a tree.
struct Processes {
    tree: Vec<PstreeEntry>,
    mappings: BTreeMap<u32, Vec<Vma>>,
    /// Places of threads, of all threads of a process.
    places: BTreeMap<u32, Vec<u64>>,
}

impl Processes {
    /// `None` if something is missing, or if a process was stopped.
    fn read(images: &Images) -> Option<Self> {
        let tree = images.pstree().ok()?;
        let (mut mappings, mut places) = (BTreeMap::new(), BTreeMap::new());
        for process in &tree {
            let core = images.core(process.pid).ok()?;
            if core.is_stopped() {
                return None;
            }
            if core.is_over() {
                continue;
            }
            let own = places.entry(process.pid).or_insert_with(Vec::new);
            for thread in process.threads.iter().chain([&process.pid]) {
                own.extend(images.core(*thread).ok()?.places()?);
            }
            mappings.insert(process.pid, images.mm(process.pid).ok()?.vmas);
        }
        Some(Self { tree, mappings, places })
    }

    fn plain_memory(&self) -> BTreeMap<u32, Vec<Range<u64>>> {
        let mut found = BTreeMap::new();
        for (pid, vmas) in &self.mappings {
            let shared = self.shared_with_relatives(*pid);
            let places = self.places.get(pid).map(Vec::as_slice).unwrap_or_default();
            let ranges: Vec<Range<u64>> = alone(vmas)
                .filter(|vma| is_large_and_plain(vma) && !shared.contains(&(vma.start, vma.end)))
                .flat_map(|vma| away_from(places, vma.start..vma.end))
                .collect();
            if !ranges.is_empty() {
                found.insert(*pid, ranges);
            }
        }
        found
    }

    /// The mappings that a process has where its parent or a child of it has one, too.
    fn shared_with_relatives(&self, pid: u32) -> BTreeSet<(u64, u64)> {
        let addresses = |pid: u32| -> BTreeSet<(u64, u64)> {
            self.mappings.get(&pid).into_iter().flatten().map(|vma| (vma.start, vma.end)).collect()
        };
        let own = addresses(pid);
        let relatives = self.tree.iter().filter_map(|process| match process {
            PstreeEntry { pid: child, ppid, .. } if *ppid == pid => Some(*child),
            PstreeEntry { pid: child, ppid, .. } if *child == pid => Some(*ppid),
            _ => None,
        });
        relatives.flat_map(addresses).filter(|mapping| own.contains(mapping)).collect()
    }
}

fn is_large_and_plain(vma: &Vma) -> bool {
    let page = PAGE as u64;
    vma.is_plain()
        && vma.len() >= LARGE
        && vma.end <= LIMIT
        && vma.start.is_multiple_of(page)
        && vma.end.is_multiple_of(page)
}

/// The mappings that no other one overlaps, in order.
fn alone(vmas: &[Vma]) -> impl Iterator<Item = Vma> {
    let mut sorted: Vec<Vma> = vmas.iter().filter(|vma| !vma.is_empty()).copied().collect();
    sorted.sort_unstable_by_key(|vma| (vma.start, vma.end));
    let mut alone = Vec::with_capacity(sorted.len());
    let mut reached = 0;
    for (at, vma) in sorted.iter().enumerate() {
        let next = sorted.get(at + 1).map_or(u64::MAX, |next| next.start);
        if reached <= vma.start && vma.end <= next {
            alone.push(*vma);
        }
        reached = reached.max(vma.end);
    }
    alone.into_iter()
}

/// A mapping without what is around these places.
fn away_from(places: &[u64], mapping: Range<u64>) -> Vec<Range<u64>> {
    let blocks: BTreeSet<u64> =
        places.iter().filter(|place| mapping.contains(place)).map(|place| place / AROUND).collect();
    let mut left = Vec::new();
    let mut start = mapping.start;
    for block in blocks {
        let (from, to) = (block * AROUND, (block + 1) * AROUND);
        if start < from {
            left.push(start..from);
        }
        start = start.max(to);
    }
    if start < mapping.end {
        left.push(start..mapping.end);
    }
    left
}
