//! Packs: files of many objects, written once, never changed.
//!
//! ```text
//! header   64 bytes   magic, version, class, flags, epoch, salt, checksum
//! entry    72 bytes   magic, kind, codec, lengths, id, checksum of the stored bytes, checksum of this header
//!          n bytes    the object: zstd or raw, sealed if the store is encrypted
//! entry …
//! footer              magic, the header again, one record per entry
//! trailer  56 bytes   where the footer is, its hash (which is the pack's name), magic
//! ```
//!
//! A pack describes itself twice. The footer serves rebuilding: one read gives the whole index, and its hash is the file's
//! name, so that a pack which was exchanged for another is noticed. The entry headers serve salvage: when the end of a
//! file is lost, its objects are found by walking from entry to entry, and by looking for the next entry magic where
//! even that chain is broken.
//!
//! Three checks guard an object. The 128-bit XXH3 of the stored bytes is compared on every read, before anything is
//! decompressed or decrypted. In an encrypted store the AEAD tag is checked as well, with the entry's header as
//! associated data, so that an object cannot be renamed or moved. The id, a BLAKE3 hash of the content, is compared
//! when the reader asks for it, and by `verify`.

mod format;
mod memory;
mod reader;
mod salvage;
mod writer;

pub use format::{
    ENTRY_LEN, Entry, FooterRecord, HEADER_LEN, PackClass, PackHeader, TRAILER_LEN, Trailer, parse_footer,
    stored_checksum,
};
pub use memory::MemoryPack;
pub use reader::{PackReader, RawObject};
pub use salvage::{Salvaged, salvage};
pub use writer::{PackWriter, SealedPack};

#[cfg(test)]
mod tests;
