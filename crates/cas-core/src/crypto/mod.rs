//! Encryption at rest: who can open a store, and what its bytes are sealed with.
//!
//! # The chain of keys
//!
//! ```text
//! passphrase --Argon2id--+
//!                        +--> slot key --unwraps--> KEK --opens--> keyring body --+--> id secret
//! key file ----BLAKE3----+                                                        +--> epoch keys
//!                                                                                       |
//!                                                    pack salt ---BLAKE3 derive_key-----+--> pack key
//! ```
//!
//! An encrypted store has one small *keyring*. Its header can be read without a key: a magic, a version, two counters
//! and up to eight *slots*, like those of LUKS. Every slot holds the same random key-encryption key (KEK), each wrapped
//! for another passphrase or key file, so that several people or machines can open the store with secrets of their own.
//! The KEK opens the body: the *id secret*, which keys the object ids (see [`crate::id`]), and the *epoch keys*.
//!
//! Every write transaction takes a new epoch, and every pack of that transaction is sealed under a key derived from the
//! epoch's key and 32 random bytes in the pack's header. This makes two things cheap:
//!
//! * **Rotation** ([`Keyring::rotate`]): new KEK, new slots, generation one higher. The keyring is written anew; no pack
//!   is touched.
//! * **Crypto-erase** ([`Keyring::forget_epoch`]): what is still alive in the packs of an epoch is copied into new packs
//!   first. Then the epoch's key is forgotten and the keyring written anew. The old packs cannot be read any more, even
//!   where their bytes cannot be overwritten.
//!
//! # What that does not do
//!
//! * *Deduplication*: an object that a living snapshot shares with an erased one is alive. It is copied to a new pack and
//!   stays readable. Only content that no living snapshot has is erased.
//! * *Copies of the keyring*: a backup made before the erasure still holds the forgotten key, and opens with the
//!   passphrase of its time. The same is true of blocks that flash storage has retired but not wiped, of file-system
//!   snapshots and of journals. So erase and rotate together, to new secrets, and destroy the old passphrase or key file:
//!   then an old copy of the keyring is of no use to anyone who did not note the old secret or the keys themselves.
//! * *Rotation is not revocation of the past*: whoever could open the keyring before may have kept the epoch keys and the
//!   id secret of that time. They can read the packs of those epochs if they get hold of them. They cannot read the packs
//!   of epochs that began after the rotation. The id secret never changes, because all ids depend on it; who knows it can
//!   check whether an id belongs to content they already have.
//! * *What shows without a key*: the number and sizes of packs and objects, when they were written, the epoch numbers,
//!   how many slots there are and of which sort.
//! * *Going back*: whoever can write to the disk can put an old keyring, or the whole old store, in place of the new
//!   one. Nothing in the store can tell.
//! * *Memory*: secrets are wiped when they are dropped, as far as this code and its libraries hold them. The stack may
//!   keep fragments, and the system may swap pages out or put them in a core dump.
//!
//! # Damage or wrong key?
//!
//! A keyring ends with a BLAKE3 checksum. If it does not fit, the file is damaged and the key is not to blame; the store
//! keeps a second copy. If it fits and no slot opens, the key is wrong. The checksum is no protection against intent:
//! that is the seal of the body, which covers the header and all slots too. A slot that opens on a body that does not
//! means that somebody changed the file on purpose, and is reported as damage.
//!
//! # Algorithms
//!
//! All sealing is XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03): the 24-byte nonce is long enough to be drawn at
//! random for every object, so no counter has to survive a crash. A sealed piece is nonce, ciphertext, tag. Passphrases
//! go through Argon2id (RFC 9106), with the cost recorded in the slot and bounded when it is read, so that a hostile file
//! cannot ask for all memory. Key files are long and random, so one BLAKE3 pass with the slot's salt is enough for them.

mod format;
mod keyring;
mod seal;
mod slot;
mod unlock;

#[cfg(test)]
mod tests;

pub use format::{KeyringInfo, inspect};
pub use keyring::Keyring;
pub use seal::{OpenFailed, PackKey, SEAL_OVERHEAD};
pub use slot::{MAX_SLOTS, SlotInfo};
pub use unlock::{KdfCost, MIN_KEY_FILE_LEN, Unlock};

use zeroize::Zeroizing;

use crate::error::Result;
use crate::fsio::fill_random;

/// The epoch in the header of what was sealed to leave the store. No keyring gives it out.
pub const PARCEL_EPOCH: u32 = u32::MAX;

/// 32 secret bytes, wiped when dropped. On the heap, so that moving their owner leaves no copies behind.
#[derive(Clone)]
struct Secret(Box<Zeroizing<[u8; 32]>>);

impl Secret {
    /// Zeros, to be filled in place.
    fn empty() -> Self {
        Self(Box::default())
    }

    fn random() -> Result<Self> {
        let mut secret = Self::empty();
        fill_random(secret.bytes_mut())?;
        Ok(secret)
    }

    /// A secret from `key_material` and `salt`. The salt has a fixed length, so the two cannot be confused.
    fn derived(context: &'static str, salt: &[u8; 32], key_material: &[u8]) -> Self {
        let mut secret = Self::empty();
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(salt).update(key_material);
        hasher.finalize_xof().fill(secret.bytes_mut());
        secret
    }

    fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8; 32] {
        &mut self.0
    }
}
