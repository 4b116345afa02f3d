//! What the threads of a write transaction share: what is known to be there, what went wrong, and the way of an object from its
//! content to the packer.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::failure::Failure;
use super::packer::Packer;
use super::worker::Worker;
use crate::catalogue::WriteNo;
use crate::codec::MAX_OBJECT;
use crate::crypto::PackKey;
use crate::error::{Result, StoreError};
use crate::id::{Kind, LeafHash, ObjectId};
use crate::pack::{Entry, stored_checksum};
use crate::store::Store;

/// What a transaction has written so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteStats {
    /// Objects that were not in the store.
    pub new_objects: u64,
    /// Their content.
    pub new_plain: u64,
    /// Their stored form.
    pub new_stored: u64,
    /// Of `new_plain`, what describes other objects.
    pub new_metadata: u64,
    /// Objects that were put and found to be there already.
    pub known_objects: u64,
    /// Their content.
    pub known_plain: u64,
}

/// What the caller, the workers and the packer share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(super) no: WriteNo,
    pub(super) token: String,
    /// Ids put in this transaction and not in the catalogue yet.
    pub(super) fresh: Mutex<HashSet<ObjectId>>,
    /// Objects that the store has and nobody can read: they are written again when they are put.
    pub(super) unreadable: Mutex<HashSet<ObjectId>>,
    pub(super) stats: Mutex<WriteStats>,
    failure: Failure,
    /// Seals objects. One key serves all packs of a transaction, so that workers can seal before it is known in which pack
    /// an object will lie; each object has a random nonce.
    key: Option<PackKey>,
    pub(super) packer: Packer,
}

impl Shared {
    pub(super) fn new(
        store: Arc<Store>,
        no: WriteNo,
        token: String,
        key: Option<PackKey>,
        packer: Packer,
    ) -> Self {
        Self {
            store,
            no,
            token,
            fresh: Mutex::default(),
            unreadable: Mutex::default(),
            stats: Mutex::default(),
            failure: Failure::default(),
            key,
            packer,
        }
    }

    /// Takes charge of writing an object. `false`: somebody has written it, or is about to.
    pub(crate) fn claim(&self, id: &ObjectId, kind: Kind, len: usize) -> Result<bool> {
        let new = lock_of(&self.fresh).insert(*id) && self.is_wanted(id)?;
        let mut stats = lock_of(&self.stats);
        let len = len as u64;
        if new {
            stats.new_objects += 1;
            stats.new_plain += len;
            stats.new_metadata += if kind.is_metadata() { len } else { 0 };
        } else {
            stats.known_objects += 1;
            stats.known_plain += len;
        }
        Ok(new)
    }

    /// Whether the store has no copy of an object that can be counted on.
    fn is_wanted(&self, id: &ObjectId) -> Result<bool> {
        if lock_of(&self.unreadable).contains(id) {
            return Ok(true);
        }
        let found = self.store.catalogue.lookup_reusable(id).and_then(|place| match place {
            Some(location) => Ok(Some(self.store.check_stored(id, location)?)),
            None => Ok(None),
        });
        // It counts as taken charge of and nobody will write it: whoever else has put it must not be able to commit.
        let fail = |error: &StoreError| self.fail(error.transaction_failed());
        let readable = found.inspect_err(fail)?;
        if readable == Some(false) {
            self.distrust(id);
        }
        Ok(readable != Some(true))
    }

    /// The store's copy of an object was found to be unreadable: a new one may take its place.
    pub(crate) fn distrust(&self, id: &ObjectId) {
        lock_of(&self.unreadable).insert(*id);
    }

    /// Puts an object from a worker, with its leaves hashed before.
    pub(crate) fn put_hashed(
        &self,
        worker: &mut Worker,
        kind: Kind,
        content: &[u8],
        leaves: impl IntoIterator<Item = LeafHash>,
    ) -> Result<ObjectId> {
        let id = self.store.hasher.from_leaves(kind, content.len(), leaves);
        if self.claim(&id, kind, content.len())? {
            self.encode_and_pack(worker, id, kind, content)?;
        }
        Ok(id)
    }

    /// Puts an object from a worker.
    pub(crate) fn put_here(&self, worker: &mut Worker, kind: Kind, content: &[u8]) -> Result<ObjectId> {
        check_length(content)?;
        let id = self.store.hasher.id(kind, content);
        if self.claim(&id, kind, content.len())? {
            self.encode_and_pack(worker, id, kind, content)?;
        }
        Ok(id)
    }

    /// Compresses a claimed object and hands it to the packer.
    pub(crate) fn encode_and_pack(
        &self,
        worker: &mut Worker,
        id: ObjectId,
        kind: Kind,
        content: &[u8],
    ) -> Result<()> {
        let mut encoded = self.packer.buffer();
        let codec = worker.encoder.encode(content, &mut encoded)?;
        self.seal_and_pack(
            Entry { id, kind, codec, plain_len: length(&id, content)?, stored_len: 0, checksum: 0 },
            encoded,
        )
    }

    /// Seals encoded content if the store is encrypted, and hands it to the packer.
    pub(super) fn seal_and_pack(&self, mut entry: Entry, encoded: Vec<u8>) -> Result<()> {
        let stored = match &self.key {
            None => encoded,
            Some(key) => {
                let mut sealed = self.packer.buffer();
                sealed.clear();
                key.seal(&entry.associated_data(), &encoded, &mut sealed)?;
                self.packer.recycle(encoded);
                sealed
            }
        };
        entry.stored_len = length(&entry.id, &stored)?;
        entry.checksum = stored_checksum(&stored);
        lock_of(&self.stats).new_stored += stored.len() as u64;
        self.packer.pack(entry, stored)
    }

    /// Remembers the first failure; every later call returns it.
    pub(crate) fn fail(&self, error: StoreError) {
        self.failure.set(error);
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.failure.check()
    }
}

pub(super) fn check_length(content: &[u8]) -> Result<()> {
    if content.len() <= MAX_OBJECT {
        return Ok(());
    }
    Err(StoreError::Invalid { what: format!("an object of {} bytes is too long to store", content.len()) })
}

fn length(id: &ObjectId, bytes: &[u8]) -> Result<u32> {
    u32::try_from(bytes.len())
        .map_err(|_| StoreError::Invalid { what: format!("object {id} is too long to store") })
}

/// A panic in a worker fails the transaction, so what the lock guards is never used for a commit afterwards.
pub(super) fn lock_of<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
