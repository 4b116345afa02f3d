//! The sections that this version knows, as types.
//!
//! A typed view is for reading, and for making a section in the first place. It does not keep what a newer version added;
//! the [`Section`] does.

use std::collections::BTreeMap;

use cas_core::ObjectId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Root, RootTarget, Section, TypedSection};
use crate::error::{ManifestError, Result};
use crate::host::HostFingerprint;
use crate::reference::{BlobRef, MapRef};
use crate::wire::{ByteText, Extra};

pub(super) fn section<T: TypedSection>(attributes: impl Serialize, mut roots: Vec<Root>) -> Result<Section> {
    let what = || format!("section `{}`", T::NAME);
    let value = serde_json::to_value(attributes)
        .map_err(|error| ManifestError::invalid(what(), error.to_string()))?;
    let Value::Object(members) = value else {
        return Err(ManifestError::invalid(what(), "its attributes are not an object"));
    };
    roots.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Section {
        name: T::NAME.to_owned(),
        version: T::VERSION,
        attributes: members.into_iter().collect(),
        roots,
        extra: Extra::default(),
    })
}

pub(super) fn attributes<T: DeserializeOwned>(section: &Section) -> Result<T> {
    let members = section.attributes.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    serde_json::from_value(Value::Object(members)).map_err(|error| fault(section, error.to_string()))
}

pub(super) fn fault(section: &Section, detail: impl Into<String>) -> ManifestError {
    ManifestError::malformed(format!("section `{}`", section.name), detail)
}

pub(super) fn blob(section: &Section, root: &Root) -> Result<BlobRef> {
    match root.target {
        RootTarget::Blob(blob) => Ok(blob),
        _ => Err(fault(section, format!("root `{}` is not a blob", root.name))),
    }
}

fn tree(section: &Section) -> Result<Option<(ObjectId, u64)>> {
    match section.root("tree") {
        None => Ok(None),
        Some(Root { target: RootTarget::Tree(id), bytes, .. }) => Ok(Some((*id, *bytes))),
        Some(_) => Err(fault(section, "root `tree` is not a tree")),
    }
}

/// `memory`: the contents of address spaces.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MemorySection {
    /// One per process, shared memory object or GPU; names are unique.
    pub spaces: Vec<AddressSpace>,
}

/// One address space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressSpace {
    /// `pid:1`, `shm:…` or `gpu:<pid>:<uuid>`.
    pub name: String,
    /// Its pages.
    pub map: MapRef,
    /// How many bytes it has when restored.
    pub bytes: u64,
}

impl TypedSection for MemorySection {
    const NAME: &str = "memory";
    const VERSION: u32 = 1;

    fn to_section(&self) -> Result<Section> {
        let roots = self.spaces.iter().map(|space| Root::memory(&space.name, space.map, space.bytes));
        section::<Self>(BTreeMap::<String, Value>::new(), roots.collect())
    }

    fn read(section: &Section) -> Result<Self> {
        let space = |root: &Root| match root.target {
            RootTarget::Memory(map) => Ok(AddressSpace { name: root.name.clone(), map, bytes: root.bytes }),
            _ => Err(fault(section, format!("root `{}` is not memory", root.name))),
        };
        Ok(Self { spaces: section.roots.iter().map(space).collect::<Result<_>>()? })
    }
}

/// `criu`: CRIU's images, all but the pages.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CriuSection {
    /// Each image file by its name: `core-1.img`, `mm-1.img` …
    pub images: BTreeMap<String, BlobRef>,
}

impl TypedSection for CriuSection {
    const NAME: &str = "criu";
    const VERSION: u32 = 1;

    fn to_section(&self) -> Result<Section> {
        let roots = self.images.iter().map(|(name, image)| Root::blob(name, *image));
        section::<Self>(BTreeMap::<String, Value>::new(), roots.collect())
    }

    fn read(section: &Section) -> Result<Self> {
        let image = |root: &Root| Ok((root.name.clone(), blob(section, root)?));
        Ok(Self { images: section.roots.iter().map(image).collect::<Result<_>>()? })
    }
}

/// `workspace`: the files that belong to the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkspaceSection {
    /// What was to be captured.
    pub policy: WorkspacePolicy,
    /// The directory that the tree is of.
    pub root: ByteText,
    /// The directory's content and how many bytes it has; absent if the policy is `none`.
    pub tree: Option<(ObjectId, u64)>,
    /// What a restore will not bring back.
    pub not_captured: Vec<NotCaptured>,
    /// The files of the directory that processes had open, as paths below it: a restore fails without them as they were. `None` if nobody
    /// wrote that down.
    pub open: Option<Vec<ByteText>>,
}

/// Which files belong to a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkspacePolicy {
    /// Those that the session has open for writing.
    Open,
    /// The whole working directory.
    Tree,
    /// No file at all.
    None,
}

/// A path that is not part of the snapshot though it might have been.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NotCaptured {
    /// The path.
    pub path: ByteText,
    /// Why, for people.
    pub reason: String,
}

