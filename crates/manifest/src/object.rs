//! The envelope of every manifest object: a header of fixed width, then a body of canonical JSON.
//!
//! ```text
//! 0   magic     "IJMF"
//! 4   type      u16   the object's kind: 32 tree, 33 snapshot, 34 commit, 35 grafts
//! 6   version   u16   of the body's format
//! 8   flags     u16   0; a reader refuses flags that it does not know
//! 10  length    u32   of the body, which ends with the object
//! 14  body
//! ```
//!
//! Numbers are little-endian. Type, version and length can be told without parsing the body, and are checked before. The
//! version rises only when old readers would misread the body: a new field or section doesn't need that.

use cas_core::{Kind, ObjectId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commit::Commit;
use crate::error::{ManifestError, ReadError, Result};
use crate::history::Grafts;
use crate::{COMMIT, GRAFTS, SNAPSHOT, TREE, canonical, reference};

/// The version that is written, and the highest that is read.
pub const FORMAT_VERSION: u16 = 1;

/// Bytes before the body.
pub const HEADER_LEN: usize = 14;

const MAGIC: [u8; 4] = *b"IJMF";

/// Where manifest objects come from. The store is one; a test's map is another.
pub trait ObjectSource {
    /// Why an object could not be loaded.
    type Error;

    /// The content of an object, checked against its id.
    fn load(&self, kind: Kind, id: &ObjectId) -> Result<Vec<u8>, Self::Error>;

    /// What was forgotten, for those who follow history.
    fn grafts(&self) -> Option<&Grafts> {
        None
    }

    /// A commit with the parents that are left. A source that has it at hand need not load it.
    fn commit(&self, id: &ObjectId) -> Result<Commit, ReadError<Self::Error>>
    where
        Self: Sized,
    {
        let mut commit = Commit::load(self, id)?;
        if let Some(grafts) = self.grafts() {
            commit.parents = grafts.parents(&commit.parents);
        }
        Ok(commit)
    }
}

/// Where manifest objects go.
pub trait ObjectSink {
    /// Why an object could not be saved.
    type Error;

    /// Keeps the object and says what its id is.
    fn save(&self, kind: Kind, content: Vec<u8>) -> Result<ObjectId, Self::Error>;
}

impl<S: ObjectSource + ?Sized> ObjectSource for &S {
    type Error = S::Error;

    fn load(&self, kind: Kind, id: &ObjectId) -> Result<Vec<u8>, S::Error> {
        (**self).load(kind, id)
    }

    fn grafts(&self) -> Option<&Grafts> {
        (**self).grafts()
    }
}

impl<S: ObjectSink + ?Sized> ObjectSink for &S {
    type Error = S::Error;

    fn save(&self, kind: Kind, content: Vec<u8>) -> Result<ObjectId, S::Error> {
        (**self).save(kind, content)
    }
}

/// What the first bytes of a manifest object say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Which object it is.
    pub kind: Kind,
    /// The body's format.
    pub version: u16,
    /// How long the body is.
    pub body_len: u32,
}

impl Header {
    /// Reads the header. Objects of a newer version and objects with unknown flags are refused here, whatever follows.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let not_ours = |detail: &str| ManifestError::NotAManifest { detail: detail.to_owned() };
        let header =
            bytes.first_chunk::<HEADER_LEN>().ok_or_else(|| not_ours("it is shorter than a header"))?;
        let [m0, m1, m2, m3, t0, t1, v0, v1, f0, f1, l0, l1, l2, l3] = *header;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(not_ours("it starts with other bytes"));
        }
        let kind = u16::from_le_bytes([t0, t1]);
        let kind = u8::try_from(kind)
            .map(Kind)
            .map_err(|_| ManifestError::UnknownKind { kind: kind.to_string() })?;
        let what = name_of(kind).ok_or_else(|| ManifestError::unknown_kind(kind))?;
        let version = u16::from_le_bytes([v0, v1]);
        if version > FORMAT_VERSION {
            return Err(ManifestError::TooNew {
                what: what.to_owned(),
                found: version.into(),
                supported: FORMAT_VERSION.into(),
            });
        }
        if version == 0 {
            return Err(ManifestError::malformed(what, "there is no format version 0"));
        }
        let flags = u16::from_le_bytes([f0, f1]);
        if flags != 0 {
            return Err(ManifestError::UnknownFlags { what: what.to_owned(), flags });
        }
        Ok(Self { kind, version, body_len: u32::from_le_bytes([l0, l1, l2, l3]) })
    }
}

/// What people call a kind of manifest object.
pub(crate) const fn name_of(kind: Kind) -> Option<&'static str> {
    match kind {
        TREE => Some("tree"),
        SNAPSHOT => Some("snapshot"),
        COMMIT => Some("commit"),
        GRAFTS => Some("grafts"),
        _ => None,
    }
}

