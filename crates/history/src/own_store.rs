//! The store is found, made and opened, with its key.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cas_core::crypto::KdfCost;
use cas_core::layout::{Format, Layout};
use cas_core::{Encryption, ObjectId, OpenOptions, Store, StoreError, Trust, WriteTransaction};
use image_store::Storing;

use crate::error::{HistoryError, Result};
use crate::key::StoreKey;
use crate::known::Known;

/// The store, opened when it is first asked for.
#[derive(Debug)]
pub struct OwnStore {
    root: PathBuf,
    key: Option<StoreKey>,
    open: Mutex<Option<UserStore>>,
    beyond: Option<LookBeyond>,
}

/// Tells a store, when it is opened, whom to ask for what is not in it.
#[derive(Clone)]
pub struct LookBeyond(pub Arc<Tell>);

/// What is done with a store that was opened.
pub type Tell = dyn Fn(&Arc<Store>) + Send + Sync;

impl std::fmt::Debug for LookBeyond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LookBeyond")
    }
}

impl OwnStore {
    /// The store at `root`, which is encrypted if there is a key to it. One that is there and cannot be opened so is refused:
    /// nobody is to find out in the middle of a snapshot.
    pub fn new(root: impl Into<PathBuf>, key: Option<StoreKey>) -> Result<Self> {
        let own = Self { root: root.into(), key, open: Mutex::default(), beyond: None };
        match (Format::read(&Layout::new(&own.root)), &own.key) {
            (Ok(format), None) if format.encrypted => {
                return Err(HistoryError::StoreKey {
                    path: own.root,
                    why: "it is encrypted, and `key_file` is not set".to_owned(),
                });
            }
            (Ok(format), Some(_)) if !format.encrypted => {
                return Err(HistoryError::NotEncrypted { store: own.root });
            }
            (Ok(_), Some(key)) => match own.open() {
                Err(HistoryError::Store(StoreError::WrongKey { .. })) => {
                    let why = format!("it is not the key of the store `{}`", own.root.display());
                    return Err(HistoryError::StoreKey { path: key.path.clone(), why });
                }
                opened => drop(opened?),
            },
            // It is made, or found to be damaged, when it is needed.
            _ => (),
        }
        Ok(own)
    }

    /// The same, with somebody to ask for what is not in it. It has not been opened yet but to try its key.
    pub fn looking_beyond(mut self, beyond: Option<LookBeyond>) -> Self {
        (self.beyond, self.open) = (beyond, Mutex::default());
        self
    }

    /// The store; an empty one is made if there is none.
    pub fn open(&self) -> Result<UserStore> {
        // Held while it is opened: two who ask at the same moment must not both make it.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*open {
            return Ok(store.clone());
        }
        let store = UserStore::over(open_or_init(&self.root, self.key.as_ref())?);
        if let Some(LookBeyond(tell)) = &self.beyond {
            tell(&store.store);
        }
        *open = Some(store.clone());
        Ok(store)
    }
}

/// What is restored runs with the user's rights on the word of these bytes: so every read compares them with their id.
fn open_or_init(root: &Path, key: Option<&StoreKey>) -> Result<Arc<Store>, StoreError> {
    let unlock = key.map(|key| key.unlock.clone());
    let options = || OpenOptions { trust: Trust::Identity, unlock: unlock.clone(), ..OpenOptions::default() };
    match Store::open(root, options()) {
        Err(StoreError::NotAStore { .. }) => {
            let encryption = unlock
                .as_ref()
                .map(|unlock| Encryption { unlocks: vec![unlock.clone()], cost: KdfCost::default() });
            Store::init(root, encryption.as_ref(), options())
        }
        other => other,
    }
}

/// The history of one user, and the store that it is in.
#[derive(Clone, Debug)]
pub struct UserStore {
    pub(crate) store: Arc<Store>,
    pub(crate) known: Arc<Known>,
}

impl UserStore {
    /// The history in a store that somebody has opened.
    pub fn over(store: Arc<Store>) -> Self {
        Self { store, known: Arc::default() }
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Starts a write that builds upon `parents`: gc keeps them, and all they lead to, while it lasts.
    pub fn write(&self, parents: &[ObjectId]) -> Result<WriteTransaction> {
        Ok(self.store.write(parents)?)
    }

    /// Begins to write a child of `parent` with its device memory, which comes as files in `directory`.
    pub fn write_device_memory(&self, parent: Option<ObjectId>, directory: PathBuf) -> Result<Storing> {
        let before = parent.map(|parent| self.load(&parent)).transpose()?.map(|(_, snapshot)| snapshot);
        let session = self.write(parent.as_slice())?;
        Storing::begin(session, before.as_ref(), directory).map_err(HistoryError::Images)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{commit, own_store};

    #[test]
    fn the_store_is_made_once_and_shared_and_closed_to_others() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, own) = own_store();
        let one = commit(&own.open().unwrap(), "main");
        assert_eq!(own.open().unwrap().head("main").unwrap(), Some(one));
        let mode = std::fs::metadata(dir.path().join("store")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let after_a_restart = OwnStore::new(dir.path().join("store"), None).unwrap();
        assert_eq!(after_a_restart.open().unwrap().head("main").unwrap(), Some(one));
    }
}
