//! The inner nodes of the map, and the whole map in memory.
//!
//! ```text
//! version   1 byte (1)
//! level     1 byte: 1 = children are leaves, up to 4
//! children  varint n, then n times: slot gap (varint: free slots since the last child), id (32 bytes),
//!           pages present below (varint)
//! ```

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::error::{Result, StoreError};
use crate::id::{Kind, ObjectId};
use crate::memory::map::{LeafMap, Page};
use crate::memory::{LEAF_SPAN, PAGE};
use crate::store::{ReadContext, Store};
use crate::transaction::WriteTransaction;
use crate::varint::{self, Cursor};

const VERSION: u8 = 1;
/// Children of a node.
const FANOUT: u64 = 512;
/// Bits of a leaf number that one level takes.
const LEVEL_BITS: u32 = 9;
/// The root's level: 21 bits of leaf and four times nine make the 57 bits of the largest address space.
const ROOT_LEVEL: u8 = 4;

/// A stored map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MapRoot {
    /// Its root node.
    pub id: ObjectId,
    /// Pages that are there, zero or not.
    pub pages: u64,
}

impl MapRoot {
    /// Bytes of memory that the map describes.
    pub fn bytes(&self) -> u64 {
        self.pages * PAGE as u64
    }
}

/// An inner node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// 1 if its children are leaves.
    pub level: u8,
    /// Slot, id and present pages of each child, by slot.
    pub children: Vec<(u16, ObjectId, u64)>,
}

impl Node {
    /// The kind of its children.
    pub fn child_kind(&self) -> Kind {
        if self.level == 1 { Kind::MAP_LEAF } else { Kind::MAP_NODE }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.level];
        varint::put(&mut out, self.children.len() as u64);
        let mut next = 0;
        for (slot, id, pages) in &self.children {
            varint::put(&mut out, u64::from(*slot) - next);
            next = u64::from(*slot) + 1;
            out.extend_from_slice(id.as_bytes());
            varint::put(&mut out, *pages);
        }
        out
    }
}

/// Reads a node's object. `Err` is a sentence.
pub fn parse_node(bytes: &[u8]) -> Result<Node, String> {
    let mut cursor = Cursor::new(bytes);
    let version = cursor.byte()?;
    if version != VERSION {
        return Err(format!("is a map node of version {version}"));
    }
    let level = cursor.byte()?;
    if level == 0 || level > ROOT_LEVEL {
        return Err(format!("is a map node of level {level}"));
    }
    let count = cursor.below(FANOUT + 1, "number of children")?;
    let mut children = Vec::new();
    let mut next = 0;
    for _ in 0..count {
        let slot = next + cursor.below(FANOUT, "slot gap")?;
        next = slot + 1;
        let slot = u16::try_from(slot)
            .ok()
            .filter(|slot| u64::from(*slot) < FANOUT)
            .ok_or("has a slot beyond its end")?;
        let id = ObjectId::from_bytes(cursor.take()?);
        let limit = (FANOUT << (LEVEL_BITS * u32::from(level - 1))) * FANOUT + 1;
        children.push((slot, id, cursor.below(limit, "number of pages")?));
    }
    cursor.end()?;
    Ok(Node { level, children })
}

/// A leaf in memory, with its id if it is stored.
#[derive(Clone, Debug)]
pub(crate) struct LoadedLeaf {
    pub(crate) id: Option<ObjectId>,
    pub(crate) map: Arc<LeafMap>,
}

/// A whole map in memory: leaf number (address / 2 MiB) to leaf.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressMap {
    pub(crate) leaves: BTreeMap<u64, LoadedLeaf>,
}

impl AddressMap {
    /// Reads all leaves of a stored map.
    pub(crate) fn load(store: &Store, root: &MapRoot, context: &mut ReadContext) -> Result<Self> {
        let mut map = Self::default();
        let mut bytes = Vec::new();
        walk(store, &root.id, context, &mut |number, id, context| {
            let leaf = load_leaf(store, id, context, &mut bytes)?;
            map.leaves.insert(number, LoadedLeaf { id: Some(*id), map: Arc::new(leaf) });
            Ok(())
        })?;
        Ok(map)
    }

