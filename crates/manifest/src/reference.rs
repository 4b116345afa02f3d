//! References from manifest objects to others.
//!
//! A reference always has the same shape, wherever it is: a JSON object with the members `id` (64 hex digits) and `kind`.
//! So [`references`] need not know the field or the section that it is in. This is what keeps an old program's garbage
//! collection from deleting what a newer program refers to. A `kind` that is not known stops it: guessing how to walk on
//! would lose everything below.

use cas_core::{Kind, ObjectId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::error::{ManifestError, Result};
use crate::{COMMIT, GRAFTS, SNAPSHOT, TREE, canonical, object, wire};

/// What a reference points at, and so how to walk on from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// Content of a file: one chunk, or a list of chunks.
    Blob {
        /// `Kind::CHUNK` or `Kind::CHUNK_LIST`.
        kind: Kind,
    },
    /// An address space: the root node of an extent map, `Kind::MAP_NODE`.
    Memory,
    /// A manifest object; [`references`] says what it points at.
    Object(Kind),
}

impl Target {
    /// The kind of the object that the id names.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Blob { kind } | Self::Object(kind) => kind,
            Self::Memory => Kind::MAP_NODE,
        }
    }

    /// The value of `kind` in JSON.
    pub(crate) fn wire_name(self) -> Option<String> {
        Some(match self {
            Self::Blob { kind: Kind::CHUNK } => "chunk".to_owned(),
            Self::Blob { kind: Kind::CHUNK_LIST } => "chunk-list".to_owned(),
            Self::Blob { .. } => return None,
            Self::Memory => "memory".to_owned(),
            Self::Object(kind) if kind.0 < Kind::FIRST_OPAQUE => return None,
            Self::Object(kind) => match object::name_of(kind) {
                Some(name) => name.to_owned(),
                None => format!("object-{}", kind.0),
            },
        })
    }

    /// The inverse of `wire_name`.
    pub(crate) fn from_wire_name(name: &str) -> Option<Self> {
        let target = match name {
            "chunk" => Self::Blob { kind: Kind::CHUNK },
            "chunk-list" => Self::Blob { kind: Kind::CHUNK_LIST },
            "memory" => Self::Memory,
            "tree" => Self::Object(TREE),
            "snapshot" => Self::Object(SNAPSHOT),
            "commit" => Self::Object(COMMIT),
            "grafts" => Self::Object(GRAFTS),
            _ => Self::Object(Kind(name.strip_prefix("object-")?.parse().ok()?)),
        };
        // "object-034" and "object-34" would be further spellings of "commit".
        (target.wire_name().as_deref() == Some(name)).then_some(target)
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.wire_name().ok_or_else(|| {
            serde::ser::Error::custom(format!("a reference cannot have object kind {}", self.kind().0))
        })?;
        serializer.serialize_str(&name)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::from_wire_name(&name)
            .ok_or_else(|| D::Error::custom(format!("`{name}` is not a kind of reference that we know")))
    }
}

/// One object that another one points at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reference {
    /// Which object.
    pub id: ObjectId,
    /// What it is.
    pub target: Target,
}

/// Stored content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlobRef {
    /// The chunk or the list of chunks.
    pub id: ObjectId,
    /// `Kind::CHUNK` or `Kind::CHUNK_LIST`; nothing else can be written.
    pub kind: Kind,
    /// Length of the content in bytes.
    pub len: u64,
}

/// Stored memory of an address space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MapRef {
    /// The root of its extent map, always a `Kind::MAP_NODE`.
    pub id: ObjectId,
    /// How many pages it maps.
    pub pages: u64,
}

/// A reference as it is in JSON, with every member that one of ours can have.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRef {
    #[serde(with = "wire::id")]
    id: ObjectId,
    kind: Target,
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    pages: Option<u64>,
}

impl Serialize for BlobRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireRef { id: self.id, kind: Target::Blob { kind: self.kind }, bytes: Some(self.len), pages: None }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BlobRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match WireRef::deserialize(deserializer)? {
            WireRef { id, kind: Target::Blob { kind }, bytes: Some(len), pages: None } => {
                Ok(Self { id, kind, len })
            }
            _ => Err(D::Error::custom("a blob has the kind `chunk` or `chunk-list` and a number of bytes")),
        }
    }
}

impl Serialize for MapRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireRef { id: self.id, kind: Target::Memory, bytes: None, pages: Some(self.pages) }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MapRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match WireRef::deserialize(deserializer)? {
            WireRef { id, kind: Target::Memory, bytes: None, pages: Some(pages) } => Ok(Self { id, pages }),
            _ => Err(D::Error::custom("memory has the kind `memory` and a number of pages")),
        }
    }
}

/// An id in a field that always points at manifest objects of one kind.
#[derive(Clone, Copy)]
pub(crate) struct ObjectRef<const KIND: u8>(pub(crate) ObjectId);

impl<const KIND: u8> Serialize for ObjectRef<KIND> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireRef { id: self.0, kind: Target::Object(Kind(KIND)), bytes: None, pages: None }
            .serialize(serializer)
    }
}

