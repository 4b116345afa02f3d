//! Writing to a store.
//!
//! # What is promised
//!
//! * [`WriteTransaction::put`] and its relatives take an object over. Nothing is promised yet: a crash may lose it.
//! * [`WriteTransaction::flush`]: everything put before is durable and can be read by its id, also by other processes, also
//!   after a power cut. It stays until gc finds it unreachable, which cannot happen while this transaction lives.
//! * [`WriteTransaction::commit`]: flush, then the refs are changed by compare-and-swap. When it returns `Ok`, the refs are
//!   durable, and so is everything they lead to. When it returns an error, no ref was changed, with two exceptions: of
//!   several changes the first ones may have been made, and a change whose last step failed (making the new name
//!   durable) may be seen already. What a ref leads to is durable in these cases too.
//! * A transaction that is dropped, or whose process dies, leaves nothing that a reader could see.
//!
//! # How it is kept
//!
//! ```text
//! caller ──jobs──> workers (hash, compress, seal) ──objects──> packer (append) ──full packs──> syncers (fsync, rename)
//! ```
//!
//! Every arrow is a bounded channel: a slow disk stops the caller, memory stays bounded. A pack is written under a
//! temporary name that begins with the transaction's token, synced, announced in the catalogue, renamed, its directory
//! synced, and only then entered into the catalogue, many packs of a flush at a time. Whoever finds a transaction
//! whose lock is free knows that its process is dead, and removes what it had announced or not yet named
//! ([`Store::recover`](crate::Store::recover)).
//!
//! An object that the store has already is not written again, unless its pack is condemned by a running gc, or its copy
//! does not fit its checksum: a commit must not acknowledge what was damaged before. (What a child shares with its
//! parent by fingerprint is not looked at again; `verify` is for that.)

mod failure;
mod packer;
mod pool;
mod shared;
mod worker;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use crate::catalogue::{NewEntry, NewPack, WriteNo};
use crate::crypto::PackKey;
use crate::error::{Result, StoreError};
use crate::fsio;
use crate::id::{Kind, ObjectId};
use crate::lock;
use crate::pack::{Entry, PackClass, PackHeader, SealedPack};
use crate::refs::RefChange;
use crate::store::Store;
pub(crate) use packer::PACK_TARGET;
use packer::Packer;
use pool::{Job, Pool};
pub(crate) use shared::Shared;
pub use shared::WriteStats;
use shared::{check_length, lock_of};
pub(crate) use worker::Worker;

/// How many packs a flush enters into the catalogue at a time. Bounds a step of the catalogue, not what a crash can lose.
const PACKS_AT_A_TIME: usize = 64;

/// A running write. See the module documentation for what it promises.
#[derive(Debug)]
pub struct WriteTransaction {
    shared: Arc<Shared>,
    pool: Option<Pool>,
    lock_path: PathBuf,
    lock: Option<File>,
    /// Held together with all other transactions; a rebuild wants it alone.
    _writers: File,
}

impl Store {
    /// Starts a write. `pins` are objects that the write builds upon, usually the parent commit: gc keeps them, and all
    /// they lead to, while the transaction lives.
    pub fn write(self: &Arc<Self>, pins: &[ObjectId]) -> Result<WriteTransaction> {
        let gate = self.layout.lock("writers");
        let writers = lock::try_shared(&gate)?
            .ok_or_else(|| StoreError::Locked { path: gate, holder: "a rebuild".to_owned() })?;
        self.recover()?;
        let token = fsio::random_name()?;
        let lock_path = self.layout.lock(&format!("session-{token}"));
        // The lock comes first: a transaction in the catalogue whose lock is free counts as dead.
        let lock = lock::exclusive(&lock_path)?;
        let no =
            self.catalogue.begin_write(&token, pins).inspect_err(|_| _ = self.remove_file(&lock_path))?;
        let (packer, key) = self.start_packer(no, &token).inspect_err(|_| {
            // It has written nothing. What fails here too, recovery does.
            if self.remove_file(&lock_path).is_ok() {
                let _ = self.catalogue.end_write(no);
            }
        })?;
        let shared = Arc::new(Shared::new(self.clone(), no, token, key, packer));
        let mut transaction =
            WriteTransaction { shared, pool: None, lock_path, lock: Some(lock), _writers: writers };
        transaction.pool = Some(Pool::start(&transaction.shared, self.threads())?);
        Ok(transaction)
    }

    fn start_packer(self: &Arc<Self>, no: WriteNo, token: &str) -> Result<(Packer, Option<PackKey>)> {
        let salt = fsio::random_bytes()?;
        let epoch = self.keys.as_ref().map(|keys| keys.new_epoch()).transpose()?;
        let header = PackHeader { class: PackClass::Data, epoch, salt };
        let key = self.keys.as_ref().map(|keys| keys.pack_key(&header)).transpose()?.flatten();
        if epoch.is_some() && key.is_none() {
            return Err(StoreError::Bug { detail: "the transaction's own key is not in the keyring".into() });
        }
        Ok((Packer::start(self.clone(), no, token.to_owned(), epoch, salt), key))
    }
}

