//! What a person or a machine opens a store with, and how a key comes from it.

use std::{fmt, io};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use zeroize::Zeroizing;

use super::Secret;
use crate::error::{Result, StoreError};

/// A key file holds at least this many bytes. They should be random: nothing slows down guessing them.
pub const MIN_KEY_FILE_LEN: usize = 32;

/// What opens a store.
#[derive(Clone)]
pub enum Unlock {
    /// Text that a person knows. Its bytes are taken as they are: nothing is trimmed or normalised here.
    Passphrase(Zeroizing<String>),
    /// The content of a file, of at least [`MIN_KEY_FILE_LEN`] bytes.
    KeyFile(Zeroizing<Vec<u8>>),
}

impl fmt::Debug for Unlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passphrase(_) => "Passphrase(..)",
            Self::KeyFile(_) => "KeyFile(..)",
        })
    }
}

impl Unlock {
    /// Refuses what cannot have been meant: an empty passphrase, a key file that is hardly one.
    pub(super) fn check(&self) -> Result<()> {
        let what = match self {
            Self::Passphrase(text) if text.is_empty() => "the passphrase is empty".to_owned(),
            Self::KeyFile(content) if content.len() < MIN_KEY_FILE_LEN => {
                format!("a key file needs at least {MIN_KEY_FILE_LEN} bytes, this one has {}", content.len())
            }
            _ => return Ok(()),
        };
        Err(StoreError::Invalid { what })
    }
}

/// What turning a passphrase into a key costs, for us and for everyone who guesses.
///
/// The default is the second of the two settings that RFC 9106 (section 4) recommends, 64 MiB and 3 passes, but with one
/// lane instead of four, because lanes are computed one after the other here and would gain nothing. It is above the
/// minimum in OWASP's Password Storage Cheat Sheet (19 MiB, 2 passes, 1 lane).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KdfCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over that memory.
    pub passes: u32,
    /// Argon2's degree of parallelism.
    pub lanes: u32,
}

impl Default for KdfCost {
    fn default() -> Self {
        Self { memory_kib: 64 * 1024, passes: 3, lanes: 1 }
    }
}

impl KdfCost {
    /// 2 GiB, the larger of the settings that RFC 9106 recommends.
    const MAX_MEMORY_KIB: u32 = 2 * 1024 * 1024;
    /// Memory times passes: a few seconds of one core.
    const MAX_WORK_KIB: u64 = 4 * 1024 * 1024;
    const MAX_LANES: u32 = 16;

    /// As little as Argon2 allows. It does not slow down guessing at all: for tests only.
    pub const fn for_tests() -> Self {
        Self { memory_kib: 8, passes: 1, lanes: 1 }
    }

    /// Whether this is neither less than Argon2 needs nor more than a file may ask of us.
    pub(super) fn is_acceptable(self) -> bool {
        (1..=Self::MAX_LANES).contains(&self.lanes)
            && (8 * self.lanes..=Self::MAX_MEMORY_KIB).contains(&self.memory_kib)
            && self.passes >= 1
            && u64::from(self.memory_kib) * u64::from(self.passes) <= Self::MAX_WORK_KIB
    }
}

/// The slot key of a passphrase. Fails if the memory that the cost asks for is not there.
pub(super) fn key_from_passphrase(text: &str, salt: &[u8; 32], cost: KdfCost) -> io::Result<Secret> {
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(32)).map_err(io::Error::other)?;
    // Our own allocation, because the library does not wipe the one it makes.
    let mut memory = Zeroizing::new(Vec::new());
    memory.try_reserve_exact(params.block_count())?;
    memory.resize(params.block_count(), Block::default());
    let mut key = Secret::empty();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(text.as_bytes(), salt, key.bytes_mut(), memory.as_mut_slice())
        .map_err(io::Error::other)?;
    Ok(key)
}

/// The slot key of a key file.
pub(super) fn key_from_file(content: &[u8], salt: &[u8; 32]) -> Secret {
    Secret::derived("infinijup 2026-11-15 keyring key file v1", salt, content)
}