/// How long a body of this kind may be. A directory of 200,000 files fits; a body of another kind that needs more is
/// either an attack or belongs into a blob. What was forgotten is one list.
const fn limit_of(kind: Kind) -> usize {
    match kind {
        TREE | GRAFTS => 64 << 20,
        _ => 1 << 20,
    }
}

/// The body of an object that should be a `kind`, with everything checked that can be without parsing.
pub(crate) fn body(kind: Kind, bytes: &[u8]) -> Result<&[u8]> {
    let what = name_of(kind).ok_or_else(|| ManifestError::unknown_kind(kind))?;
    let header = Header::read(bytes)?;
    if header.kind != kind {
        let found = name_of(header.kind).unwrap_or("object of another kind");
        return Err(ManifestError::WrongType { expected: what.to_owned(), found: found.to_owned() });
    }
    let body = bytes.get(HEADER_LEN..).unwrap_or_default();
    check_len(kind, what, body.len())?;
    if usize::try_from(header.body_len) != Ok(body.len()) {
        let detail = format!("the header promises {} bytes, there are {}", header.body_len, body.len());
        return Err(ManifestError::malformed(what, detail));
    }
    Ok(body)
}

fn check_len(kind: Kind, what: &str, len: usize) -> Result<()> {
    let limit = limit_of(kind);
    if len > limit { Err(ManifestError::TooLarge { what: what.to_owned(), len, limit }) } else { Ok(()) }
}

/// An object with a header and a canonical body: [`Tree`](crate::Tree), [`Snapshot`](crate::Snapshot),
/// [`Commit`].
pub trait ManifestObject: Serialize + DeserializeOwned {
    /// Its kind.
    const KIND: Kind;

    /// What the types alone do not ensure, as a clause for an error message.
    fn check(&self) -> Result<(), String>;

    /// What people call it.
    fn type_name() -> &'static str {
        name_of(Self::KIND).unwrap_or("object")
    }

    /// The object's bytes. Equal values give equal bytes.
    fn encode(&self) -> Result<Vec<u8>> {
        let what = Self::type_name();
        self.check().map_err(|detail| ManifestError::invalid(what, detail))?;
        let value: Value =
            serde_json::to_value(self).map_err(|error| ManifestError::invalid(what, error.to_string()))?;
        // Free-form attributes could hold what looks like a reference of an unknown kind: nobody could walk it later.
        reference::find(&value).map_err(|error| ManifestError::invalid(what, error.to_string()))?;
        let mut out = vec![0; HEADER_LEN];
        canonical::write(&value, &mut out).map_err(|detail| ManifestError::invalid(what, detail))?;
        let len = out.len() - HEADER_LEN;
        check_len(Self::KIND, what, len)?;
        let len = u32::try_from(len).map_err(|error| ManifestError::invalid(what, error.to_string()))?;
        let header = [
            &MAGIC[..],
            &u16::from(Self::KIND.0).to_le_bytes(),
            &FORMAT_VERSION.to_le_bytes(),
            &[0, 0],
            &len.to_le_bytes(),
        ];
        out[..HEADER_LEN].copy_from_slice(&header.concat());
        Ok(out)
    }

    /// The object that has these bytes. What [`encode`](Self::encode) would have written differently is refused.
    fn decode(bytes: &[u8]) -> Result<Self> {
        let what = Self::type_name();
        let body = body(Self::KIND, bytes)?;
        let object: Self = serde_json::from_slice(body)
            .map_err(|error| ManifestError::malformed(what, error.to_string()))?;
        let again = object.encode().map_err(|error| match error {
            ManifestError::Invalid { detail, .. } => ManifestError::malformed(what, detail),
            other => other,
        })?;
        // One value must not have two ids. This also finds keys that occur twice, white space and explicit nulls.
        if again != bytes {
            return Err(ManifestError::malformed(what, "it is not written in the canonical form"));
        }
        Ok(object)
    }

    /// Loads and decodes.
    fn load<S: ObjectSource>(source: &S, id: &ObjectId) -> Result<Self, ReadError<S::Error>> {
        let what = Self::type_name();
        let bytes =
            source.load(Self::KIND, id).map_err(|source| ReadError::Source { what, id: *id, source })?;
        Self::decode(&bytes).map_err(|source| ReadError::Object { what, id: *id, source })
    }

    /// Encodes and saves.
    fn save<S: ObjectSink>(&self, sink: &S) -> Result<ObjectId, SaveError<S::Error>> {
        sink.save(Self::KIND, self.encode()?).map_err(SaveError::Sink)
    }
}

/// Saving an object failed: it has no encoding, or the store could not take it.
#[derive(Debug, thiserror::Error)]
pub enum SaveError<E> {
    /// It has no encoding.
    #[error(transparent)]
    Object(#[from] ManifestError),
    /// The store's own error.
    #[error("cannot save the object")]
    Sink(#[source] E),
}
