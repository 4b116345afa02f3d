//! An open store: reading objects, and the handles that everything else starts from.
//!
//! Reading takes three steps: the catalogue says where an object is, one positioned read fetches its entry, and its
//! checksum is compared before anything is decoded. gc may move an object to another pack between the first and the
//! second step; a pack that has gone is therefore looked up once more before it is called missing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::beyond::Beyond;
use crate::catalogue::{self, Catalogue, Location, PackNo};
use crate::codec::Decoder;
use crate::crypto::{KdfCost, Keyring, PackKey, Unlock};
use crate::error::{Class, Result, StoreError};
use crate::fsio::{self, Disk, LocalDisk};
use crate::id::{IdHasher, Kind, ObjectId, PackId};
use crate::keys::Keys;
use crate::layout::{Format, Layout};
use crate::pack::PackReader;
use crate::packs::{LocalPacks, Packs};
use crate::refs::Refs;

/// How many packs are kept open.
const OPEN_PACKS: usize = 128;

/// How much is compared on each read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// The 128-bit checksum of the stored bytes, and the AEAD tag in an encrypted store: finds every accident.
    #[default]
    Checksum,
    /// The BLAKE3 id of the content as well: finds deliberate changes too, at the price of hashing what is read.
    Identity,
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Opens an encrypted store.
    pub unlock: Option<Unlock>,
    /// What is compared on reads.
    pub trust: Trust,
    /// The disk that the store lies on.
    pub disk: Arc<dyn Disk>,
    /// Worker threads of a write transaction or a whole read; 0 means one per core.
    pub threads: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { unlock: None, trust: Trust::default(), disk: Arc::new(LocalDisk), threads: 0 }
    }
}

/// Encryption of a new store.
#[derive(Clone, Debug)]
pub struct Encryption {
    /// What shall open it; each of them alone does.
    pub unlocks: Vec<Unlock>,
    /// What a guess at a passphrase costs.
    pub cost: KdfCost,
}

/// An open store. Cheap to share: clone the `Arc`.
#[derive(Debug)]
pub struct Store {
    pub(crate) layout: Layout,
    pub(crate) format: Format,
    pub(crate) catalogue: Catalogue,
    pub(crate) keys: Option<Keys>,
    pub(crate) hasher: IdHasher,
    pub(crate) options: OpenOptions,
    /// Where the packs are.
    pub(crate) packs: Arc<dyn Packs>,
    /// Those that are open.
    open: Mutex<HashMap<PackNo, Arc<OpenPack>>>,
    /// Who is asked for what is not here.
    pub(crate) beyond: OnceLock<Arc<dyn Beyond>>,
}

/// Where an object was found.
enum Found {
    Here(Arc<OpenPack>, Location),
    /// And this is its content.
    Beyond(Vec<u8>),
}

/// A pack with its key.
#[derive(Debug)]
pub(crate) struct OpenPack {
    pub(crate) reader: PackReader,
    pub(crate) key: Option<PackKey>,
}

/// Buffers and contexts for reading; one per thread.
#[derive(Debug)]
pub struct ReadContext {
    decoder: Decoder,
    stored: Vec<u8>,
    opened: Vec<u8>,
}

impl ReadContext {
    /// Allocates them.
    pub fn new() -> Result<Self> {
        Ok(Self { decoder: Decoder::new()?, stored: Vec::new(), opened: Vec::new() })
    }
}

impl Store {
    /// Creates a store at `root` (the `.infinijup` directory) and opens it. The format file is written last: a store that
    /// was not finished is no store.
    pub fn init(root: &Path, encryption: Option<&Encryption>, options: OpenOptions) -> Result<Arc<Self>> {
        let packs = local_packs(root, &options);
        Self::init_with(root, encryption, packs, options)
    }

    /// The same for a store whose packs are kept elsewhere; there are none yet.
    pub fn init_with(
        root: &Path,
        encryption: Option<&Encryption>,
        packs: Arc<dyn Packs>,
        options: OpenOptions,
    ) -> Result<Arc<Self>> {
        Self::init_keyed(root, packs, options, |layout, disk| {
            let create = |new: &Encryption| Keys::create(layout, disk, &new.unlocks, new.cost);
            encryption.map(create).transpose()
        })
    }

