//! Which pages differ between two maps, and which mappings they belong to.

use std::collections::BTreeMap;
use std::ffi::OsString;

use cas_core::memory::{LEAF_PAGES, LeafMap, MapRoot, Node, PAGE, Target, parse_node};
use cas_core::{Kind, ObjectId, Store, StoreError};
use checkpoint_criu::images::Vma;

use super::{Change, MemoryChange};

/// Bits of a leaf's number that one level of nodes takes.
const LEVEL_BITS: u32 = 9;
/// CRIU's marks for mappings that have a name without having a file.
const SPECIAL: [(u32, &str); 4] =
    [(1 << 5, "[heap]"), (1 << 1, "[stack]"), (1 << 3, "[vdso]"), (1 << 12, "[vvar]")];

/// Pages that follow each other: the first one's number, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) pages: u64,
}

/// A mapping with what people call it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mapping {
    start: u64,
    end: u64,
    name: OsString,
}

impl Mapping {
    pub(super) fn of(vma: &Vma, paths: &BTreeMap<u32, OsString>) -> Self {
        let special = SPECIAL.iter().find(|(mark, _)| vma.status & mark != 0).map(|(_, name)| *name);
        let file = vma.file_id().and_then(|id| paths.get(&id).cloned());
        let other = if vma.is_memfd() {
            "[memfd]"
        } else if vma.is_shared() {
            "[shared]"
        } else {
            "[anon]"
        };
        let name = special.map(OsString::from).or(file).unwrap_or_else(|| other.into());
        Self { start: vma.start, end: vma.end, name }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// The pages that are not the same in both maps, in order of addresses.
pub(super) fn changed(
    store: &Store,
    before: Option<&MapRoot>,
    after: Option<&MapRoot>,
) -> Result<Vec<Run>, StoreError> {
    let mut walk = Walk { store, runs: Vec::new() };
    walk.node(before.map(|root| root.id), after.map(|root| root.id), 0, None)?;
    Ok(walk.runs)
}

struct Walk<'a> {
    store: &'a Store,
    runs: Vec<Run>,
}

impl Walk<'_> {
    /// Compares two nodes at the same place. Their level must be `level`; that of a root is its own affair.
    fn node(
        &mut self,
        before: Option<ObjectId>,
        after: Option<ObjectId>,
        number: u64,
        level: Option<u8>,
    ) -> Result<(), StoreError> {
        if before == after {
            return Ok(());
        }
        let load = |id: Option<ObjectId>| id.map(|id| self.load_node(id, level)).transpose();
        let (old, new) = (load(before)?, load(after)?);
        let found = old.as_ref().or(new.as_ref()).map_or(1, |node| node.level);
        if let (Some(old), Some(new), Some(id)) = (&old, &new, after)
            && old.level != new.level
        {
            let detail =
                format!("is of level {}, the map that it is compared with of {}", new.level, old.level);
            return Err(StoreError::Malformed { id, detail });
        }
        let mut children: BTreeMap<u16, [Option<ObjectId>; 2]> = BTreeMap::new();
        for (side, node) in [old, new].into_iter().enumerate() {
            for (slot, id, _) in node.into_iter().flat_map(|node| node.children) {
                children.entry(slot).or_default()[side] = Some(id);
            }
        }
        for (slot, [old, new]) in children {
            let number = number << LEVEL_BITS | u64::from(slot);
            match found.checked_sub(1).filter(|below| *below > 0) {
                Some(below) => self.node(old, new, number, Some(below))?,
                None => self.leaf(old, new, number)?,
            }
        }
        Ok(())
    }

    fn load_node(&self, id: ObjectId, level: Option<u8>) -> Result<Node, StoreError> {
        let malformed = |detail| StoreError::Malformed { id, detail };
        let node = parse_node(&self.store.get(Kind::MAP_NODE, &id)?).map_err(malformed)?;
        // Levels only go down, so a map cannot contain itself.
        if level.is_none_or(|level| level == node.level) {
            Ok(node)
        } else {
            Err(malformed(format!("is a map node of level {}", node.level)))
        }
    }

