//! A snapshot: a list of named sections, each made by one part of the system.
//!
//! A section is the same for everyone who does not know its name: a version, attributes, and *roots*, the objects that hold
//! its bytes. So `show` can list it and garbage collection can keep it without knowing what it means. Those who know the
//! name read it through a typed view ([`TypedSection`]; the known ones are in this module).

mod archive;
mod gpu;
mod sections;

pub use archive::{ArchiveFacts, ArchiveSection};
pub use gpu::{DeviceMemory, GpuProcess, GpuSection};
pub use sections::{
    AddressSpace, CriuSection, HostSection, LabelSection, MemorySection, NotCaptured, NotebookSection,
    OutsideSection, VariablesSection, WorkspacePolicy, WorkspaceSection,
};

use std::collections::BTreeMap;

use cas_core::{Kind, ObjectId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SNAPSHOT;
use crate::error::{ManifestError, Result};
use crate::object::ManifestObject;
use crate::reference::{BlobRef, MapRef, Target};
use crate::wire::{self, Extra};

/// Everything that one snapshot consists of.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    sections: Vec<Section>,
    #[serde(flatten)]
    extra: Extra,
}

/// One part of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Section {
    /// Who reads it: `criu`, `memory`, `gpu` …
    pub name: String,
    /// Of the meaning of attributes and roots.
    pub version: u32,
    /// Facts.
    pub attributes: BTreeMap<String, Value>,
    /// Objects, sorted by name.
    pub roots: Vec<Root>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An object that belongs to a section.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "WireRoot", into = "WireRoot")]
pub struct Root {
    /// Its name within the section.
    pub name: String,
    /// The object.
    pub target: RootTarget,
    /// How many bytes it stands for when restored. Of a blob, its length.
    pub bytes: u64,
    /// Fields of a newer version.
    pub extra: Extra,
}

/// What a root points at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RootTarget {
    /// Content of a file.
    Blob(BlobRef),
    /// An address space.
    Memory(MapRef),
    /// A directory.
    Tree(ObjectId),
    /// Another manifest object.
    Object(Kind, ObjectId),
}

impl Root {
    /// Content of a file.
    pub fn blob(name: impl Into<String>, blob: BlobRef) -> Self {
        Self { name: name.into(), target: RootTarget::Blob(blob), bytes: blob.len, extra: Extra::default() }
    }

    /// An address space of so many bytes.
    pub fn memory(name: impl Into<String>, map: MapRef, bytes: u64) -> Self {
        Self { name: name.into(), target: RootTarget::Memory(map), bytes, extra: Extra::default() }
    }

    /// A directory that has, with everything below, so many bytes.
    pub fn tree(name: impl Into<String>, tree: ObjectId, bytes: u64) -> Self {
        Self { name: name.into(), target: RootTarget::Tree(tree), bytes, extra: Extra::default() }
    }

    /// The object's id.
    pub const fn id(&self) -> &ObjectId {
        match &self.target {
            RootTarget::Blob(BlobRef { id, .. }) | RootTarget::Memory(MapRef { id, .. }) => id,
            RootTarget::Tree(id) | RootTarget::Object(_, id) => id,
        }
    }
}

impl Section {
    /// The root with this name.
    pub fn root(&self, name: &str) -> Option<&Root> {
        let at = self.roots.binary_search_by(|root| root.name.as_str().cmp(name)).ok()?;
        self.roots.get(at)
    }

    /// How many bytes its roots stand for.
    pub fn bytes(&self) -> u64 {
        self.roots.iter().fold(0, |sum, root| sum.saturating_add(root.bytes))
    }

    fn check(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("a section has no name".to_owned());
        }
        if self.roots.windows(2).any(|pair| matches!(pair, [one, other] if one.name >= other.name)) {
            return Err(format!(
                "the roots of section `{}` are not sorted, or one is there twice",
                self.name
            ));
        }
        match self
            .roots
            .iter()
            .find(|root| matches!(root.target, RootTarget::Blob(blob) if blob.len != root.bytes))
        {
            Some(root) => Err(format!("root `{}` of section `{}` has two lengths", root.name, self.name)),
            None => Ok(()),
        }
    }
}

/// A section whose meaning is known.
pub trait TypedSection: Sized {
    /// The section's name.
    const NAME: &str;
    /// The version that is written, and the highest that is read.
    const VERSION: u32;

    /// The section for a snapshot.
    fn to_section(&self) -> Result<Section>;

    /// The meaning of a section that has our name and a version that we know.
    fn read(section: &Section) -> Result<Self>;

    /// The meaning of a section, after a look at its name and version.
    fn from_section(section: &Section) -> Result<Self> {
        let what = || format!("section `{}`", section.name);
        if section.name != Self::NAME {
            return Err(ManifestError::WrongType {
                expected: format!("section `{}`", Self::NAME),
                found: what(),
            });
        }
        if section.version > Self::VERSION {
            return Err(ManifestError::TooNew {
                what: what(),
                found: section.version,
                supported: Self::VERSION,
            });
        }
        Self::read(section)
    }
}

impl Snapshot {
    /// A snapshot with these sections, in any order; sections and their roots are sorted by name.
    pub fn new(mut sections: Vec<Section>) -> Result<Self> {
        for section in &mut sections {
            section.roots.sort_by(|one, other| one.name.cmp(&other.name));
        }
        sections.sort_by(|one, other| one.name.cmp(&other.name));
        let snapshot = Self { sections, extra: Extra::default() };
        snapshot.check().map_err(|detail| ManifestError::invalid("snapshot", detail))?;
        Ok(snapshot)
    }

