//! The keyring of an open store: kept in memory, shared with other processes through its file.
//!
//! The keyring is written twice, so that at every instant one whole keyring is on disk. Of two whole ones the newer
//! counts, unless only the older opens: then a rotation was cut short between the two copies, was never acknowledged, and
//! either key is right until the next write makes both copies equal. Other processes add epochs too, so the file is read
//! again, under a lock, before it is written, and whenever a pack's epoch is not known yet.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::crypto::{self, KdfCost, Keyring, PackKey, Unlock};
use crate::error::{Result, StoreError};
use crate::fsio::{self, Disk};
use crate::layout::Layout;
use crate::lock;
use crate::pack::PackHeader;

/// 8 slots and a hundred million epochs would fit; a larger file is not a keyring.
const KEYRING_LIMIT: u64 = 8 << 30;

/// The keys of an encrypted store.
#[derive(Debug)]
pub(crate) struct Keys {
    layout: Layout,
    disk: Arc<dyn Disk>,
    keyring: Mutex<Keyring>,
}

impl Keys {
    /// Makes the keyring of a new store.
    pub(crate) fn create(
        layout: &Layout,
        disk: Arc<dyn Disk>,
        unlocks: &[Unlock],
        cost: KdfCost,
    ) -> Result<Self> {
        Self::adopt(layout, disk, Keyring::create(unlocks, cost)?)
    }

    /// The same with the keyring of another store.
    pub(crate) fn adopt(layout: &Layout, disk: Arc<dyn Disk>, keyring: Keyring) -> Result<Self> {
        let keys = Self { layout: layout.clone(), disk, keyring: Mutex::new(keyring) };
        keys.save(&keys.lock())?;
        Ok(keys)
    }

    /// Opens the keyring of a store.
    pub(crate) fn open(layout: &Layout, disk: Arc<dyn Disk>, unlock: &Unlock) -> Result<Self> {
        let keyring =
            first_that_opens(disk.as_ref(), layout, |path, bytes| Keyring::open(path, bytes, unlock))
                .map_err(|error| {
                    match error {
                        // A key opens stores, as far as its owner is concerned, and not files in them.
                        StoreError::WrongKey { .. } => {
                            StoreError::WrongKey { path: layout.root().to_path_buf() }
                        }
                        error => error,
                    }
                })?;
        Ok(Self { layout: layout.clone(), disk, keyring: Mutex::new(keyring) })
    }

    /// The secret that object ids are keyed with.
    pub(crate) fn id_secret(&self) -> [u8; 32] {
        *self.lock().id_secret()
    }