#[derive(Serialize, Deserialize)]
struct WorkspaceAttributes {
    policy: WorkspacePolicy,
    root: ByteText,
    not_captured: Vec<NotCaptured>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<Vec<ByteText>>,
}

impl TypedSection for WorkspaceSection {
    const NAME: &str = "workspace";
    const VERSION: u32 = 1;

    fn to_section(&self) -> Result<Section> {
        let attributes = WorkspaceAttributes {
            policy: self.policy,
            root: self.root.clone(),
            not_captured: self.not_captured.clone(),
            open: self.open.clone(),
        };
        section::<Self>(
            attributes,
            self.tree.map(|(tree, bytes)| Root::tree("tree", tree, bytes)).into_iter().collect(),
        )
    }

    fn read(section: &Section) -> Result<Self> {
        let WorkspaceAttributes { policy, root, not_captured, open } = attributes(section)?;
        let tree = tree(section)?;
        if tree.is_none() && policy != WorkspacePolicy::None {
            return Err(fault(section, "it has no root `tree`"));
        }
        Ok(Self { policy, root, tree, not_captured, open })
    }
}

/// `outside`: files that belong to the state and are not in the workspace.
///
/// The tree is one from `/`, with the directories that lead to a file, all of the volumes that were chosen, and nothing else. A file without
/// content was open for reading: a restore needs it as it was, so its size and times are here to be compared.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OutsideSection {
    /// The tree and how many bytes its files have; absent if there are none.
    pub tree: Option<(ObjectId, u64)>,
    /// What a restore will not bring back.
    pub not_captured: Vec<NotCaptured>,
    /// Directories of which everything was to be captured, by their full paths.
    pub volumes: Vec<ByteText>,
}

#[derive(Serialize, Deserialize)]
struct OutsideAttributes {
    not_captured: Vec<NotCaptured>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<ByteText>,
}

impl TypedSection for OutsideSection {
    const NAME: &str = "outside";
    const VERSION: u32 = 1;

    fn to_section(&self) -> Result<Section> {
        section::<Self>(
            OutsideAttributes { not_captured: self.not_captured.clone(), volumes: self.volumes.clone() },
            self.tree.map(|(tree, bytes)| Root::tree("tree", tree, bytes)).into_iter().collect(),
        )
    }

    fn read(section: &Section) -> Result<Self> {
        let OutsideAttributes { not_captured, volumes } = attributes(section)?;
        Ok(Self { tree: tree(section)?, not_captured, volumes })
    }
}

/// `notebook`: the document that the kernel belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotebookSection {
    /// Its path, as Jupyter gives it.
    pub path: ByteText,
    /// Its content, as it was in the editor.
    pub content: BlobRef,
    /// Name of the kernelspec.
    pub kernel_name: String,
    /// The cell that ran last, or was about to run.
    pub cell: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct NotebookAttributes {
    path: ByteText,
    kernel_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cell: Option<String>,
}

impl TypedSection for NotebookSection {
    const NAME: &str = "notebook";
    const VERSION: u32 = 1;

    fn to_section(&self) -> Result<Section> {
        let attributes = NotebookAttributes {
            path: self.path.clone(),
            kernel_name: self.kernel_name.clone(),
            cell: self.cell.clone(),
        };
        section::<Self>(attributes, vec![Root::blob("content", self.content)])
    }

    fn read(section: &Section) -> Result<Self> {
        let NotebookAttributes { path, kernel_name, cell } = attributes(section)?;
        let root = section.root("content").ok_or_else(|| fault(section, "it has no root `content`"))?;
        Ok(Self { path, content: blob(section, root)?, kernel_name, cell })
    }
}

/// `variables`: what the kernel said its variables were.
///
/// The list is a blob of JSON, not attributes: a namespace of thousands would not fit into a snapshot's body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariablesSection {
    /// An array of objects with `name`, `type`, `size` (optional) and `summary`.
    pub list: BlobRef,
    /// How many there are.
    pub count: u32,
}

#[derive(Serialize, Deserialize)]
struct VariablesAttributes {
    count: u32,
}

impl TypedSection for VariablesSection {
    const NAME: &str = "variables";
    const VERSION: u32 = 1;

    fn to_section(&self) -> Result<Section> {
        section::<Self>(VariablesAttributes { count: self.count }, vec![Root::blob("list", self.list)])
    }

    fn read(section: &Section) -> Result<Self> {
        let VariablesAttributes { count } = attributes(section)?;
        let root = section.root("list").ok_or_else(|| fault(section, "it has no root `list`"))?;
        Ok(Self { list: blob(section, root)?, count })
    }
}

/// `host`: the machine that the snapshot was taken on.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct HostSection {
    /// What must match for a restore.
    pub fingerprint: HostFingerprint,
}

impl TypedSection for HostSection {
    const NAME: &str = "host";
    const VERSION: u32 = 1;

    fn to_section(&self) -> Result<Section> {
        section::<Self>(self, Vec::new())
    }

    fn read(section: &Section) -> Result<Self> {
        attributes(section)
    }
}

