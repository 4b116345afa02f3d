//! The store's secret in the remote, wrapped, so that whoever has what opens the store can clone it.
//!
//! What lies there is the store's keyring without its epochs: the same slots, for the same passphrases and key files. A store that is being cloned
//! has no secret to compare seals with before it has opened one, so here things are read first and believed last: the keyring must open, and then the seals
//! of everything must fit the secret in it. Somebody who does not know the passphrase can make no such keyring.

use std::path::Path;
use std::sync::Arc;

use cas_core::crypto::{Keyring, Unlock};
use cas_core::{IdHasher, StoreError, id};
use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, Edit, Objects, Patience, Statement, first_line};
use crate::error::{RemoteError, Result};
use crate::remote::Remote;
use crate::root::{ROOT, Root};

/// Where it lies.
pub(crate) const KEY: &str = "keys/main";

/// What it says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KeyBody {
    /// The keyring's: grows when what opens it is replaced.
    pub(crate) generation: u64,
    /// In hex.
    pub(crate) keyring: String,
}

impl Statement for KeyBody {
    const LIMIT: u64 = 16 << 10;
}

impl Remote {
    /// Puts what opens the store into the remote, unless something as new is there.
    pub(crate) fn leave_key(&self) -> Result<()> {
        let Some(keyring) = self.store.wrapped_secret()? else { return Ok(()) };
        let generation = keyring.generation();
        let body = KeyBody { generation, keyring: id::hex(&keyring.encode()?) };
        let changed = self.bucket.change::<KeyBody>(self.hasher(), KEY, &|| Ok(()), &mut |found| {
            let old = found.is_none_or(|found| found.generation < generation);
            Ok(if old { Edit::Set(body.clone()) } else { Edit::Keep })
        });
        changed.map(drop)
    }
}

/// Whether what is in a remote is encrypted, by its own word: nobody has compared any seal.
pub fn is_sealed(objects: Arc<dyn Objects>, patience: Patience) -> Result<bool> {
    let bucket = Bucket::new(objects, patience);
    let (bytes, _) = bucket.get(ROOT, Root::LIMIT)?.ok_or(RemoteError::NotARemote)?;
    let root: serde_json::Value = first_line(ROOT, &bytes)?;
    Ok(root.get("sealed").and_then(serde_json::Value::as_bool).unwrap_or(false))
}

/// The keys of an encrypted remote, opened with any of `unlocks`, after everything was compared with the secret in them.
pub fn unlock(objects: Arc<dyn Objects>, patience: Patience, unlocks: &[Unlock]) -> Result<Keyring> {
    let bucket = Bucket::new(objects, patience);
    let (bytes, _) = bucket.get(KEY, KeyBody::LIMIT)?.ok_or(RemoteError::NoKey)?;
    let body: KeyBody = first_line(KEY, &bytes)?;
    let keyring = id::unhex(&body.keyring).ok_or_else(|| RemoteError::damaged(KEY, "is not hex"))?;
    let keyring = open(&keyring, unlocks)?;
    let hasher = IdHasher::keyed(keyring.id_secret());
    bucket.read::<KeyBody>(&hasher, KEY)?.ok_or(RemoteError::NoKey)?;
    Root::read(&bucket, &hasher)?;
    Ok(keyring)
}

fn open(keyring: &[u8], unlocks: &[Unlock]) -> Result<Keyring> {
    for unlock in unlocks {
        match Keyring::open(Path::new(KEY), keyring, unlock) {
            // Another one of those that were given may be right.
            Err(StoreError::WrongKey { .. }) => {}
            Err(StoreError::Damaged { detail, .. }) => return Err(RemoteError::damaged(KEY, detail)),
            opened => return Ok(opened?),
        }
    }
    Err(RemoteError::WrongKey)
}
