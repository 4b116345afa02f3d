//! Names for bytes: what an object's id is and how it is computed.
//!
//! An id is a BLAKE3 tree of two levels. Content is cut into *leaves* of 16 KiB; each leaf is hashed with the leaf
//! key; the root hash, under the root key, covers the object's kind, its length and the leaf hashes in order. 16 KiB is
//! the smallest piece that fills every lane of BLAKE3's widest implementation (16 chunks of 1 KiB with AVX-512), so
//! this costs what hashing the whole object in one go would. What it buys: process memory is compared with its parent
//! snapshot in groups of four pages, which are 16 KiB too, and a group that turns out to be new has its leaf hash
//! already. Memory is hashed once, not twice.
//!
//! Both keys are derived from the store's id secret. In a plain store the secret is all zeros, so equal content has
//! equal ids in every plain store (export and import rely on it). In an encrypted store the secret is random, so an id
//! tells nothing about content to someone who cannot open the store.

use std::fmt;
use std::str::FromStr;

/// Length of one hashing leaf.
pub const LEAF_LEN: usize = 16 * 1024;

/// The address of an object: a hash of its kind, length and content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 32]);

/// The name of a pack: the hash of its footer, so a pack that was swapped with another one does not fit its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackId([u8; 32]);

macro_rules! hash_newtype {
    ($name:ident, $what:literal) => {
        impl $name {
            /// Wraps 32 raw bytes.
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The raw bytes.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// The first twelve hex digits, for people.
            pub fn short(&self) -> String {
                hex(&self.0[..6])
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($what, ":{}"), self.short())
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                unhex32(text).map(Self).ok_or(ParseIdError)
            }
        }
    };
}

hash_newtype!(ObjectId, "object");
hash_newtype!(PackId, "pack");

/// The text was not 64 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 64 lower-case hex digits")]
pub struct ParseIdError;

/// What the bytes of an object are, one byte. It takes part in the id: bytes stored as one kind cannot be read as
/// another. The store gives meaning to the kinds below [`Kind::FIRST_OPAQUE`] and follows the references in them;
/// higher ones belong to the layers above, which list an object's references themselves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind(pub u8);

impl Kind {
    /// A piece of a file.
    pub const CHUNK: Self = Self(1);
    /// A list of chunks or of further lists.
    pub const CHUNK_LIST: Self = Self(2);
    /// Pages of process memory.
    pub const PAGES: Self = Self(3);
    /// Extents of 2 MiB of an address space.
    pub const MAP_LEAF: Self = Self(4);
    /// Inner node of an extent map.
    pub const MAP_NODE: Self = Self(5);
    /// The first kind that belongs to the layers above.
    pub const FIRST_OPAQUE: u8 = 32;

    /// Whether objects of this kind describe others. They are packed apart from bulk data, so that walking a history
    /// does not drag its bytes through memory.
    pub const fn is_metadata(self) -> bool {
        !matches!(self, Self::CHUNK | Self::PAGES)
    }
}

/// The hash of one leaf of content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeafHash([u8; 32]);

impl LeafHash {
    /// The first half, which is what the fingerprints of memory groups keep.
    pub fn truncated(&self) -> [u8; 16] {
        let mut out = [0; 16];
        out.copy_from_slice(&self.0[..16]);
        out
    }
}

/// Computes ids. Cheap to copy; holds the two keys that the module documentation describes.
#[derive(Clone, Copy)]
pub struct IdHasher {
    leaf_key: [u8; 32],
    root_key: [u8; 32],
}

impl fmt::Debug for IdHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdHasher(..)")
    }
}

impl IdHasher {
    /// The hasher of a store without encryption.
    pub fn plain() -> Self {
        Self::keyed(&[0; 32])
    }

    /// The hasher of an encrypted store.
    pub fn keyed(id_secret: &[u8; 32]) -> Self {
        Self {
            leaf_key: blake3::derive_key("infinijup 2026-11-15 object id leaf v1", id_secret),
            root_key: blake3::derive_key("infinijup 2026-11-15 object id root v1", id_secret),
        }
    }

    /// Hashes one leaf. `leaf` is 16 KiB, or less if it is the last of its object.
    pub fn leaf(&self, leaf: &[u8]) -> LeafHash {
        debug_assert!(leaf.len() <= LEAF_LEN);
        LeafHash(*blake3::keyed_hash(&self.leaf_key, leaf).as_bytes())
    }

    /// The id of content whose leaves were hashed before.
    pub fn from_leaves(
        &self,
        kind: Kind,
        len: usize,
        leaves: impl IntoIterator<Item = LeafHash>,
    ) -> ObjectId {
        let mut root = blake3::Hasher::new_keyed(&self.root_key);
        root.update(&[kind.0]).update(&(len as u64).to_le_bytes());
        for leaf in leaves {
            root.update(&leaf.0);
        }
        ObjectId(*root.finalize().as_bytes())
    }

    /// The id of `content` as an object of `kind`.
    pub fn id(&self, kind: Kind, content: &[u8]) -> ObjectId {
        self.from_leaves(kind, content.len(), content.chunks(LEAF_LEN).map(|leaf| self.leaf(leaf)))
    }
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out
}

/// The inverse of [`hex`] for 32 bytes. Upper-case digits are refused, so that an id has one spelling.
pub fn unhex32(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 {
        return None;
    }
    unhex(text)?.try_into().ok()
}

/// The inverse of [`hex`].
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_depends_on_kind_length_content_and_secret() {
        let plain = IdHasher::plain();
        let id = plain.id(Kind::CHUNK, b"abc");
        assert_eq!(id, plain.id(Kind::CHUNK, b"abc"));
        assert_ne!(id, plain.id(Kind::PAGES, b"abc"));
        assert_ne!(id, plain.id(Kind::CHUNK, b"abd"));
        assert_ne!(id, IdHasher::keyed(&[7; 32]).id(Kind::CHUNK, b"abc"));
        assert_ne!(plain.id(Kind::CHUNK, &[0; 4096]), plain.id(Kind::CHUNK, &[0; 8192]));
    }

    #[test]
    fn leaves_that_were_hashed_before_give_the_same_id() {
        let hasher = IdHasher::plain();
        let content: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let leaves: Vec<_> = content.chunks(LEAF_LEN).map(|leaf| hasher.leaf(leaf)).collect();
        assert_eq!(hasher.id(Kind::PAGES, &content), hasher.from_leaves(Kind::PAGES, content.len(), leaves));
    }

    #[test]
    fn text_form_has_one_spelling() {
        let id = IdHasher::plain().id(Kind::CHUNK, b"x");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse::<ObjectId>(), Err(ParseIdError));
        assert_eq!("00".parse::<ObjectId>(), Err(ParseIdError));
    }
}
