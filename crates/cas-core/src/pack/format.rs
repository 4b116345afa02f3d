//! The byte layout of a pack. Integers are little-endian. Every structure carries its own checksum, which is compared
//! before a field is believed.

use crate::codec::{Codec, MAX_OBJECT};
use crate::crypto::SEAL_OVERHEAD;
use crate::id::{Kind, ObjectId, PackId};

/// Length of a pack's header.
pub const HEADER_LEN: usize = 64;
/// Length of an entry's header.
pub const ENTRY_LEN: usize = 72;
/// Length of the trailer.
pub const TRAILER_LEN: usize = 56;

const HEADER_MAGIC: &[u8; 8] = b"IJPACK\r\n";
pub(super) const ENTRY_MAGIC: &[u8; 4] = b"IJ\x1eo";
const FOOTER_MAGIC: &[u8; 8] = b"IJFOOT\r\n";
const TRAILER_MAGIC: &[u8; 8] = b"IJPEND\r\n";
const VERSION: u16 = 1;
const FLAG_SEALED: u8 = 1;
const RECORD_LEN: usize = 68;
const FOOTER_FIXED: usize = 8 + HEADER_LEN + 4;
const PACK_ID_CONTEXT: &str = "infinijup 2026-11-15 pack id v1";

/// Whether a pack holds bulk data or the objects that describe it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum PackClass {
    /// Pages and chunks.
    Data = 0,
    /// Everything else.
    Metadata = 1,
}

impl PackClass {
    /// Where objects of `kind` go.
    pub const fn of(kind: Kind) -> Self {
        if kind.is_metadata() { Self::Metadata } else { Self::Data }
    }

    /// The inverse of `as u8`.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Data),
            1 => Some(Self::Metadata),
            _ => None,
        }
    }
}

/// What stands at the front of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackHeader {
    /// What it holds.
    pub class: PackClass,
    /// The key that sealed its objects; `None` in a store without encryption.
    pub epoch: Option<u32>,
    /// Random; makes the pack's key and its name unique.
    pub salt: [u8; 32],
}

impl PackHeader {
    /// The bytes of the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..8].copy_from_slice(HEADER_MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[10] = self.class as u8;
        out[11] = if self.epoch.is_some() { FLAG_SEALED } else { 0 };
        out[12..16].copy_from_slice(&self.epoch.unwrap_or(0).to_le_bytes());
        out[16..48].copy_from_slice(&self.salt);
        put_checksum(&mut out);
        out
    }

    /// Checks and reads a header. `Err` is a sentence.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or("is too short for a pack header")?;
        if &bytes[..8] != HEADER_MAGIC {
            return Err("does not start like a pack".to_owned());
        }
        check_checksum(bytes)?;
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return Err(format!("has pack version {version}, this program reads version {VERSION}"));
        }
        let class =
            PackClass::from_byte(bytes[10]).ok_or_else(|| format!("has unknown class {}", bytes[10]))?;
        let epoch = u32_at(bytes, 12);
        let epoch = match bytes[11] {
            0 => None,
            FLAG_SEALED => Some(epoch),
            flags => return Err(format!("has unknown flags {flags:#x}")),
        };
        let mut salt = [0; 32];
        salt.copy_from_slice(&bytes[16..48]);
        Ok(Self { class, epoch, salt })
    }
}

/// What stands in front of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The object.
    pub id: ObjectId,
    /// Its kind.
    pub kind: Kind,
    /// How its content is encoded.
    pub codec: Codec,
    /// Length of its content.
    pub plain_len: u32,
    /// Length of its stored form.
    pub stored_len: u32,
    /// XXH3-128 of its stored form.
    pub checksum: u128,
}

/// The checksum of an object's stored form.
pub fn stored_checksum(stored: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(stored)
}

impl Entry {
    /// The bytes of the entry header.
    pub fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut out = [0; ENTRY_LEN];
        out[..4].copy_from_slice(ENTRY_MAGIC);
        out[4] = self.kind.0;
        out[5] = self.codec as u8;
        out[8..12].copy_from_slice(&self.plain_len.to_le_bytes());
        out[12..16].copy_from_slice(&self.stored_len.to_le_bytes());
        out[16..48].copy_from_slice(self.id.as_bytes());
        out[48..64].copy_from_slice(&self.checksum.to_le_bytes());
        put_checksum(&mut out);
        out
    }

    /// Checks and reads an entry header. `Err` is a sentence.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let bytes: &[u8; ENTRY_LEN] = bytes.first_chunk().ok_or("ends inside an entry header")?;
        if &bytes[..4] != ENTRY_MAGIC {
            return Err("has no entry where one should start".to_owned());
        }
        check_checksum(bytes)?;
        let entry = Self {
            id: id_at(bytes, 16),
            kind: Kind(bytes[4]),
            codec: Codec::try_from(bytes[5]).map_err(|()| format!("has unknown codec {}", bytes[5]))?,
            plain_len: u32_at(bytes, 8),
            stored_len: u32_at(bytes, 12),
            checksum: u128_at(bytes, 48),
        };
        entry.check_lengths()?;
        Ok(entry)
    }

    /// What is authenticated together with the sealed content: all that names the object, and nothing that is only
    /// known after sealing.
    pub fn associated_data(&self) -> [u8; 40] {
        let mut out = [0; 40];
        out[0] = self.kind.0;
        out[1] = self.codec as u8;
        out[4..8].copy_from_slice(&self.plain_len.to_le_bytes());
        out[8..40].copy_from_slice(self.id.as_bytes());
        out
    }

    fn check_lengths(&self) -> Result<(), String> {
        if self.plain_len as usize > MAX_OBJECT {
            return Err(format!("promises an object of {} bytes", self.plain_len));
        }
        // zstd is only kept where it shrinks, so what is stored is never much longer than its content.
        if self.stored_len as usize > self.plain_len as usize + SEAL_OVERHEAD {
            return Err(format!(
                "promises {} stored bytes for {} of content",
                self.stored_len, self.plain_len
            ));
        }
        Ok(())
    }
}