    /// Creates an encrypted store that computes the same ids as another one, and opens with what opens that.
    pub fn init_like(root: &Path, keyring: &Keyring, options: OpenOptions) -> Result<Arc<Self>> {
        let packs = local_packs(root, &options);
        Self::init_keyed(root, packs, options, |layout, disk| {
            Keys::adopt(layout, disk, keyring.without_epochs()).map(Some)
        })
    }

    fn init_keyed(
        root: &Path,
        packs: Arc<dyn Packs>,
        options: OpenOptions,
        keys: impl FnOnce(&Layout, Arc<dyn Disk>) -> Result<Option<Keys>>,
    ) -> Result<Arc<Self>> {
        let layout = Layout::new(root);
        if is_there(&layout.format())? {
            return Err(StoreError::AlreadyAStore { path: root.to_path_buf() });
        }
        if !packs.list()?.is_empty() {
            let detail = "is not there, but packs are: this is a store that has lost it";
            return Err(StoreError::damaged("format file", layout.format(), detail));
        }
        // An init that was cut short has left a catalogue, and nothing that it could be about.
        catalogue::remove_database(&layout.catalogue())?;
        let disk = options.disk.clone();
        layout.create(disk.as_ref())?;
        let keys = keys(&layout, disk.clone())?;
        let catalogue = Catalogue::create(&layout.catalogue())?;
        let format = Format::new(keys.is_some())?;
        fsio::replace(disk.as_ref(), &layout.format(), format.encode().as_bytes())?;
        Ok(Arc::new(Self::assemble(layout, format, catalogue, keys, packs, options)))
    }

    /// Opens the store at `root`, whose packs are files there.
    pub fn open(root: &Path, options: OpenOptions) -> Result<Arc<Self>> {
        let packs = local_packs(root, &options);
        Self::open_with(root, packs, options)
    }

    /// Opens the store at `root`, whose packs are kept elsewhere.
    pub fn open_with(root: &Path, packs: Arc<dyn Packs>, options: OpenOptions) -> Result<Arc<Self>> {
        let layout = Layout::new(root);
        let format = Format::read_from(options.disk.as_ref(), &layout)?;
        let keys = open_keys(&layout, &format, &options)?;
        let path = layout.catalogue();
        if !is_there(&path)? {
            // A rebuild that was cut short leaves it like this, and so does a copy of a store that was not complete.
            return Err(StoreError::damaged("catalogue", path, "is not there"));
        }
        let catalogue = Catalogue::open(&path)?;
        Ok(Arc::new(Self::assemble(layout, format, catalogue, keys, packs, options)))
    }

    fn assemble(
        layout: Layout,
        format: Format,
        catalogue: Catalogue,
        keys: Option<Keys>,
        packs: Arc<dyn Packs>,
        options: OpenOptions,
    ) -> Self {
        let hasher = keys.as_ref().map_or_else(IdHasher::plain, |keys| IdHasher::keyed(&keys.id_secret()));
        let (open, beyond) = (Mutex::default(), OnceLock::new());
        Self { layout, format, catalogue, keys, hasher, options, packs, open, beyond }
    }

    /// Where the store is.
    pub fn root(&self) -> &Path {
        self.layout.root()
    }

    /// The store's format.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The catalogue.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// How ids are computed here.
    pub fn hasher(&self) -> &IdHasher {
        &self.hasher
    }

    /// The refs.
    pub fn refs(&self) -> Refs {
        Refs::new(self.layout.clone(), self.options.disk.clone())
    }

    /// How many worker threads to use.
    pub(crate) fn threads(&self) -> usize {
        match self.options.threads {
            0 => std::thread::available_parallelism().map_or(2, usize::from),
            threads => threads,
        }
    }

