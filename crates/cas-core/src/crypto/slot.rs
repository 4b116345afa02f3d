//! One way into a keyring: the KEK, wrapped for one passphrase or key file.
//!
//! On disk, 120 bytes, numbers little-endian: kind (1 passphrase, 2 key file), three zero bytes, Argon2's memory, passes
//! and lanes as `u32` (zero for a key file), 32 bytes of salt, and the sealed KEK. All that precedes the sealed KEK is
//! its AAD.

use std::io;

use super::Secret;
use super::seal::{SEAL_OVERHEAD, cipher, open, seal};
use super::unlock::{KdfCost, Unlock, key_from_file, key_from_passphrase};
use crate::error::{Result, StoreError};
use crate::fsio::fill_random;

/// The most slots a keyring can have.
pub const MAX_SLOTS: usize = 8;

const HEAD_LEN: usize = 4 + 3 * 4 + 32;
pub(super) const SLOT_LEN: usize = HEAD_LEN + 32 + SEAL_OVERHEAD;

/// What a slot is for, as far as it shows without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotInfo {
    /// A passphrase, at this cost.
    Passphrase(KdfCost),
    /// A key file.
    KeyFile,
}

/// A slot as it is on disk. It is kept as it was read, so a keyring can be written without the secrets that open it.
#[derive(Clone)]
pub(super) struct Slot {
    info: SlotInfo,
    bytes: [u8; SLOT_LEN],
}

impl Slot {
    /// Wraps `kek` for `unlock`.
    pub(super) fn wrap(kek: &Secret, unlock: &Unlock, cost: KdfCost) -> Result<Self> {
        unlock.check()?;
        let info = match unlock {
            Unlock::Passphrase(_) => SlotInfo::Passphrase(cost),
            Unlock::KeyFile(_) => SlotInfo::KeyFile,
        };
        let mut salt = [0; 32];
        fill_random(&mut salt)?;
        let key = slot_key(info, &salt, unlock)
            .ok_or_else(|| StoreError::Bug { detail: "a slot does not fit its own key".to_owned() })?
            .map_err(|error| StoreError::Invalid {
                what: format!("cannot derive a key with {} KiB of memory: {error}", cost.memory_kib),
            })?;

        let (kind, cost) = match info {
            SlotInfo::Passphrase(cost) => (1, [cost.memory_kib, cost.passes, cost.lanes]),
            SlotInfo::KeyFile => (2, [0; 3]),
        };
        let mut bytes = Vec::with_capacity(SLOT_LEN);
        bytes.extend_from_slice(&[kind, 0, 0, 0]);
        cost.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes.extend_from_slice(&salt);
        let head = bytes.clone();
        seal(&cipher(&key), &head, kek.bytes(), &mut bytes)?;
        let bytes = bytes
            .try_into()
            .map_err(|_| StoreError::Bug { detail: "a slot has the wrong length".to_owned() })?;
        Ok(Self { info, bytes })
    }

    /// The KEK, if `unlock` is what this slot was made for.
    pub(super) fn unwrap_kek(&self, unlock: &Unlock) -> io::Result<Option<Secret>> {
        let (head, sealed) = self.bytes.split_at(HEAD_LEN);
        let Some(salt) = head.last_chunk::<32>() else { return Ok(None) };
        let Some(key) = slot_key(self.info, salt, unlock).transpose()? else { return Ok(None) };
        let mut plain = zeroize::Zeroizing::new(Vec::with_capacity(sealed.len()));
        if open(&cipher(&key), head, sealed, &mut plain).is_err() || plain.len() != 32 {
            return Ok(None);
        }
        let mut kek = Secret::empty();
        kek.bytes_mut().copy_from_slice(&plain);
        Ok(Some(kek))
    }

    /// Reads a slot; what is wrong with it if it cannot be one.
    pub(super) fn parse(bytes: &[u8; SLOT_LEN]) -> std::result::Result<Self, &'static str> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let cost = KdfCost { memory_kib: number(4), passes: number(8), lanes: number(12) };
        let info = match number(0) {
            1 if cost.is_acceptable() => SlotInfo::Passphrase(cost),
            1 => return Err("a slot asks for an unreasonable amount of memory or time"),
            2 if cost == (KdfCost { memory_kib: 0, passes: 0, lanes: 0 }) => SlotInfo::KeyFile,
            2 => return Err("a slot for a key file has a cost"),
            _ => return Err("a slot is of no known kind"),
        };
        Ok(Self { info, bytes: *bytes })
    }

    pub(super) fn as_bytes(&self) -> &[u8; SLOT_LEN] {
        &self.bytes
    }

    pub(super) fn info(&self) -> SlotInfo {
        self.info
    }
}

/// The key that a slot is sealed under, or `None` if the slot is for the other sort of secret.
fn slot_key(info: SlotInfo, salt: &[u8; 32], unlock: &Unlock) -> Option<io::Result<Secret>> {
    match (info, unlock) {
        (SlotInfo::Passphrase(cost), Unlock::Passphrase(text)) => Some(key_from_passphrase(text, salt, cost)),
        (SlotInfo::KeyFile, Unlock::KeyFile(content)) => Some(Ok(key_from_file(content, salt))),
        _ => None,
    }
}