    /// Forgets what a child must not refer to: leaves and pages that are not in the store, or in a pack that a running gc
    /// is about to remove. They are then stored as if they had changed. A parent that a ref leads to loses nothing that
    /// way but some sharing; one that no ref leads to any more may be half gone already.
    pub(crate) fn forget_unusable(&mut self, store: &Store) -> Result<()> {
        let mut usable: HashMap<ObjectId, bool> = HashMap::new();
        for leaf in self.leaves.values_mut() {
            let mut whole = true;
            for object in &leaf.map.objects {
                whole &= match usable.entry(object.id) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => *new.insert(store.catalogue.lookup_reusable(&object.id)?.is_some()),
                };
            }
            if !whole {
                let mut pages = leaf.map.unfold();
                for page in &mut pages {
                    if let Page::Stored { object, .. } = page
                        && !usable[&object.id]
                    {
                        *page = Page::Absent;
                    }
                }
                *leaf = LoadedLeaf { id: None, map: Arc::new(LeafMap::fold(&pages)) };
            } else if let Some(id) = leaf.id
                && store.catalogue.lookup_reusable(&id)?.is_none()
            {
                leaf.id = None;
            }
        }
        Ok(())
    }

    /// Puts what is not stored yet and returns the root. Leaves without pages are left out.
    pub(crate) fn store(&mut self, transaction: &WriteTransaction) -> Result<MapRoot> {
        let mut children: Vec<(u64, ObjectId, u64)> = Vec::with_capacity(self.leaves.len());
        for (number, leaf) in &mut self.leaves {
            let pages = leaf.map.present();
            if pages == 0 {
                continue;
            }
            let id = match leaf.id {
                Some(id) => id,
                None => transaction.put(Kind::MAP_LEAF, leaf.map.encode())?,
            };
            leaf.id = Some(id);
            children.push((*number, id, pages));
        }
        for level in 1..=ROOT_LEVEL {
            let mut parents: Vec<(u64, Node)> = Vec::new();
            for (number, id, pages) in children.drain(..) {
                let slot = u16::try_from(number % FANOUT).unwrap_or_default();
                let parent = number >> LEVEL_BITS;
                match parents.last_mut() {
                    Some((last, node)) if *last == parent => node.children.push((slot, id, pages)),
                    _ => parents.push((parent, Node { level, children: vec![(slot, id, pages)] })),
                }
            }
            if parents.is_empty() && level == ROOT_LEVEL {
                parents.push((0, Node { level, children: Vec::new() }));
            }
            for (number, node) in parents {
                let pages = node.children.iter().map(|(_, _, pages)| pages).sum();
                children.push((number, transaction.put(Kind::MAP_NODE, node.encode())?, pages));
            }
        }
        match children[..] {
            [(0, id, pages)] => Ok(MapRoot { id, pages }),
            _ => Err(StoreError::Invalid { what: "an address is beyond 57 bits".to_owned() }),
        }
    }
}

/// Calls `visit` with number and id of every leaf below a root, in address order.
pub(crate) fn walk(
    store: &Store,
    root: &ObjectId,
    context: &mut ReadContext,
    visit: &mut dyn FnMut(u64, &ObjectId, &mut ReadContext) -> Result<()>,
) -> Result<()> {
    walk_node(store, root, ROOT_LEVEL, 0, context, visit)
}

fn walk_node(
    store: &Store,
    id: &ObjectId,
    level: u8,
    number: u64,
    context: &mut ReadContext,
    visit: &mut dyn FnMut(u64, &ObjectId, &mut ReadContext) -> Result<()>,
) -> Result<()> {
    let node = load_node(store, id, level, context)?;
    for (slot, child, _) in &node.children {
        let number = number << LEVEL_BITS | u64::from(*slot);
        if level == 1 {
            visit(number, child, context)?;
        } else {
            walk_node(store, child, level - 1, number, context, visit)?;
        }
    }
    Ok(())
}

/// Reads a node that must be of `level`, so that a map cannot be deeper than four levels, whatever its objects say.
fn load_node(store: &Store, id: &ObjectId, level: u8, context: &mut ReadContext) -> Result<Node> {
    let mut bytes = Vec::new();
    store.read_into(Kind::MAP_NODE, id, context, &mut bytes)?;
    let malformed = |detail| StoreError::Malformed { id: *id, detail };
    let node = parse_node(&bytes).map_err(malformed)?;
    if node.level == level {
        Ok(node)
    } else {
        Err(malformed(format!("is a map node of level {}", node.level)))
    }
}

pub(crate) fn load_leaf(
    store: &Store,
    id: &ObjectId,
    context: &mut ReadContext,
    bytes: &mut Vec<u8>,
) -> Result<LeafMap> {
    store.read_into(Kind::MAP_LEAF, id, context, bytes)?;
    LeafMap::parse(bytes).map_err(|detail| StoreError::Malformed { id: *id, detail })
}

/// The leaf that describes `address`, or `None`. Reads one node per level.
pub(crate) fn find_leaf(
    store: &Store,
    root: &ObjectId,
    address: u64,
    context: &mut ReadContext,
) -> Result<Option<ObjectId>> {
    let number = address / LEAF_SPAN;
    if number >> (LEVEL_BITS * u32::from(ROOT_LEVEL)) != 0 {
        return Ok(None);
    }
    let mut id = *root;
    for level in (1..=ROOT_LEVEL).rev() {
        let node = load_node(store, &id, level, context)?;
        let slot = number >> (LEVEL_BITS * u32::from(level - 1)) & (FANOUT - 1);
        match node.children.iter().find(|(at, ..)| u64::from(*at) == slot) {
            Some((_, child, _)) => id = *child,
            None => return Ok(None),
        }
    }
    Ok(Some(id))
}

/// Every object that a map node or leaf points at, with its kind. For marking.
pub(crate) fn references(kind: Kind, bytes: &[u8]) -> Result<Vec<(Kind, ObjectId)>, String> {
    match kind {
        Kind::MAP_NODE => {
            let node = parse_node(bytes)?;
            Ok(node.children.iter().map(|(_, id, _)| (node.child_kind(), *id)).collect())
        }
        Kind::MAP_LEAF => {
            let unique: HashSet<_> = LeafMap::parse(bytes)?.objects.iter().map(|object| object.id).collect();
            Ok(unique.into_iter().map(|id| (Kind::PAGES, id)).collect())
        }
        _ => Ok(Vec::new()),
    }
}
