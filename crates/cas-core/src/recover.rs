//! Cleaning up behind processes that died.
//!
//! Whoever writes announces in the catalogue what it is about to leave on disk, and holds a lock while it lives. So what a dead
//! process left can be told from what a living one is about to finish: its lock is free.

use std::io;
use std::path::Path;

use crate::catalogue::WriteNo;
use crate::error::{Result, StoreError};
use crate::id::PackId;
use crate::lock;
use crate::store::Store;

/// What [`Store::recover`] cleaned up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Transactions of dead processes.
    pub transactions: u64,
    /// Files removed.
    pub files: u64,
}

impl Store {
    /// Removes what processes that died left behind: their temporary packs, packs they had named but not entered into the
    /// catalogue, their pins, and packs that gc had given up. Cheap when there is nothing to do; every write transaction
    /// and every gc starts with it.
    pub fn recover(&self) -> Result<Recovered> {
        let mut recovered = Recovered::default();
        for transaction in self.catalogue.open_writes()? {
            let path = self.layout.lock(&format!("session-{}", transaction.token));
            let Some(lock) = lock::try_exclusive(&path)? else { continue };
            self.check_catalogue_is_current()?;
            recovered.transactions += 1;
            recovered.files += self.remove_unpublished(transaction.no, &transaction.token)?;
            self.remove_file(&path)?;
            self.catalogue.end_write(transaction.no)?;
            drop(lock);
        }
        let doomed = self.catalogue.doomed()?;
        if !doomed.is_empty() {
            self.check_catalogue_is_current()?;
            recovered.files += self.remove_doomed(&doomed)?;
        }
        Ok(recovered)
    }

    /// Removes packs that gc has given up. Only when that is durable they are struck off the list: a pack that came back
    /// after a power cut would be taken in by a rebuild, and its key may be gone.
    pub(crate) fn remove_doomed(&self, doomed: &[PackId]) -> Result<u64> {
        let removed = self.packs.remove(doomed)?;
        doomed.iter().try_for_each(|pack| self.catalogue.undoom(pack))?;
        Ok(removed)
    }

    /// What an old catalogue says about files must not be acted upon once a rebuild has replaced it. Every write makes sure
    /// of that, also one that changes nothing.
    fn check_catalogue_is_current(&self) -> Result<()> {
        self.catalogue.pardon(&[])
    }

    /// Removes what a transaction has written and not entered into the catalogue.
    pub(crate) fn remove_unpublished(&self, transaction: WriteNo, token: &str) -> Result<u64> {
        let mut removed = self.remove_temporaries(token)?;
        let mut names = self.catalogue.announced()?;
        names.retain(|(_, owner)| *owner == Some(transaction));
        let packs: Vec<PackId> = names.iter().filter_map(|(name, _)| name.parse().ok()).collect();
        removed += self.packs.remove(&packs)?;
        names.iter().try_for_each(|(name, _)| self.catalogue.retract(name))?;
        Ok(removed)
    }

    /// Removes the temporary files of one transaction.
    fn remove_temporaries(&self, token: &str) -> Result<u64> {
        let directory = self.layout.temporary();
        let mut removed = 0;
        for entry in self.options.disk.list(&directory).map_err(StoreError::io("list", &directory))? {
            if entry.name.to_str().is_some_and(|name| name.starts_with(token)) {
                removed += u64::from(self.remove_file(&directory.join(&entry.name))?);
            }
        }
        Ok(removed)
    }

    /// Removes a file; says whether it was there.
    pub(crate) fn remove_file(&self, path: &Path) -> Result<bool> {
        match self.options.disk.remove(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::io("remove", path)(error)),
        }
    }
}
