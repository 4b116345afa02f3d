//! Reading through: objects that a store lacks are read from the remote that has them, when they are asked for.
//!
//! A store whose history came without its data has a list of the remotes where that is ([`cas_core::elsewhere`]). [`ReadThrough`] opens
//! them when something is first asked of them, with the credentials of the program that it runs in. What is read comes in blocks of 4 MiB
//! of a pack: neighbours in a pack were pushed together and are mostly wanted together. Blocks are kept in a cache of bounded size
//! ([`cache`]); who says what will be read next has blocks fetched ahead, several at a time ([`ahead`]).
//!
//! Neither the remote nor the cache is believed: every object is opened as a fetch opens it, down to its id. One that does not fit is read
//! once more past the cache before the remote is called damaged.

mod ahead;
mod cache;
mod far;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cas_core::beyond::Beyond;
use cas_core::pack::ENTRY_LEN;
use cas_core::{Kind, ObjectId, Store, StoreError};

use crate::bucket::{Objects, must_be};
use crate::error::{RemoteError, Result};
use crate::index::IndexEntry;
use crate::names::Named;
use crate::token::Token;
use ahead::Ahead;
use cache::Cache;
use far::Far;

/// So much of a pack is fetched at a time.
pub(crate) const BLOCK: u64 = 4 << 20;

/// A part of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BlockKey {
    pub(crate) pack: Token,
    pub(crate) number: u32,
}

/// How a remote is reached.
pub(crate) type Reach = dyn Fn(&Named) -> Result<Arc<dyn Objects>> + Send + Sync;

/// Reads what a store lacks from the remotes that have it.
pub struct ReadThrough {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    store: Weak<Store>,
    reach: Box<Reach>,
    /// The remotes, by name, that are open.
    open: Mutex<Vec<Arc<Far>>>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) ahead: Ahead,
}

impl std::fmt::Debug for ReadThrough {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadThrough").field("cache", &self.shared.cache).finish_non_exhaustive()
    }
}

impl ReadThrough {
    /// Lets a store read through. The cache on disk takes no more than `limit` bytes.
    pub fn attach(store: &Arc<Store>, limit: u64) {
        let through = Self::over(store, limit, Box::new(|named| Ok(Arc::new(named.address.open()?))));
        store.look_beyond(Arc::new(through));
    }

    pub(crate) fn over(store: &Arc<Store>, limit: u64, reach: Box<Reach>) -> Self {
        let shared = Shared {
            store: Arc::downgrade(store),
            reach,
            open: Mutex::default(),
            cache: Arc::new(Cache::new(cache_directory(store), limit)),
            ahead: Ahead::default(),
        };
        Self { shared: Arc::new(shared) }
    }
}

fn cache_directory(store: &Store) -> PathBuf {
    store.root().join("cache/remote")
}