/// `label`: what `%infinijup mark` said before this snapshot.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LabelSection {
    /// The label.
    pub label: String,
    /// The cell that said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// Further facts that it gave.
    pub fields: BTreeMap<String, String>,
}

impl TypedSection for LabelSection {
    const NAME: &str = "label";
    const VERSION: u32 = 1;

    fn to_section(&self) -> Result<Section> {
        section::<Self>(self, Vec::new())
    }

    fn read(section: &Section) -> Result<Self> {
        attributes(section)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ManifestObject;
    use crate::snapshot::Snapshot;
    use crate::snapshot::gpu::{DeviceMemory, GpuProcess, GpuSection};
    use cas_core::Kind;
    use std::fmt::Debug;

    fn id(byte: u8) -> ObjectId {
        ObjectId::from_bytes([byte; 32])
    }

    fn blob(byte: u8) -> BlobRef {
        BlobRef { id: id(byte), kind: Kind::CHUNK_LIST, len: 1 << 60 }
    }

    #[track_caller]
    fn through_bytes<T: TypedSection + PartialEq + Debug>(view: &T) -> Section {
        let section = view.to_section().unwrap();
        let bytes = Snapshot::new(vec![section.clone()]).unwrap().encode().unwrap();
        let again = Snapshot::decode(&bytes).unwrap();
        assert_eq!(again.get::<T>().unwrap().as_ref(), Some(view));
        let mut newer = section.clone();
        newer.version += 1;
        let newer = Snapshot::new(vec![newer]).unwrap();
        let newer = Snapshot::decode(&newer.encode().unwrap()).unwrap();
        assert_eq!(newer.get::<T>().unwrap_err().code(), "IJ-M002");
        section
    }

    #[test]
    fn known_sections_come_back_and_newer_ones_are_refused_but_listed() {
        let spaces = ["gpu:7:GPU-1", "pid:1", "shm:7"].map(|name| AddressSpace {
            name: name.into(),
            map: MapRef { id: id(9), pages: 3 },
            bytes: 3 * 4096,
        });
        through_bytes(&MemorySection { spaces: spaces.into() });
        through_bytes(&CriuSection {
            images: [("core-1.img".into(), blob(1)), ("a.img".into(), blob(2))].into(),
        });
        let gpu = GpuSection {
            processes: vec![GpuProcess {
                pid: 7,
                devices: vec!["GPU-1".into()],
                strategy: "driver".into(),
                vram_bytes: u64::MAX,
                by_device: vec![DeviceMemory { device: "GPU-1".into(), bytes: u64::MAX }],
            }],
        };
        // Only those whose device memory is beside them are closed to earlier versions.
        let (through, beside) = (gpu.to_section().unwrap(), gpu.clone().beside());
        assert_eq!((through.version, beside.to_section().unwrap().version), (1, 2));
        assert_eq!(GpuSection::from_section(&through).unwrap(), gpu);
        through_bytes(&beside);
        through_bytes(&LabelSection {
            label: "lr".into(),
            cell: Some("c".into()),
            fields: [("a".into(), "b".into())].into(),
        });
        through_bytes(&HostSection::default());
        through_bytes(&OutsideSection::default());
        through_bytes(&OutsideSection {
            tree: Some((id(5), 12)),
            not_captured: vec![NotCaptured { path: "/var/log/x".into(), reason: "permission denied".into() }],
            volumes: vec!["/data".into(), ByteText::new(*b"/n\xff")],
        });
        through_bytes(&NotebookSection {
            path: ByteText::new(*b"n\xff.ipynb"),
            content: blob(3),
            kernel_name: "python3".into(),
            cell: None,
        });
        let mut section = through_bytes(&VariablesSection { list: blob(6), count: 3 });
        section.roots.clear();
        assert_eq!(VariablesSection::from_section(&section).unwrap_err().code(), "IJ-M006");
    }

    #[test]
    fn a_workspace_has_a_tree_unless_nothing_was_to_be_captured() {
        let mut view = WorkspaceSection {
            policy: WorkspacePolicy::Open,
            root: "/home/ada".into(),
            tree: Some((id(4), 77)),
            open: None,
            not_captured: vec![NotCaptured {
                path: ByteText::new([0xfe]),
                reason: "larger than 1 GiB".into(),
            }],
        };
        let mut section = through_bytes(&view);
        section.roots.clear();
        assert!(WorkspaceSection::from_section(&section).unwrap_err().to_string().contains("no root `tree`"));
        view.policy = WorkspacePolicy::None;
        view.tree = None;
        through_bytes(&view);
    }

    #[test]
    fn a_root_of_the_wrong_type_is_refused() {
        let mut section = MemorySection::default().to_section().unwrap();
        section.roots.push(Root::tree("pid:1", id(1), 0));
        assert_eq!(MemorySection::from_section(&section).unwrap_err().code(), "IJ-M006");
        section.name = "criu".into();
        assert_eq!(CriuSection::from_section(&section).unwrap_err().code(), "IJ-M006");
        assert_eq!(GpuSection::from_section(&section).unwrap_err().code(), "IJ-M004");
    }
}
