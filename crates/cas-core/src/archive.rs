//! One file that carries an object and all it leads to from store to store.
//!
//! ```text
//! header   magic (8), version (2), flags (2, zero), kind of the root (1), zeros (3), id of the root (32),
//!          id domain (32): tells whether the ids of two stores are computed with the same secret
//! entry    as in a pack, not encrypted; an object comes after everything that it refers to
//! …
//! end      an entry header's length of zeros, number of objects (8), BLAKE3 of everything before (32)
//! ```
//!
//! In the same domain (plain stores are all in one) objects keep their ids, and each is compared with its content on the
//! way in. Otherwise ids are computed anew: since an object comes after all it refers to, the new ids of those are known,
//! and are put in their place. The file is not encrypted, whatever the store is: it is for moving a snapshot by hand, and
//! who writes it decides where it lies.

use std::io::{Read, Write};
use std::path::Path;

pub use crate::carry::Follow;
use crate::carry::{Renamed, Walk};
use crate::codec::{Decoder, Encoder, MAX_OBJECT};
use crate::error::{Result, StoreError};
use crate::id::{IdHasher, Kind, ObjectId};
use crate::pack::{ENTRY_LEN, Entry, stored_checksum};
use crate::progress::{Progress, Task};
use crate::reach::{Reference, References};
use crate::store::Store;
use crate::transaction::WriteTransaction;

/// How such a file begins.
pub const MAGIC: &[u8; 8] = b"IJXPORT\n";
const VERSION: u16 = 1;
const HEADER_LEN: usize = 80;

/// What an export or import moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The object that everything else belongs to. After an import: its id here.
    pub root: ObjectId,
    /// Its kind.
    pub kind: Kind,
    /// Objects in the file.
    pub objects: u64,
    /// Bytes of content.
    pub bytes: u64,
}

impl Store {
    /// Writes `root` and everything it leads to. The caller makes the file durable.
    pub fn export(
        &self,
        root: &ObjectId,
        follow: Follow,
        above: &dyn References,
        out: &mut dyn Write,
        progress: &dyn Progress,
    ) -> Result<Moved> {
        above.renew(self)?;
        let location = self.catalogue.lookup(root)?.ok_or(StoreError::MissingObject { id: *root })?;
        let mut out = Hashing { out, hasher: blake3::Hasher::new() };
        out.put(&header(location.kind, root, &domain(&self.hasher)))?;
        let moved = Moved { root: *root, kind: location.kind, objects: 0, bytes: 0 };
        let mut export = Export { encoder: Encoder::new()?, moved };
        let mut walk = Walk::new(self, follow, above)?;
        progress.begin(Task::Transfer, None);
        let written = walk.visit(Reference::strong(location.kind, *root), &mut |reference, content| {
            export.write_object(reference, content, &mut out)?;
            progress.advance(Task::Transfer, content.len() as u64);
            Ok(())
        });
        progress.end(Task::Transfer);
        written?;
        out.put(&[0; ENTRY_LEN])?;
        out.put(&export.moved.objects.to_le_bytes())?;
        let hash = out.hasher.finalize();
        out.put(hash.as_bytes())?;
        Ok(export.moved)
    }
}

struct Export {
    encoder: Encoder,
    moved: Moved,
}

impl Export {
    fn write_object(&mut self, reference: &Reference, content: &[u8], out: &mut Hashing<'_>) -> Result<()> {
        let mut stored = Vec::new();
        let codec = self.encoder.encode(content, &mut stored)?;
        let too_long = |_| StoreError::Invalid { what: format!("object {} is too long", reference.id) };
        let entry = Entry {
            id: reference.id,
            kind: reference.kind,
            codec,
            plain_len: u32::try_from(content.len()).map_err(too_long)?,
            stored_len: u32::try_from(stored.len()).map_err(too_long)?,
            checksum: stored_checksum(&stored),
        };
        out.put(&entry.encode())?;
        out.put(&stored)?;
        self.moved.objects += 1;
        self.moved.bytes += content.len() as u64;
        Ok(())
    }
}

struct Hashing<'a> {
    out: &'a mut dyn Write,
    hasher: blake3::Hasher,
}

impl Hashing<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes).map_err(StoreError::io("write", "the export file"))
    }
}

impl WriteTransaction {
    /// Reads an export. The objects are durable after the next flush or commit; nothing should be committed if this fails.
    /// `path` is for messages.
    pub fn import(
        &self,
        path: &Path,
        input: &mut dyn Read,
        above: &dyn References,
        progress: &dyn Progress,
    ) -> Result<Moved> {
        progress.begin(Task::Transfer, None);
        let mut import = Import {
            transaction: self,
            path,
            input,
            hasher: blake3::Hasher::new(),
            above,
            decoder: Decoder::new()?,
            renamed: Renamed::default(),
            same_domain: true,
        };
        let result = import.run(progress);
        progress.end(Task::Transfer);
        result
    }
}