impl Beyond for ReadThrough {
    fn read(&self, kind: Kind, id: &ObjectId) -> cas_core::Result<Option<Vec<u8>>> {
        let store = self.shared.store()?;
        for far in self.shared.remotes(&store)? {
            let failed = |error| beyond(id, &far, error);
            match far.place(id).map_err(failed)? {
                Some(entry) if entry.kind == kind => {
                    return self.shared.object(&store, &far, kind, id, &entry).map(Some).map_err(failed);
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn first_absent(&self, ids: &[ObjectId]) -> cas_core::Result<Option<ObjectId>> {
        let mut open = ids.to_vec();
        for far in self.shared.remotes(&self.shared.store()?)? {
            let Some(first) = open.first().copied() else { break };
            far.find(&open).map_err(|error| beyond(&first, &far, error))?;
            open.retain(|id| !far.knows(id));
        }
        Ok(open.first().copied())
    }

    fn expect(&self, ids: &[ObjectId]) {
        let Ok(store) = self.shared.store() else { return };
        // Whoever reads them meets the same trouble, and says it.
        for far in self.shared.remotes(&store).unwrap_or_default() {
            if far.find(ids).is_ok() {
                ahead::begin(&self.shared, &far, ids);
            }
        }
    }
}

fn beyond(id: &ObjectId, far: &Far, error: RemoteError) -> StoreError {
    let damaged = matches!(error, RemoteError::Damaged { .. } | RemoteError::Missing { .. });
    StoreError::Beyond { id: *id, place: far.name.clone(), damaged, source: Box::new(error) }
}

impl Shared {
    fn store(&self) -> cas_core::Result<Arc<Store>> {
        let gone = || StoreError::Bug { detail: "a store that is closed was read".to_owned() };
        self.store.upgrade().ok_or_else(gone)
    }

    /// The remotes that have something that the store lacks, opened.
    fn remotes(&self, store: &Arc<Store>) -> cas_core::Result<Vec<Arc<Far>>> {
        let list = store.elsewhere()?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|far| list.places().contains(far.name.as_str()));
        for place in list.places() {
            if open.iter().all(|far| far.name != place) {
                let opened = Named::find(store, place)
                    .and_then(|named| Far::open(place, (self.reach)(&named)?, Arc::clone(store)));
                open.push(Arc::new(opened.map_err(|source| StoreError::NoBeyond {
                    place: place.to_owned(),
                    source: Box::new(source),
                })?));
            }
        }
        Ok(open.clone())
    }

    fn object(
        &self,
        store: &Store,
        far: &Far,
        kind: Kind,
        id: &ObjectId,
        entry: &IndexEntry,
    ) -> Result<Vec<u8>> {
        let mut problem = String::new();
        for _attempt in 0..2 {
            let bytes = match self.stored_form(far, entry) {
                // A collection may have moved it to another pack since we looked.
                Err(RemoteError::Damaged { .. }) if far.look_again(id)?.is_some_and(|now| now != *entry) => {
                    let now = far.place(id)?.ok_or(RemoteError::Missing { id: *id })?;
                    self.stored_form(far, &now)?
                }
                read => read?,
            };
            match store.open_foreign(kind, id, &bytes)? {
                Ok(object) => return Ok(object.into_content()),
                Err(detail) => problem = detail,
            }
            blocks(entry).for_each(|key| self.cache.forget(&key));
        }
        Err(RemoteError::damaged(&pack_key(&entry.pack), format!("object {} {problem}", id.short())))
    }

    /// An object as it lies in its pack, with its header.
    fn stored_form(&self, far: &Far, entry: &IndexEntry) -> Result<Vec<u8>> {
        let (start, end) = place(entry);
        let mut bytes = Vec::with_capacity(usize::try_from(end - start).unwrap_or_default());
        for key in blocks(entry) {
            let base = u64::from(key.number) * BLOCK;
            let block = self.block(far, key)?;
            self.ahead.reached(&key);
            let at =
                |offset: u64| usize::try_from(offset.saturating_sub(base).min(BLOCK)).unwrap_or(usize::MAX);
            let part = block.get(at(start)..at(end));
            let short = || RemoteError::damaged(&pack_key(&key.pack), "ends too early");
            bytes.extend_from_slice(part.ok_or_else(short)?);
        }
        Ok(bytes)
    }

    pub(crate) fn block(&self, far: &Far, key: BlockKey) -> Result<Arc<Vec<u8>>> {
        self.cache.block(key, &|| {
            let name = pack_key(&key.pack);
            must_be(far.bucket.get_up_to(&name, u64::from(key.number) * BLOCK, BLOCK)?, &name)
        })
    }
}

fn pack_key(pack: &Token) -> String {
    format!("packs/{pack}")
}

fn place(entry: &IndexEntry) -> (u64, u64) {
    let start = u64::from(entry.offset);
    (start, start + ENTRY_LEN as u64 + u64::from(entry.stored))
}

/// The blocks that an object lies in. Offsets have 32 bits, so there are at most some thousand numbers.
pub(crate) fn blocks(entry: &IndexEntry) -> impl Iterator<Item = BlockKey> + use<> {
    let ((start, end), pack) = (place(entry), entry.pack);
    (start / BLOCK..end.div_ceil(BLOCK))
        .map(move |number| BlockKey { pack, number: u32::try_from(number).unwrap_or(u32::MAX) })
}
