//! An open keyring: the KEK, the id secret and the epoch keys in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use zeroize::Zeroizing;

use super::format::{Parsed, Reader, encode_head, finish, parse};
use super::seal::{OpenFailed, PackKey, cipher, open, seal};
use super::slot::{MAX_SLOTS, Slot};
use super::unlock::{KdfCost, Unlock};
use super::{PARCEL_EPOCH, Secret};
use crate::error::{Result, StoreError};

/// The keys of an encrypted store, open. They are wiped when it is dropped.
///
/// A change is made in memory and takes effect when the bytes of [`Keyring::encode`] are on disk. Two processes that
/// change the same keyring would each lose the other's change, epoch keys included: the store holds its lock from
/// reading the file to writing it.
#[derive(Clone)]
pub struct Keyring {
    generation: u64,
    revision: u64,
    kek: Secret,
    slots: Vec<Slot>,
    id_secret: Secret,
    /// Kept apart from `epochs`, so that a number is not used again after the highest epoch was forgotten.
    next_epoch: u32,
    epochs: BTreeMap<u32, Secret>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("generation", &self.generation)
            .field("revision", &self.revision)
            .field("slots", &self.slots.len())
            .field("epochs", &self.epochs.len())
            .finish_non_exhaustive()
    }
}

impl Keyring {
    /// A new keyring of generation 1, without epochs, that each of `unlocks` will open.
    pub fn create(unlocks: &[Unlock], cost: KdfCost) -> Result<Self> {
        let (kek, slots) = new_kek(unlocks, cost)?;
        Ok(Self {
            generation: 1,
            revision: 1,
            kek,
            slots,
            id_secret: Secret::random()?,
            next_epoch: 1,
            epochs: BTreeMap::new(),
        })
    }

    /// Opens a keyring file. `path` only appears in errors.
    ///
    /// A passphrase is tried on every slot for a passphrase, at that slot's cost, so a wrong one takes longest.
    pub fn open(path: &Path, bytes: &[u8], unlock: &Unlock) -> Result<Self> {
        let file = parse(path, bytes)?;
        unlock.check()?;
        let kek = find_kek(path, &file.slots, unlock)?;
        Self::open_body(path, file, kek)
    }

    /// Takes over what another process wrote since: epochs that came and went. Needs no passphrase, as the KEK is at hand;
    /// if the keyring was rotated meanwhile, that KEK opens nothing any more and the answer is [`StoreError::WrongKey`].
    pub fn refresh(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        let file = parse(path, bytes)?;
        if file.generation != self.generation {
            return Err(StoreError::WrongKey { path: path.to_path_buf() });
        }
        *self = Self::open_body(path, file, self.kek.clone())?;
        Ok(())
    }

    fn open_body(path: &Path, file: Parsed<'_>, kek: Secret) -> Result<Self> {
        let mut body = Zeroizing::new(Vec::with_capacity(file.sealed_body.len()));
        open(&cipher(&kek), file.aad, file.sealed_body, &mut body).map_err(|OpenFailed| {
            StoreError::damaged("keyring", path, "its seal does not fit although its checksum does")
        })?;
        let (id_secret, next_epoch, epochs) = parse_body(&body)
            .ok_or_else(|| StoreError::damaged("keyring", path, "its sealed part makes no sense"))?;
        let (generation, revision, slots) = (file.generation, file.revision, file.slots);
        Ok(Self { generation, revision, kek, slots, id_secret, next_epoch, epochs })
    }