/// One object, as the footer lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FooterRecord {
    /// Where its entry header starts.
    pub offset: u64,
    /// The entry header's fields.
    pub entry: Entry,
}

/// Builds the footer of a pack.
pub(super) fn encode_footer(header: &PackHeader, records: &[FooterRecord]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FOOTER_FIXED + records.len() * RECORD_LEN);
    out.extend_from_slice(FOOTER_MAGIC);
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&u32::try_from(records.len()).unwrap_or(u32::MAX).to_le_bytes());
    for FooterRecord { offset, entry } in records {
        out.extend_from_slice(entry.id.as_bytes());
        out.extend_from_slice(&[entry.kind.0, entry.codec as u8, 0, 0]);
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&entry.stored_len.to_le_bytes());
        out.extend_from_slice(&entry.plain_len.to_le_bytes());
        out.extend_from_slice(&entry.checksum.to_le_bytes());
    }
    out
}

/// Reads a footer whose hash was compared with the trailer. `Err` is a sentence.
pub fn parse_footer(bytes: &[u8]) -> Result<(PackHeader, Vec<FooterRecord>), String> {
    if bytes.len() < FOOTER_FIXED || &bytes[..8] != FOOTER_MAGIC {
        return Err("has no footer where one should be".to_owned());
    }
    let header = PackHeader::parse(&bytes[8..])?;
    let count = u32_at(bytes, 8 + HEADER_LEN) as usize;
    let body = &bytes[FOOTER_FIXED..];
    if count.checked_mul(RECORD_LEN) != Some(body.len()) {
        return Err(format!("has a footer for {count} objects that is {} bytes long", bytes.len()));
    }
    let records = body.chunks_exact(RECORD_LEN).map(parse_record).collect::<Result<_, _>>()?;
    Ok((header, records))
}

fn parse_record(record: &[u8]) -> Result<FooterRecord, String> {
    let entry = Entry {
        id: id_at(record, 0),
        kind: Kind(record[32]),
        codec: Codec::try_from(record[33]).map_err(|()| format!("lists unknown codec {}", record[33]))?,
        stored_len: u32_at(record, 44),
        plain_len: u32_at(record, 48),
        checksum: u128_at(record, 52),
    };
    entry.check_lengths()?;
    Ok(FooterRecord { offset: u64_at(record, 36), entry })
}

/// What stands at the very end of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trailer {
    /// Where the footer starts.
    pub footer_offset: u64,
    /// How long it is.
    pub footer_len: u32,
    /// The pack's name: the footer's hash.
    pub id: PackId,
}

impl Trailer {
    /// The trailer for a footer.
    pub(super) fn of(footer_offset: u64, footer: &[u8]) -> Self {
        let id = PackId::from_bytes(blake3::derive_key(PACK_ID_CONTEXT, footer));
        Self { footer_offset, footer_len: u32::try_from(footer.len()).unwrap_or(u32::MAX), id }
    }

    /// Whether `footer` is the one this trailer names.
    pub fn fits(&self, footer: &[u8]) -> bool {
        Self::of(self.footer_offset, footer) == *self
    }

    /// The bytes of the trailer.
    pub fn encode(&self) -> [u8; TRAILER_LEN] {
        let mut out = [0; TRAILER_LEN];
        out[..8].copy_from_slice(&self.footer_offset.to_le_bytes());
        out[8..12].copy_from_slice(&self.footer_len.to_le_bytes());
        out[16..48].copy_from_slice(self.id.as_bytes());
        out[48..].copy_from_slice(TRAILER_MAGIC);
        out
    }

    /// Reads a trailer. It has no checksum of its own: the footer's hash covers what matters, and a wrong offset
    /// finds no footer that fits.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let bytes: &[u8; TRAILER_LEN] = bytes.last_chunk().ok_or("is too short for a pack")?;
        if &bytes[48..] != TRAILER_MAGIC {
            return Err("does not end like a pack".to_owned());
        }
        let mut id = [0; 32];
        id.copy_from_slice(&bytes[16..48]);
        Ok(Self { footer_offset: u64_at(bytes, 0), footer_len: u32_at(bytes, 8), id: PackId::from_bytes(id) })
    }
}

fn put_checksum(structure: &mut [u8]) {
    let at = structure.len() - 8;
    let sum = xxhash_rust::xxh3::xxh3_64(&structure[..at]);
    structure[at..].copy_from_slice(&sum.to_le_bytes());
}

fn check_checksum(structure: &[u8]) -> Result<(), String> {
    let at = structure.len() - 8;
    if u64_at(structure, at) == xxhash_rust::xxh3::xxh3_64(&structure[..at]) {
        Ok(())
    } else {
        Err("has a header that does not fit its checksum".to_owned())
    }
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, at))
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(bytes_at(bytes, at))
}

fn id_at(bytes: &[u8], at: usize) -> ObjectId {
    ObjectId::from_bytes(bytes_at(bytes, at))
}