impl WriteTransaction {
    /// The store that is written to.
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Keeps an object, and all it leads to, from gc while this transaction lives. Called before building upon it.
    pub fn pin(&self, id: &ObjectId) -> Result<()> {
        self.shared.store.catalogue.pin(self.shared.no, id)
    }

    /// Puts one object and returns its id. Compression happens in the background.
    pub fn put(&self, kind: Kind, content: Vec<u8>) -> Result<ObjectId> {
        check_length(&content)?;
        let id = self.shared.store.hasher.id(kind, &content);
        if self.shared.claim(&id, kind, content.len())? {
            self.submit(move |worker, shared| shared.encode_and_pack(worker, id, kind, &content))?;
        }
        Ok(id)
    }

    /// Puts an object whose content is encoded already, whether the store has it or not. For moving objects.
    pub(crate) fn put_encoded(&self, entry: Entry, encoded: &[u8]) -> Result<()> {
        self.shared.check()?;
        let mut buffer = self.shared.packer.buffer();
        buffer.clear();
        buffer.extend_from_slice(encoded);
        self.shared.seal_and_pack(entry, buffer)
    }

    /// Puts an object whose content is encoded already and fits its id, unless the store has it.
    pub(crate) fn adopt_encoded(&self, entry: Entry, encoded: &[u8]) -> Result<()> {
        if self.shared.claim(&entry.id, entry.kind, entry.plain_len as usize)? {
            self.put_encoded(entry, encoded)?;
        }
        Ok(())
    }

    /// Runs a job on a worker; waits while all are busy.
    pub(crate) fn submit(
        &self,
        job: impl FnOnce(&mut Worker, &Shared) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.shared.check()?;
        let job: Job = Box::new(job);
        self.pool.as_ref().ok_or_else(ended)?.submit(job);
        Ok(())
    }

    /// The first failure of a worker, if there was one.
    pub(crate) fn check(&self) -> Result<()> {
        self.shared.check()
    }

    /// What was written so far. Exact after a flush.
    pub fn stats(&self) -> WriteStats {
        *lock_of(&self.shared.stats)
    }

    /// Makes everything put so far durable and readable. If it fails, so does the whole transaction: what was put is
    /// lost, and a later commit must not succeed without it.
    pub fn flush(&self) -> Result<()> {
        let flushed = self.try_flush();
        if let Err(error) = &flushed {
            self.shared.fail(error.transaction_failed());
        }
        flushed
    }

    fn try_flush(&self) -> Result<()> {
        self.pool.as_ref().ok_or_else(ended)?.wait();
        self.shared.check()?;
        let sealed = self.shared.packer.seal()?;
        for packs in sealed.chunks(PACKS_AT_A_TIME) {
            self.publish(packs)?;
        }
        lock_of(&self.shared.fresh).clear();
        Ok(())
    }

    /// Enters packs that are in their place into the catalogue.
    fn publish(&self, packs: &[SealedPack]) -> Result<()> {
        let store = &self.shared.store;
        let row =
            |pack: &SealedPack| (catalogue_row(pack), catalogue_entries(pack), Some(pack.id.to_string()));
        let rows: Vec<_> = packs.iter().map(row).collect();
        let unreadable = lock_of(&self.shared.unreadable).clone();
        if !unreadable.is_empty() {
            let replaced = rows.iter().flat_map(|(_, entries, _)| entries).map(|entry| entry.id);
            store.catalogue.evict(&replaced.filter(|id| unreadable.contains(id)).collect::<Vec<_>>())?;
        }
        store.catalogue.add_packs(&rows)?;
        Ok(())
    }

    /// Flushes, changes the refs, and ends the transaction. Returns what was written.
    pub fn commit(mut self, changes: &[RefChange]) -> Result<WriteStats> {
        self.flush()?;
        self.shared.store.refs().update(changes)?;
        let stats = self.stats();
        // The refs are changed, so this has succeeded. What cannot be cleaned up now, the next transaction's recovery does.
        let _ = self.end();
        Ok(stats)
    }

    /// Ends the transaction: stops the threads, removes what was not published, lets go of the pins.
    fn end(&mut self) -> Result<()> {
        let Some(lock) = self.lock.take() else { return Ok(()) };
        drop(self.pool.take());
        self.shared.packer.stop();
        let store = &self.shared.store;
        store.remove_unpublished(self.shared.no, &self.shared.token)?;
        // In this order: a lock without a transaction would never be found again, a transaction without a lock is.
        store.remove_file(&self.lock_path)?;
        store.catalogue.end_write(self.shared.no)?;
        drop(lock);
        Ok(())
    }
}

impl Drop for WriteTransaction {
    fn drop(&mut self) {
        // What this cannot clean up, the next transaction's recovery does.
        let _ = self.end();
    }
}

fn ended() -> StoreError {
    StoreError::Bug { detail: "the write transaction has ended".into() }
}

/// A pack as the catalogue keeps it.
pub(crate) fn catalogue_row(pack: &SealedPack) -> NewPack {
    NewPack {
        id: pack.id,
        class: pack.header.class,
        epoch: pack.header.epoch.unwrap_or(0),
        file_len: pack.file_len,
    }
}

/// A pack's objects as the catalogue keeps them.
pub(crate) fn catalogue_entries(pack: &SealedPack) -> Vec<NewEntry> {
    NewEntry::list(&pack.records)
}