    /// The bytes of the keyring file. They differ from call to call, even for the same keys.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut body = Zeroizing::new(Vec::with_capacity(BODY_HEAD_LEN + self.epochs.len() * EPOCH_LEN));
        let epoch_count = u32::try_from(self.epochs.len())
            .map_err(|_| StoreError::Bug { detail: "a keyring has more epochs than numbers".to_owned() })?;
        body.extend_from_slice(self.id_secret.bytes());
        body.extend_from_slice(&self.next_epoch.to_le_bytes());
        body.extend_from_slice(&epoch_count.to_le_bytes());
        for (epoch, key) in &self.epochs {
            body.extend_from_slice(&epoch.to_le_bytes());
            body.extend_from_slice(key.bytes());
        }
        let head = encode_head(self.generation, self.revision, &self.slots)?;
        let mut out = head.clone();
        seal(&cipher(&self.kek), &head, &body, &mut out)?;
        Ok(finish(out))
    }

    /// The same without epochs: what a store elsewhere needs to compute the same ids, and to open what was sealed to leave this one.
    /// It opens with what opens this one.
    pub fn without_epochs(&self) -> Self {
        Self { next_epoch: 1, epochs: BTreeMap::new(), ..self.clone() }
    }

    /// How often the KEK was replaced, starting with 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How often the keyring changed, starting with 1. Of two copies, the one with the higher revision is newer.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The secret that keys the ids of objects, see [`crate::id::IdHasher::keyed`].
    pub fn id_secret(&self) -> &[u8; 32] {
        self.id_secret.bytes()
    }

    /// Adds an epoch with a random key and returns its number. Numbers start with 1 and are never used again.
    ///
    /// The keyring must be safely on disk before anything that is sealed under the new epoch counts as stored.
    pub fn new_epoch(&mut self) -> Result<u32> {
        let epoch = self.next_epoch;
        let next = epoch.checked_add(1).filter(|next| *next < PARCEL_EPOCH).ok_or_else(|| {
            StoreError::Invalid { what: "the store has used up its epoch numbers".to_owned() }
        })?;
        self.epochs.insert(epoch, Secret::random()?);
        self.next_epoch = next;
        self.changed();
        Ok(epoch)
    }

    /// Drops the key of an epoch; `false` if there is none. What was sealed under it is lost once no copy of the keyring
    /// has the key any more. The module documentation says what that takes.
    pub fn forget_epoch(&mut self, epoch: u32) -> bool {
        let found = self.epochs.remove(&epoch).is_some();
        if found {
            self.changed();
        }
        found
    }

    /// The epochs whose keys are known, in ascending order.
    pub fn epochs(&self) -> impl Iterator<Item = u32> {
        self.epochs.keys().copied()
    }

    /// The key of the pack with this salt; `None` if the epoch was forgotten or never was.
    pub fn pack_key(&self, epoch: u32, salt: &[u8; 32]) -> Option<PackKey> {
        let epoch_key = self.epochs.get(&epoch)?;
        let key = Secret::derived("infinijup 2026-11-15 pack key v1", salt, epoch_key.bytes());
        Some(PackKey::new(&key))
    }

    /// The key of what leaves the store: of the id secret alone, so that every store with the same secret has it.
    pub fn parcel_key(&self) -> PackKey {
        PackKey::new(&Secret::derived("infinijup 2026-11-17 parcel key v1", &[0; 32], self.id_secret.bytes()))
    }

    /// Replaces the KEK, and all slots by new ones for `unlocks`. The id secret and the epochs stay. On failure nothing
    /// has changed.
    pub fn rotate(&mut self, unlocks: &[Unlock], cost: KdfCost) -> Result<()> {
        let (kek, slots) = new_kek(unlocks, cost)?;
        self.kek = kek;
        self.slots = slots;
        self.generation = self.generation.saturating_add(1);
        self.changed();
        Ok(())
    }

    fn changed(&mut self) {
        self.revision = self.revision.saturating_add(1);
    }
}

const BODY_HEAD_LEN: usize = 32 + 4 + 4;
const EPOCH_LEN: usize = 4 + 32;

fn parse_body(body: &[u8]) -> Option<(Secret, u32, BTreeMap<u32, Secret>)> {
    let mut reader = Reader(body);
    let id_secret = take_secret(&mut reader)?;
    let next_epoch = u32::from_le_bytes(reader.take()?);
    let epoch_count = usize::try_from(u32::from_le_bytes(reader.take()?)).ok()?;
    if reader.0.len() != epoch_count.checked_mul(EPOCH_LEN)? {
        return None;
    }
    let mut epochs = BTreeMap::new();
    let mut lowest = 1;
    for _ in 0..epoch_count {
        let epoch = u32::from_le_bytes(reader.take()?);
        if epoch < lowest || epoch >= next_epoch {
            return None;
        }
        lowest = epoch + 1;
        epochs.insert(epoch, take_secret(&mut reader)?);
    }
    Some((id_secret, next_epoch, epochs))
}

fn take_secret(reader: &mut Reader<'_>) -> Option<Secret> {
    let (bytes, rest) = reader.0.split_first_chunk()?;
    let mut secret = Secret::empty();
    *secret.bytes_mut() = *bytes;
    reader.0 = rest;
    Some(secret)
}

/// The KEK from the first slot that `unlock` opens. A slot that asks for more memory than there is does not hide the
/// others: it is an error only if none of them opens.
fn find_kek(path: &Path, slots: &[Slot], unlock: &Unlock) -> Result<Secret> {
    let mut failure = StoreError::WrongKey { path: path.to_path_buf() };
    for slot in slots {
        match slot.unwrap_kek(unlock) {
            Ok(Some(kek)) => return Ok(kek),
            Ok(None) => {}
            Err(error) => failure = StoreError::io("derive the key of", path)(error),
        }
    }
    Err(failure)
}

fn new_kek(unlocks: &[Unlock], cost: KdfCost) -> Result<(Secret, Vec<Slot>)> {
    if !(1..=MAX_SLOTS).contains(&unlocks.len()) {
        let what =
            format!("a store is opened by 1 to {MAX_SLOTS} passphrases and key files, not {}", unlocks.len());
        return Err(StoreError::Invalid { what });
    }
    if !cost.is_acceptable() {
        let what = format!("a passphrase cannot be protected at this cost: {cost:?}");
        return Err(StoreError::Invalid { what });
    }
    let kek = Secret::random()?;
    let slots = unlocks.iter().map(|unlock| Slot::wrap(&kek, unlock, cost)).collect::<Result<_>>()?;
    Ok((kek, slots))
}