impl<'de, const KIND: u8> Deserialize<'de> for ObjectRef<KIND> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match WireRef::deserialize(deserializer)? {
            WireRef { id, kind: Target::Object(Kind(kind)), bytes: None, pages: None } if kind == KIND => {
                Ok(Self(id))
            }
            _ => Err(D::Error::custom(format!(
                "expected a reference to a {}",
                object::name_of(Kind(KIND)).unwrap_or("manifest object")
            ))),
        }
    }
}

/// Every object that a manifest object points at, in the order of their appearance, with repetitions.
///
/// This works on fields and sections that this version does not know. It fails, and a garbage collection must then stop,
/// if `kind` is not one of ours, if the object has a newer format version, or if a reference has an unknown kind.
pub fn references(kind: Kind, bytes: &[u8]) -> Result<Vec<Reference>> {
    let body = object::body(kind, bytes)?;
    let what = object::name_of(kind).unwrap_or("object");
    let value: Value =
        serde_json::from_slice(body).map_err(|error| ManifestError::malformed(what, error.to_string()))?;
    // A key that occurs twice would hide the first one's references. Canonical text has none.
    let mut again = Vec::with_capacity(body.len());
    canonical::write(&value, &mut again).map_err(|detail| ManifestError::malformed(what, detail))?;
    if again != body {
        return Err(ManifestError::malformed(what, "it is not written in the canonical form"));
    }
    find(&value)
}

/// The references in a JSON value.
pub(crate) fn find(value: &Value) -> Result<Vec<Reference>> {
    let mut found = Vec::new();
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items.iter().rev()),
            Value::Object(members) => {
                let text = |key| members.get(key).and_then(Value::as_str);
                if let (Some(Ok(id)), Some(kind)) = (text("id").map(str::parse::<ObjectId>), text("kind")) {
                    let target = Target::from_wire_name(kind).ok_or_else(|| ManifestError::UnknownKind {
                        kind: format!("`{}`", kind.escape_debug()),
                    })?;
                    found.push(Reference { id, target });
                }
                let mut inner: Vec<_> = members.iter().collect();
                inner.sort_unstable_by(|(one, _), (other, _)| other.as_bytes().cmp(one.as_bytes()));
                rest.extend(inner.into_iter().map(|(_, value)| value));
            }
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn id(byte: u8) -> ObjectId {
        ObjectId::from_bytes([byte; 32])
    }

    #[test]
    fn every_kind_has_one_name() {
        for target in [
            Target::Blob { kind: Kind::CHUNK },
            Target::Blob { kind: Kind::CHUNK_LIST },
            Target::Memory,
            Target::Object(TREE),
            Target::Object(SNAPSHOT),
            Target::Object(COMMIT),
            Target::Object(GRAFTS),
            Target::Object(Kind(36)),
            Target::Object(Kind(255)),
        ] {
            assert_eq!(Target::from_wire_name(&target.wire_name().unwrap()), Some(target));
        }
        for name in ["object-34", "object-35", "object-036", "object-5", "object-256", "pages", ""] {
            assert_eq!(Target::from_wire_name(name), None, "{name}");
        }
        assert_eq!(Target::Blob { kind: Kind::PAGES }.wire_name(), None);
        assert_eq!(Target::Object(Kind::CHUNK).wire_name(), None);
    }

    #[test]
    fn a_blob_is_a_chunk_or_a_list() {
        let blob = BlobRef { id: id(1), kind: Kind::CHUNK_LIST, len: u64::MAX };
        let text = json!({ "id": id(1).to_string(), "kind": "chunk-list", "bytes": u64::MAX.to_string() });
        assert_eq!(serde_json::to_value(blob).unwrap(), text);
        assert_eq!(serde_json::from_value::<BlobRef>(text).unwrap(), blob);
        serde_json::to_value(BlobRef { kind: Kind::PAGES, ..blob }).unwrap_err();
        for wrong in [
            json!({ "kind": "tree", "bytes": 1 }),
            json!({ "kind": "chunk" }),
            json!({ "kind": "memory", "pages": 1 }),
        ] {
            let mut wrong = wrong;
            wrong["id"] = id(1).to_string().into();
            assert!(serde_json::from_value::<BlobRef>(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn references_are_found_wherever_they_are() {
        let refer = |byte, kind: &str| json!({ "id": id(byte).to_string(), "kind": kind, "more": 1 });
        let mut outer = refer(1, "object-77");
        outer["z"] = json!([refer(3, "chunk"), { "deep": refer(4, "tree") }]);
        outer["a"] = refer(2, "memory");
        let found = find(&json!({ "x": outer, "y": { "id": "cell-7", "kind": "code" } })).unwrap();
        assert_eq!(
            found,
            [
                Reference { id: id(1), target: Target::Object(Kind(77)) },
                Reference { id: id(2), target: Target::Memory },
                Reference { id: id(3), target: Target::Blob { kind: Kind::CHUNK } },
                Reference { id: id(4), target: Target::Object(TREE) },
            ]
        );
    }

    #[test]
    fn an_unknown_kind_of_reference_is_an_error() {
        let value = json!([{ "id": id(1).to_string(), "kind": "hologram" }]);
        let error = find(&value).unwrap_err();
        assert_eq!((error.code(), error.hint()), ("IJ-M007", Some("use a newer infinijup")));
        assert!(error.to_string().contains("hologram"));
    }
}