    /// Which passphrase and keys are in force: grows with each rotation.
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation()
    }

    /// Adds an epoch and makes it durable. Nothing may be sealed under an epoch that is not on disk yet.
    pub(crate) fn new_epoch(&self) -> Result<u32> {
        self.change(Keyring::new_epoch)
    }

    /// The epochs whose keys are there, by what is on disk now.
    pub(crate) fn epochs(&self) -> Result<Vec<u32>> {
        let mut keyring = self.lock();
        self.refresh(&mut keyring)?;
        Ok(keyring.epochs().collect())
    }

    /// Forgets the keys of these epochs for good. Also finishes what another call could not finish: a key that one copy of
    /// the keyring still has is not forgotten.
    pub(crate) fn forget(&self, epochs: &[u32]) -> Result<u64> {
        let known: HashSet<u32> = self.epochs()?.into_iter().collect();
        let known: Vec<u32> = epochs.iter().copied().filter(|epoch| known.contains(epoch)).collect();
        if !known.is_empty() || !self.copies_are_equal() {
            self.change(|keyring| {
                known.iter().for_each(|epoch| _ = keyring.forget_epoch(*epoch));
                Ok(())
            })?;
        }
        Ok(known.len() as u64)
    }

    /// Wraps all keys anew. The old passphrase or key file opens nothing any more, once both copies are written.
    pub(crate) fn rotate(&self, unlocks: &[Unlock], cost: KdfCost) -> Result<()> {
        self.change(|keyring| keyring.rotate(unlocks, cost))
    }

    /// The key that seals what leaves the store ([`crate::parcel`]).
    pub(crate) fn parcel_key(&self) -> PackKey {
        self.lock().parcel_key()
    }

    /// What another store needs to be one with the same secret, by what is on disk now.
    pub(crate) fn without_epochs(&self) -> Result<Keyring> {
        let mut keyring = self.lock();
        self.refresh(&mut keyring)?;
        Ok(keyring.without_epochs())
    }

    /// The key of a pack, `None` if it was erased.
    pub(crate) fn pack_key(&self, header: &PackHeader) -> Result<Option<PackKey>> {
        let Some(epoch) = header.epoch else { return Ok(None) };
        let mut keyring = self.lock();
        if let Some(key) = keyring.pack_key(epoch, &header.salt) {
            return Ok(Some(key));
        }
        self.refresh(&mut keyring)?;
        Ok(keyring.pack_key(epoch, &header.salt))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Keyring) -> Result<T>) -> Result<T> {
        let _guard = lock::exclusive(&self.layout.lock("keyring"))?;
        let mut keyring = self.lock();
        self.refresh(&mut keyring)?;
        let mut changed = keyring.clone();
        let result = change(&mut changed)?;
        let saved = self.save(&changed);
        // A save that failed may have done none, one or both copies. The keyring in memory is one that is on disk: if the
        // old one does not open any more, then the new one does.
        if saved.is_ok() || self.refresh(&mut keyring).is_err() {
            *keyring = changed;
        }
        saved.map(|()| result)
    }

    fn refresh(&self, keyring: &mut Keyring) -> Result<()> {
        first_that_opens(self.disk.as_ref(), &self.layout, |path, bytes| keyring.refresh(path, bytes))
            .map_err(|error| match error {
                StoreError::WrongKey { .. } => {
                    StoreError::KeysRotated { path: self.layout.root().to_path_buf() }
                }
                error => error,
            })
    }

    fn save(&self, keyring: &Keyring) -> Result<()> {
        let bytes = keyring.encode()?;
        let [first, copy] = self.layout.keyrings();
        fsio::replace(self.disk.as_ref(), &copy, &bytes)?;
        fsio::replace(self.disk.as_ref(), &first, &bytes)
    }

    /// Problems of the two copies, for `verify`.
    pub(crate) fn check_copies(&self) -> Vec<StoreError> {
        let paths = self.layout.keyrings();
        paths.iter().filter_map(|path| load(self.disk.as_ref(), path).err()).collect()
    }

    /// Whether both copies are whole and the same keyring.
    fn copies_are_equal(&self) -> bool {
        let age = |path: PathBuf| load(self.disk.as_ref(), &path).ok().map(|(age, _)| age);
        let [first, copy] = self.layout.keyrings().map(age);
        first.is_some() && first == copy
    }

    fn lock(&self) -> MutexGuard<'_, Keyring> {
        self.keyring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries the whole copies, the newer first. Damage of one copy is only reported if the other does not open.
fn first_that_opens<T>(
    disk: &dyn Disk,
    layout: &Layout,
    mut open: impl FnMut(&Path, &[u8]) -> Result<T>,
) -> Result<T> {
    let mut copies = Vec::new();
    let mut problem = None;
    for path in layout.keyrings() {
        match load(disk, &path) {
            Ok((age, bytes)) => copies.push((age, path, bytes)),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    copies.sort_by_key(|(age, ..)| std::cmp::Reverse(*age));
    for (_, path, bytes) in &copies {
        match open(path, bytes) {
            Ok(result) => return Ok(result),
            // A wrong key says more than a damaged copy.
            Err(error) => {
                problem = problem.filter(|first| matches!(first, StoreError::WrongKey { .. })).or(Some(error))
            }
        }
    }
    Err(problem.unwrap_or_else(|| StoreError::Bug { detail: "a store has no keyring paths".into() }))
}

fn load(disk: &dyn Disk, path: &Path) -> Result<((u64, u64), Vec<u8>)> {
    let bytes = fsio::read_small(disk, path, KEYRING_LIMIT)?
        .ok_or_else(|| StoreError::damaged("keyring", path, "is not there"))?;
    let info = crypto::inspect(path, &bytes)?;
    Ok(((info.generation, info.revision), bytes))
}