    /// Whether the store has an object.
    pub fn contains(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.catalogue.lookup(id)?.is_some())
    }

    /// Whether the store has an object and no gc is about to remove it. For whoever would otherwise write it.
    pub fn keeps(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.catalogue.lookup_reusable(id)?.is_some())
    }

    /// Reads one object.
    pub fn get(&self, kind: Kind, id: &ObjectId) -> Result<Vec<u8>> {
        let mut context = ReadContext::new()?;
        let mut content = Vec::new();
        self.read_into(kind, id, &mut context, &mut content)?;
        Ok(content)
    }

    /// Reads one object into `content`, whose allocation is kept.
    pub fn read_into(
        &self,
        kind: Kind,
        id: &ObjectId,
        context: &mut ReadContext,
        content: &mut Vec<u8>,
    ) -> Result<()> {
        let (pack, location) = match self.locate(kind, id)? {
            Found::Here(pack, location) => (pack, location),
            Found::Beyond(found) => {
                *content = found;
                return Ok(());
            }
        };
        // The bytes are all overwritten; only growth has to write zeros first.
        content.resize(location.plain_len as usize, 0);
        self.decode_at(&pack, &location, kind, id, context, content)
    }

    /// Reads an object whose content has exactly the length of `out`.
    pub(crate) fn read_exact(
        &self,
        kind: Kind,
        id: &ObjectId,
        context: &mut ReadContext,
        out: &mut [u8],
    ) -> Result<()> {
        let found = self.locate(kind, id)?;
        let len = match &found {
            Found::Here(_, location) => location.plain_len as usize,
            Found::Beyond(content) => content.len(),
        };
        if len != out.len() {
            let detail = format!("has {len} bytes, its map says {}", out.len());
            return Err(StoreError::Malformed { id: *id, detail });
        }
        match found {
            Found::Here(pack, location) => self.decode_at(&pack, &location, kind, id, context, out),
            Found::Beyond(content) => {
                out.copy_from_slice(&content);
                Ok(())
            }
        }
    }

    fn decode_at(
        &self,
        pack: &OpenPack,
        location: &Location,
        kind: Kind,
        id: &ObjectId,
        context: &mut ReadContext,
        out: &mut [u8],
    ) -> Result<()> {
        let raw = pack.reader.read(id, location.offset, location.stored_len, &mut context.stored)?;
        let damaged = |detail: String| {
            StoreError::damaged("object", pack.reader.place(), format!("{}: {detail}", id.short()))
        };
        if raw.entry.kind != kind || raw.entry.plain_len as usize != out.len() {
            return Err(damaged(format!("is of kind {} and not {}", raw.entry.kind.0, kind.0)));
        }
        pack.reader.decode(&raw, pack.key.as_ref(), &mut context.decoder, &mut context.opened, out)?;
        if self.options.trust == Trust::Identity && self.hasher.id(kind, out) != *id {
            return Err(damaged("content does not fit the id".into()));
        }
        Ok(())
    }

    /// Finds an object and opens its pack; one that is not here is read from where it is.
    fn locate(&self, kind: Kind, id: &ObjectId) -> Result<Found> {
        let here = self.find(id).and_then(|location| self.open_at(id, location));
        match (here, self.beyond.get()) {
            (Ok((pack, location)), _) => Ok(Found::Here(pack, location)),
            (Err(error @ StoreError::MissingObject { .. }), Some(beyond)) => {
                beyond.read(kind, id)?.map(Found::Beyond).ok_or(error)
            }
            (Err(error), _) => Err(error),
        }
    }

    pub(crate) fn find(&self, id: &ObjectId) -> Result<Location> {
        self.catalogue.lookup(id)?.ok_or(StoreError::MissingObject { id: *id })
    }

    /// Opens the pack of an object that was at `location` a moment ago.
    pub(crate) fn open_at(&self, id: &ObjectId, mut location: Location) -> Result<(Arc<OpenPack>, Location)> {
        loop {
            let error = match self.open_pack(location.pack) {
                Ok(pack) => return Ok((pack, location)),
                Err(error) => error,
            };
            // gc may have moved the object after we had looked, and then the old pack's row, file and key are gone.
            let again = self.find(id)?;
            if again.pack == location.pack {
                return Err(error);
            }
            location = again;
        }
    }

    /// Whether an object's stored bytes are what was written, and our key opens them. Costs one read and a checksum, a
    /// tenth of what compressing it again would, and in an encrypted store the opening.
    pub(crate) fn check_stored(&self, id: &ObjectId, location: Location) -> Result<bool> {
        match self.unseal_at(id, location, &mut Vec::new(), &mut Vec::new()) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.class(), Class::Corruption | Class::Key) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The same, with the reason if they are not.
    pub(crate) fn check_bytes_of(&self, id: &ObjectId, context: &mut ReadContext) -> Result<()> {
        self.unseal_at(id, self.find(id)?, &mut context.stored, &mut context.opened)
    }

    fn unseal_at(
        &self,
        id: &ObjectId,
        location: Location,
        stored: &mut Vec<u8>,
        opened: &mut Vec<u8>,
    ) -> Result<()> {
        let (pack, location) = self.open_at(id, location)?;
        let raw = pack.reader.read(id, location.offset, location.stored_len, stored)?;
        pack.reader.unseal(&raw, pack.key.as_ref(), opened).map(drop)
    }

    /// Opens a pack, or finds it open.
    pub(crate) fn open_pack(&self, no: PackNo) -> Result<Arc<OpenPack>> {
        if let Some(pack) = self.open_packs().get(&no) {
            return Ok(pack.clone());
        }
        let row = self.catalogue.pack(no)?.ok_or_else(|| StoreError::Bug {
            detail: format!("object rows name pack number {}, which is gone", no.0),
        })?;
        let reader = PackReader::new(self.packs.open(&row.id)?)?;
        let key = self.key_of(&reader, &row.id)?;
        let pack = Arc::new(OpenPack { reader, key });
        let mut packs = self.open_packs();
        if packs.len() >= OPEN_PACKS {
            // Which one goes hardly matters: opening a pack costs two system calls.
            let victim = packs.keys().next().copied();
            victim.and_then(|victim| packs.remove(&victim));
        }
        packs.insert(no, pack.clone());
        Ok(pack)
    }

    /// The key that opens a pack's objects.
    pub(crate) fn key_of(&self, reader: &PackReader, id: &PackId) -> Result<Option<PackKey>> {
        match (&self.keys, reader.header().epoch) {
            (_, None) => Ok(None),
            (None, Some(_)) => {
                Err(StoreError::damaged("pack", reader.place(), "is sealed, but the store is not encrypted"))
            }
            (Some(keys), Some(epoch)) => match keys.pack_key(reader.header())? {
                None => Err(StoreError::KeyErased { pack: *id, epoch }),
                key => Ok(key),
            },
        }
    }

    /// Closes a pack whose file is about to go.
    pub(crate) fn close_pack(&self, no: PackNo) {
        self.open_packs().remove(&no);
    }

    fn open_packs(&self) -> std::sync::MutexGuard<'_, HashMap<PackNo, Arc<OpenPack>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what opens the store. No pack is touched: packs are sealed under keys that the keyring wraps.
    pub fn rotate_keys(&self, encryption: &Encryption) -> Result<u64> {
        let keys =
            self.keys.as_ref().ok_or_else(|| StoreError::NotEncrypted { path: self.root().to_path_buf() })?;
        keys.rotate(&encryption.unlocks, encryption.cost)?;
        Ok(keys.generation())
    }
}

pub(crate) fn open_keys(layout: &Layout, format: &Format, options: &OpenOptions) -> Result<Option<Keys>> {
    match (format.encrypted, &options.unlock) {
        (false, _) => Ok(None),
        (true, None) => Err(StoreError::KeyNeeded { path: layout.root().to_path_buf() }),
        (true, Some(unlock)) => Keys::open(layout, options.disk.clone(), unlock).map(Some),
    }
}

fn local_packs(root: &Path, options: &OpenOptions) -> Arc<dyn Packs> {
    Arc::new(LocalPacks::new(Layout::new(root), options.disk.clone()))
}

/// Whether there is such a file. That it cannot be told is an error: a store must not be made where there is one.
fn is_there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(StoreError::io("look for", path))
}