struct Import<'a> {
    transaction: &'a WriteTransaction,
    path: &'a Path,
    input: &'a mut dyn Read,
    hasher: blake3::Hasher,
    above: &'a dyn References,
    decoder: Decoder,
    renamed: Renamed,
    same_domain: bool,
}

impl Import<'_> {
    fn run(&mut self, progress: &dyn Progress) -> Result<Moved> {
        let mut head = [0; HEADER_LEN];
        self.take(&mut head)?;
        let (kind, root, theirs) = parse_header(&head).map_err(|detail| self.damaged(detail))?;
        self.same_domain = theirs == domain(&self.transaction.store().hasher);
        let mut moved = Moved { root, kind, objects: 0, bytes: 0 };
        loop {
            let mut bytes = [0; ENTRY_LEN];
            self.take(&mut bytes)?;
            if bytes == [0; ENTRY_LEN] {
                break;
            }
            let entry = Entry::parse(&bytes).map_err(|detail| self.damaged(detail))?;
            let len = self.object(&entry)?;
            moved.objects += 1;
            moved.bytes += len;
            progress.advance(Task::Transfer, len);
        }
        let mut count = [0; 8];
        self.take(&mut count)?;
        let expected = self.hasher.finalize();
        let mut hash = [0; 32];
        self.take(&mut hash)?;
        if u64::from_le_bytes(count) != moved.objects || expected != hash {
            return Err(self.damaged("does not fit the hash at its end".into()));
        }
        let renamed = self.renamed.now(&root);
        moved.root =
            renamed.ok_or_else(|| self.damaged("does not contain what it says it is about".into()))?;
        Ok(moved)
    }

    fn object(&mut self, entry: &Entry) -> Result<u64> {
        // `Entry::parse` has bounded the lengths.
        let mut stored = vec![0; entry.stored_len as usize];
        self.take(&mut stored)?;
        if stored_checksum(&stored) != entry.checksum {
            return Err(self.damaged(format!("object {} does not fit its checksum", entry.id.short())));
        }
        let mut content = vec![0; (entry.plain_len as usize).min(MAX_OBJECT)];
        self.decoder.decode(entry.codec, &stored, &mut content).map_err(|detail| self.damaged(detail))?;
        let put = self.renamed.put_in(entry.kind, &mut content, self.above);
        put.map_err(|detail| self.damaged(detail))?;
        let len = content.len() as u64;
        let id = self.transaction.put(entry.kind, content)?;
        if self.same_domain && id != entry.id {
            return Err(self.damaged(format!("object {} does not fit its id", entry.id.short())));
        }
        self.above.imported(entry.kind, &id);
        self.renamed.insert(entry.id, id);
        Ok(len)
    }

    fn take(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.input.read_exact(buffer).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged("ends too early".into()),
            _ => StoreError::io("read", self.path)(error),
        })?;
        self.hasher.update(buffer);
        Ok(())
    }

    fn damaged(&self, detail: String) -> StoreError {
        StoreError::damaged("export file", self.path, detail)
    }
}

/// The same for two stores if they compute ids alike, and nothing else about their secret.
pub fn domain(hasher: &IdHasher) -> [u8; 32] {
    *hasher.id(Kind(0), b"id domain").as_bytes()
}

fn header(kind: Kind, root: &ObjectId, domain: &[u8; 32]) -> [u8; HEADER_LEN] {
    let mut out = [0; HEADER_LEN];
    out[..8].copy_from_slice(MAGIC);
    out[8..10].copy_from_slice(&VERSION.to_le_bytes());
    out[12] = kind.0;
    out[16..48].copy_from_slice(root.as_bytes());
    out[48..].copy_from_slice(domain);
    out
}

fn parse_header(bytes: &[u8; HEADER_LEN]) -> Result<(Kind, ObjectId, [u8; 32]), String> {
    if &bytes[..8] != MAGIC {
        return Err("is not an export".to_owned());
    }
    let version = u16::from_le_bytes([bytes[8], bytes[9]]);
    if version != VERSION {
        return Err(format!("has export version {version}, this program reads version {VERSION}"));
    }
    let (mut root, mut domain) = ([0; 32], [0; 32]);
    root.copy_from_slice(&bytes[16..48]);
    domain.copy_from_slice(&bytes[48..]);
    Ok((Kind(bytes[12]), ObjectId::from_bytes(root), domain))
}
