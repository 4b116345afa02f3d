//! Objects on their way to and from a place that is no store of this machine: an object store.
//!
//! What is sent is a [`Parcel`]: a pack of the usual format that is made in memory and holds exactly the objects that were asked for.
//! Packs are not sent as they lie on disk, because they hold what shared a transaction or a repack, and not what belongs
//! together: with somebody's snapshot would go parts of another's.
//!
//! In an encrypted store a parcel is sealed, under a key that follows from the store's id secret alone. So every store with
//! the same secret opens it, whatever epochs it has, and collecting old epochs here takes nothing from what lies there. The
//! header says epoch [`PARCEL_EPOCH`], which no keyring gives out.
//!
//! What comes back is believed in nothing: [`Store::open_foreign`] compares lengths, checksums, the seal and at last the id.

use crate::archive::domain;
use crate::codec::Decoder;
use crate::crypto::{Keyring, PARCEL_EPOCH, PackKey};
use crate::error::{Result, StoreError};
use crate::fsio;
use crate::id::{Kind, ObjectId, PackId};
use crate::pack::{ENTRY_LEN, Entry, FooterRecord, MemoryPack, PackClass, PackHeader, stored_checksum};
use crate::store::Store;
use crate::transaction::WriteTransaction;

/// A pack in memory.
#[derive(Debug)]
pub struct Parcel {
    pack: MemoryPack,
    key: Option<PackKey>,
    stored: Vec<u8>,
    opened: Vec<u8>,
    sealed: Vec<u8>,
}

/// A parcel that is complete.
#[derive(Debug)]
pub struct SealedParcel {
    /// The pack's name.
    pub id: PackId,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where its objects lie in them.
    pub records: Vec<FooterRecord>,
}

impl Parcel {
    /// How long it is so far.
    pub fn len(&self) -> usize {
        self.pack.len()
    }

    /// Whether nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.pack.is_empty()
    }

    /// Adds an object of the store. Nothing is decompressed; its checksum is compared.
    pub fn add(&mut self, store: &Store, id: &ObjectId) -> Result<()> {
        let location = store.catalogue.lookup(id)?.ok_or(StoreError::MissingObject { id: *id })?;
        let (pack, location) = store.open_at(id, location)?;
        let raw = pack.reader.read(id, location.offset, location.stored_len, &mut self.stored)?;
        let mut entry = raw.entry;
        let mut content = pack.reader.unseal(&raw, pack.key.as_ref(), &mut self.opened)?;
        if let Some(key) = &self.key {
            self.sealed.clear();
            key.seal(&entry.associated_data(), content, &mut self.sealed)?;
            content = &self.sealed;
        }
        let too_long = |_| StoreError::Invalid { what: format!("object {id} is too long to send") };
        entry.stored_len = u32::try_from(content.len()).map_err(too_long)?;
        entry.checksum = stored_checksum(content);
        self.pack.append(entry, content);
        Ok(())
    }

    /// Adds an object as it lies in another parcel of a store with the same secret: `bytes` are its entry and its stored form. Everything is
    /// compared first; `Err` within is a sentence about what is wrong.
    pub fn forward(&mut self, store: &Store, id: &ObjectId, bytes: &[u8]) -> Result<Result<(), String>> {
        let entry = match Entry::parse(bytes) {
            Ok(entry) => entry,
            Err(detail) => return Ok(Err(detail)),
        };
        let opened = store.open_foreign(entry.kind, id, bytes)?;
        Ok(opened.map(|_| self.pack.append(entry, &bytes[ENTRY_LEN..])))
    }

    /// Closes it.
    pub fn finish(self) -> SealedParcel {
        let (id, bytes, records) = self.pack.seal();
        SealedParcel { id, bytes, records }
    }
}

impl Store {
    /// The same for two stores if they compute ids alike, and tells nothing else about their secret.
    pub fn domain(&self) -> [u8; 32] {
        domain(&self.hasher)
    }

    /// What a store elsewhere needs to have the same secret, wrapped: it opens with what opens this store. `None` in a plain one.
    pub fn wrapped_secret(&self) -> Result<Option<Keyring>> {
        self.keys.as_ref().map(|keys| keys.without_epochs()).transpose()
    }

    /// Begins a parcel.
    pub fn parcel(&self, class: PackClass) -> Result<Parcel> {
        let key = self.parcel_key();
        let header =
            PackHeader { class, epoch: key.is_some().then_some(PARCEL_EPOCH), salt: fsio::random_bytes()? };
        let pack = MemoryPack::new(header);
        Ok(Parcel { pack, key, stored: Vec::new(), opened: Vec::new(), sealed: Vec::new() })
    }

    fn parcel_key(&self) -> Option<PackKey> {
        self.keys.as_ref().map(|keys| keys.parcel_key())
    }

    /// Opens an object that was read elsewhere: `bytes` are its entry and its stored form. `Err` within is a sentence about
    /// what is wrong with them.
    pub fn open_foreign(&self, kind: Kind, id: &ObjectId, bytes: &[u8]) -> Result<Result<Foreign, String>> {
        Ok(self.try_open_foreign(kind, id, bytes, &mut Decoder::new()?))
    }

    fn try_open_foreign(
        &self,
        kind: Kind,
        id: &ObjectId,
        bytes: &[u8],
        decoder: &mut Decoder,
    ) -> Result<Foreign, String> {
        let entry = Entry::parse(bytes)?;
        let stored = &bytes[ENTRY_LEN..];
        if entry.id != *id || entry.kind != kind {
            return Err(format!("is object {} of kind {} here", entry.id.short(), entry.kind.0));
        }
        if entry.stored_len as usize != stored.len() || stored_checksum(stored) != entry.checksum {
            return Err("does not fit its checksum".to_owned());
        }
        let mut encoded = Vec::new();
        match self.parcel_key() {
            None => encoded.extend_from_slice(stored),
            Some(key) => key
                .open(&entry.associated_data(), stored, &mut encoded)
                .map_err(|_| "cannot be decrypted: content or header was changed")?,
        }
        // `Entry::parse` has bounded the length.
        let mut content = vec![0; entry.plain_len as usize];
        decoder.decode(entry.codec, &encoded, &mut content)?;
        if self.hasher.id(kind, &content) != *id {
            return Err("has content that does not fit its id".to_owned());
        }
        Ok(Foreign { entry, encoded, content })
    }
}

/// An object from elsewhere whose content fits its id.
#[derive(Debug)]
pub struct Foreign {
    entry: Entry,
    encoded: Vec<u8>,
    content: Vec<u8>,
}

impl Foreign {
    /// What it holds.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// The same, for whoever needs nothing else of it.
    pub fn into_content(self) -> Vec<u8> {
        self.content
    }
}

impl WriteTransaction {
    /// Puts an object from elsewhere, as it was compressed there.
    pub fn adopt(&self, object: &Foreign) -> Result<()> {
        self.adopt_encoded(object.entry, &object.encoded)
    }
}