    /// The sections, sorted by name.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The section with this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The section of this type, if there is one.
    pub fn get<T: TypedSection>(&self) -> Result<Option<T>> {
        self.section(T::NAME).map(T::from_section).transpose()
    }

    /// How many bytes all roots stand for.
    pub fn bytes(&self) -> u64 {
        self.sections.iter().fold(0, |sum, section| sum.saturating_add(section.bytes()))
    }

    /// Fields of a newer version.
    pub fn extra(&self) -> &Extra {
        &self.extra
    }
}

impl ManifestObject for Snapshot {
    const KIND: Kind = SNAPSHOT;

    fn check(&self) -> Result<(), String> {
        if self.sections.windows(2).any(|pair| matches!(pair, [one, other] if one.name >= other.name)) {
            return Err("sections are not sorted, or one is there twice".to_owned());
        }
        self.sections.iter().try_for_each(Section::check)
    }
}

/// A root as it is in JSON: a reference with a name.
#[derive(Serialize, Deserialize)]
struct WireRoot {
    name: String,
    #[serde(with = "wire::id")]
    id: ObjectId,
    kind: Target,
    #[serde(with = "wire::int")]
    bytes: u64,
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    pages: Option<u64>,
    #[serde(flatten)]
    extra: Extra,
}

impl From<Root> for WireRoot {
    fn from(root: Root) -> Self {
        let (kind, pages) = match root.target {
            RootTarget::Blob(blob) => (Target::Blob { kind: blob.kind }, None),
            RootTarget::Memory(map) => (Target::Memory, Some(map.pages)),
            RootTarget::Tree(_) => (Target::Object(crate::TREE), None),
            RootTarget::Object(kind, _) => (Target::Object(kind), None),
        };
        Self { id: *root.id(), name: root.name, kind, bytes: root.bytes, pages, extra: root.extra }
    }
}

impl TryFrom<WireRoot> for Root {
    type Error = String;

    fn try_from(wire: WireRoot) -> Result<Self, String> {
        let WireRoot { name, id, kind, bytes, pages, extra } = wire;
        let target = match (kind, pages) {
            (Target::Blob { kind }, None) => RootTarget::Blob(BlobRef { id, kind, len: bytes }),
            (Target::Memory, Some(pages)) => RootTarget::Memory(MapRef { id, pages }),
            (Target::Object(crate::TREE), None) => RootTarget::Tree(id),
            (Target::Object(kind), None) => RootTarget::Object(kind, id),
            _ => return Err(format!("root `{name}` has pages and is no memory, or is memory and has none")),
        };
        Ok(Self { name, target, bytes, extra })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn section(name: &str, roots: Vec<Root>) -> Section {
        Section { name: name.into(), version: 9, attributes: BTreeMap::new(), roots, extra: Extra::default() }
    }

    fn id(byte: u8) -> ObjectId {
        ObjectId::from_bytes([byte; 32])
    }

    #[test]
    fn order_of_making_does_not_matter() {
        let roots = vec![Root::tree("b", id(1), 2), Root::memory("a", MapRef { id: id(2), pages: 1 }, 4096)];
        let mut reversed = roots.clone();
        reversed.reverse();
        let one = Snapshot::new(vec![section("x", roots), section("a", vec![])]).unwrap();
        let other = Snapshot::new(vec![section("a", vec![]), section("x", reversed)]).unwrap();
        assert_eq!(one.encode().unwrap(), other.encode().unwrap());
        assert_eq!(one.section("x").unwrap().root("b").unwrap().bytes, 2);
        assert_eq!(one.bytes(), 4098);
    }

    #[test]
    fn names_are_unique() {
        Snapshot::new(vec![section("a", vec![]), section("a", vec![])]).unwrap_err();
        Snapshot::new(vec![section("", vec![])]).unwrap_err();
        let twice = vec![Root::tree("a", id(1), 2), Root::tree("a", id(2), 2)];
        Snapshot::new(vec![section("a", twice)]).unwrap_err();
    }

    #[test]
    fn a_blob_has_one_length() {
        let mut root = Root::blob("a", BlobRef { id: id(1), kind: Kind::CHUNK, len: 5 });
        Snapshot::new(vec![section("a", vec![root.clone()])]).unwrap();
        root.bytes = 6;
        Snapshot::new(vec![section("a", vec![root])]).unwrap_err();
    }

    #[test]
    fn an_attribute_that_has_no_canonical_form_is_refused() {
        for (value, code) in [
            (json!(0.5), "IJ-M011"),
            (json!({ "deep": [u64::MAX] }), "IJ-M011"),
            (json!({ "id": id(1).to_string(), "kind": "what" }), "IJ-M011"),
        ] {
            let mut odd = section("a", vec![]);
            odd.attributes.insert("odd".into(), value.clone());
            let error = Snapshot::new(vec![odd]).unwrap().encode().unwrap_err();
            assert_eq!(error.code(), code, "{value}");
        }
    }

    #[test]
    fn a_snapshot_that_is_too_large_is_refused() {
        let mut large = section("a", vec![]);
        large.attributes.insert("x".into(), "y".repeat(1 << 20).into());
        assert_eq!(Snapshot::new(vec![large]).unwrap().encode().unwrap_err().code(), "IJ-M005");
    }
}
