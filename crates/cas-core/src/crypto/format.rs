//! The bytes of a keyring file, as far as they can be read without a key.
//!
//! Numbers are little-endian.
//!
//! | length    | what                                                                    |
//! |-----------|-------------------------------------------------------------------------|
//! | 8         | magic                                                                   |
//! | 2         | version                                                                 |
//! | 2         | number of slots, 1 to 8                                                 |
//! | 8         | generation: how often the KEK was replaced, starting with 1             |
//! | 8         | revision: how often the content changed, starting with 1                |
//! | 120 each  | slots (see `slot.rs`)                                                   |
//! | the rest  | the body, sealed under the KEK; its AAD is all that precedes it         |
//! | 32        | BLAKE3 of all that precedes it                                          |
//!
//! The body: id secret (32), next epoch number (4), number of epochs (4), and for each epoch, in ascending order, its
//! number (4) and key (32).

use std::path::Path;

use super::slot::{MAX_SLOTS, SLOT_LEN, Slot, SlotInfo};
use crate::error::{Result, StoreError};

const MAGIC: [u8; 8] = *b"IJKEYRNG";
const VERSION: u16 = 1;
const HEADER_LEN: usize = 28;
const CHECKSUM_LEN: usize = 32;

/// What shows of a keyring without a key. The checksum was verified, but nobody vouches for it: it is authenticated only
/// when the keyring is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyringInfo {
    /// Version of the file format.
    pub version: u16,
    /// How often the KEK was replaced, starting with 1.
    pub generation: u64,
    /// How often the keyring changed, starting with 1. Of two copies, the one with the higher revision is newer.
    pub revision: u64,
    /// Who can open it.
    pub slots: Vec<SlotInfo>,
}

/// Reads what shows of a keyring without a key. `path` only appears in errors.
pub fn inspect(path: &Path, bytes: &[u8]) -> Result<KeyringInfo> {
    let file = parse(path, bytes)?;
    Ok(KeyringInfo {
        version: VERSION,
        generation: file.generation,
        revision: file.revision,
        slots: file.slots.iter().map(Slot::info).collect(),
    })
}

/// A keyring file whose checksum fits and whose header makes sense.
pub(super) struct Parsed<'a> {
    pub(super) generation: u64,
    pub(super) revision: u64,
    pub(super) slots: Vec<Slot>,
    /// Header and slots, which the seal of the body covers.
    pub(super) aad: &'a [u8],
    pub(super) sealed_body: &'a [u8],
}

pub(super) fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<Parsed<'a>> {
    let damaged = |detail: &str| StoreError::damaged("keyring", path, detail);

    let (content, checksum) =
        bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or_else(|| damaged("it is too short"))?;
    if blake3::hash(content) != *checksum {
        return Err(damaged("its checksum does not fit"));
    }
    let mut reader = Reader(content);
    let too_short = || damaged("it ends too early");
    if reader.take().ok_or_else(too_short)? != MAGIC {
        return Err(damaged("it is not a keyring"));
    }
    let version = u16::from_le_bytes(reader.take().ok_or_else(too_short)?);
    if version > VERSION {
        let (found, supported) = (u32::from(version), u32::from(VERSION));
        return Err(StoreError::FormatTooNew { path: path.to_path_buf(), found, supported });
    }
    if version == 0 {
        return Err(damaged("its version is 0"));
    }
    let slot_count = usize::from(u16::from_le_bytes(reader.take().ok_or_else(too_short)?));
    if !(1..=MAX_SLOTS).contains(&slot_count) {
        return Err(damaged("its number of slots is out of range"));
    }
    let generation = u64::from_le_bytes(reader.take().ok_or_else(too_short)?);
    let revision = u64::from_le_bytes(reader.take().ok_or_else(too_short)?);
    let mut slots = Vec::with_capacity(slot_count);
    for _ in 0..slot_count {
        slots.push(Slot::parse(&reader.take().ok_or_else(too_short)?).map_err(damaged)?);
    }
    let sealed_body = reader.0;
    let aad = &content[..content.len() - sealed_body.len()];
    Ok(Parsed { generation, revision, slots, aad, sealed_body })
}

/// Header and slots. The sealed body comes next, then [`finish`].
pub(super) fn encode_head(generation: u64, revision: u64, slots: &[Slot]) -> Result<Vec<u8>> {
    let slot_count = u16::try_from(slots.len())
        .map_err(|_| StoreError::Bug { detail: "a keyring has too many slots".to_owned() })?;
    let mut out = Vec::with_capacity(HEADER_LEN + slots.len() * SLOT_LEN);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&slot_count.to_le_bytes());
    out.extend_from_slice(&generation.to_le_bytes());
    out.extend_from_slice(&revision.to_le_bytes());
    slots.iter().for_each(|slot| out.extend_from_slice(slot.as_bytes()));
    Ok(out)
}

/// Appends the checksum.
pub(super) fn finish(mut out: Vec<u8>) -> Vec<u8> {
    let checksum = blake3::hash(&out);
    out.extend_from_slice(checksum.as_bytes());
    out
}

/// Takes pieces of fixed length off the front of a slice.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (piece, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*piece)
    }
}