    fn leaf(
        &mut self,
        before: Option<ObjectId>,
        after: Option<ObjectId>,
        number: u64,
    ) -> Result<(), StoreError> {
        if before == after {
            return Ok(());
        }
        let (old, new) = (self.pages(before)?, self.pages(after)?);
        let base = number * LEAF_PAGES as u64;
        for (page, _) in (base..).zip(old.iter().zip(&new)).filter(|(_, (old, new))| old != new) {
            match self.runs.last_mut() {
                Some(run) if run.first + run.pages == page => run.pages += 1,
                _ => self.runs.push(Run { first: page, pages: 1 }),
            }
        }
        Ok(())
    }

    fn pages(&self, leaf: Option<ObjectId>) -> Result<Vec<Page>, StoreError> {
        let mut pages = vec![Page::Absent; LEAF_PAGES];
        let Some(id) = leaf else { return Ok(pages) };
        let map = LeafMap::parse(&self.store.get(Kind::MAP_LEAF, &id)?)
            .map_err(|detail| StoreError::Malformed { id, detail })?;
        for extent in &map.extents {
            for n in 0..extent.pages {
                let place = pages.get_mut(usize::from(extent.first + n));
                let page = match extent.target {
                    Target::Zero => Some(Page::Zero),
                    Target::Stored { object, page } => {
                        map.objects.get(usize::from(object)).map(|object| Page::Stored(object.id, page + n))
                    }
                };
                if let (Some(place), Some(page)) = (place, page) {
                    *place = page;
                }
            }
        }
        Ok(pages)
    }
}

/// Where a page's bytes are. The same place is the same bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Page {
    Absent,
    Zero,
    Stored(ObjectId, u16),
}

/// Adds up the changed pages of a process by mapping. A page belongs to the mapping that is there after, or else before.
pub(super) fn by_mapping(pid: u32, runs: &[Run], before: &[Mapping], after: &[Mapping]) -> Vec<MemoryChange> {
    let known = |mapping: &Mapping, others: &[Mapping]| {
        others.iter().any(|other| other.overlaps(mapping) && other.name == mapping.name)
    };
    let mut changes: Vec<MemoryChange> = Vec::new();
    for run in runs {
        let end = (run.first + run.pages) * PAGE as u64;
        let mut at = run.first * PAGE as u64;
        while at < end {
            let (mapping, change) = match (find(after, at), find(before, at)) {
                (Some(new), _) if known(new, before) => (new.clone(), Change::Changed),
                (Some(new), _) => (new.clone(), Change::Added),
                (None, Some(old)) if known(old, after) => (old.clone(), Change::Changed),
                (None, Some(old)) => (old.clone(), Change::Removed),
                (None, None) => {
                    let next = next_start(after, at).min(next_start(before, at)).min(end);
                    (Mapping { start: at, end: next, name: "[unknown]".into() }, Change::Changed)
                }
            };
            // Up to where somebody else may have a say.
            let stop = mapping.end.min(end).min(next_start(after, at));
            let bytes = stop - at;
            match changes.last_mut() {
                Some(last) if last.start == mapping.start && last.end == mapping.end => {
                    last.changed_bytes += bytes;
                }
                _ => changes.push(MemoryChange {
                    pid,
                    start: mapping.start,
                    end: mapping.end,
                    name: mapping.name,
                    change,
                    changed_bytes: bytes,
                }),
            }
            at = stop;
        }
    }
    changes
}

/// Shared memory has no mapping of its own here: several processes may map it, each elsewhere.
pub(super) fn of_shared(name: &str, runs: &[Run], before: bool, after: bool) -> Option<MemoryChange> {
    let end = runs.last().map(|run| (run.first + run.pages) * PAGE as u64)?;
    Some(MemoryChange {
        pid: 0,
        start: 0,
        end,
        name: format!("[{name}]").into(),
        change: match (before, after) {
            (false, _) => Change::Added,
            (_, false) => Change::Removed,
            _ => Change::Changed,
        },
        changed_bytes: runs.iter().map(|run| run.pages * PAGE as u64).sum(),
    })
}

/// The mapping that an address is in; mappings are sorted.
fn find(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let after = mappings.partition_point(|mapping| mapping.start <= address);
    mappings.get(after.checked_sub(1)?).filter(|mapping| address < mapping.end)
}

/// Where the next mapping begins.
fn next_start(mappings: &[Mapping], address: u64) -> u64 {
    let after = mappings.partition_point(|mapping| mapping.start <= address);
    mappings.get(after).map_or(u64::MAX, |mapping| mapping.start)
}
