//! The two rules that keep long chains readable and collectable. The module documentation of [`crate::memory`] says why.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::map::{LeafMap, Page};
use super::page_cache::PageCache;
use super::scan::page_of;
use super::tree::AddressMap;
use crate::error::Result;
use crate::id::ObjectId;
use crate::store::{ReadContext, Store};

/// A child uses an object for at least one part in this many.
const SMALLEST_USE: u64 = 4;
/// A leaf that points into more objects than this is cleaned up …
const MOST_OBJECTS: usize = 48;
/// … until it points into so many.
const CLEAN_OBJECTS: usize = 24;

/// Which objects' pages are to be rewritten, per leaf.
pub(super) type Rewrites = BTreeMap<u64, HashSet<ObjectId>>;

/// Applies both rules to a new map. Only objects of the parent are considered: what was written just now is as it should
/// be, and cannot be read yet.
pub(super) fn plan(parent: &AddressMap, map: &AddressMap) -> Rewrites {
    let before = uses(parent);
    let mut rewrites = Rewrites::new();
    for (number, leaf) in &map.leaves {
        if leaf.id.is_none() {
            let merged = merged_objects(&leaf.map, &before);
            if !merged.is_empty() {
                rewrites.insert(*number, merged);
            }
        }
    }
    let mut after = uses(map);
    for (number, merged) in &rewrites {
        for (object, pages) in leaf_uses(&map.leaves[number].map) {
            if merged.contains(&object)
                && let Some(count) = after.get_mut(&object)
            {
                count.used -= pages;
            }
        }
    }
    let sparse: HashSet<ObjectId> = after
        .iter()
        .filter(|(id, now)| {
            let lost_some = before.get(id).is_some_and(|then| now.used < then.used);
            lost_some && now.used > 0 && now.used * SMALLEST_USE < now.pages
        })
        .map(|(id, _)| *id)
        .collect();
    if !sparse.is_empty() {
        for (number, leaf) in &map.leaves {
            let here: Vec<_> =
                leaf.map.objects.iter().map(|object| object.id).filter(|id| sparse.contains(id)).collect();
            if !here.is_empty() {
                rewrites.entry(*number).or_default().extend(here);
            }
        }
    }
    rewrites
}

#[derive(Clone, Copy)]
struct Use {
    pages: u64,
    used: u64,
}

fn uses(map: &AddressMap) -> HashMap<ObjectId, Use> {
    let mut uses = HashMap::new();
    for leaf in map.leaves.values() {
        for (object, used) in leaf.map.objects.iter().zip(leaf.map.uses()) {
            let entry = uses.entry(object.id).or_insert(Use { pages: u64::from(object.pages), used: 0 });
            entry.used += u64::from(used);
        }
    }
    uses
}

fn leaf_uses(leaf: &LeafMap) -> impl Iterator<Item = (ObjectId, u64)> {
    leaf.objects.iter().zip(leaf.uses()).map(|(object, used)| (object.id, u64::from(used)))
}

/// The objects that give a crowded leaf the fewest pages.
fn merged_objects(leaf: &LeafMap, before: &HashMap<ObjectId, Use>) -> HashSet<ObjectId> {
    if leaf.objects.len() <= MOST_OBJECTS {
        return HashSet::new();
    }
    let mut candidates: Vec<_> = leaf_uses(leaf).filter(|(id, _)| before.contains_key(id)).collect();
    candidates.sort_unstable_by_key(|(id, used)| (*used, *id));
    // The merged pages go into one or two new objects, which the target leaves room for.
    candidates.into_iter().take(leaf.objects.len() - CLEAN_OBJECTS).map(|(id, _)| id).collect()
}

/// Takes a page of a leaf: the leaf's number, the page's number in it, its bytes.
pub(super) type WritePage<'a> = dyn FnMut(u64, u16, &[u8]) -> Result<()> + 'a;

/// Reads the pages that are to be rewritten and hands them on. Returns how many there were.
pub(super) fn read_rewrites(
    store: &Store,
    map: &AddressMap,
    rewrites: &Rewrites,
    write: &mut WritePage<'_>,
) -> Result<u64> {
    let mut context = ReadContext::new()?;
    let mut cache = PageCache::new(CLEAN_OBJECTS);
    let mut count = 0;
    for (number, objects) in rewrites {
        for (place, page) in (0u16..).zip(map.leaves[number].map.unfold()) {
            let Page::Stored { object, page } = page else { continue };
            if objects.contains(&object.id) {
                let pages = cache.pages(store, &object, &mut context)?;
                write(*number, place, page_of(pages, usize::from(page)))?;
                count += 1;
            }
        }
    }
    Ok(count)
}
