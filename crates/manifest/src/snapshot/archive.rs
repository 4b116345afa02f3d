//! The section `archive`.

use std::collections::BTreeMap;

use cas_core::ObjectId;
use serde::{Deserialize, Serialize};

use super::sections::{attributes, blob, fault, section};
use super::{Root, RootTarget, Section, TypedSection};
use crate::error::Result;
use crate::reference::BlobRef;

/// `archive`: what came with the processes out of somebody else's checkpoint archive, as it stood there.
///
/// It is evidence, for people, and for writing the archive again. Nothing in it is ever applied to a container or a machine: a restore goes by
/// the specification that lives where it happens.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ArchiveSection {
    /// What the archive says about itself.
    pub said: ArchiveFacts,
    /// Its members by their paths, but for images and files: `config.dump`, `spec.dump` …
    pub members: BTreeMap<String, BlobRef>,
    /// A list of everything that it asks for, and never gets: JSON, objects with `what`, `place` and `text`.
    pub claims: Option<BlobRef>,
    /// Files, by the path of the member that they were in: a directory, and how many bytes its files have. A directory in it whose number of
    /// names is 0 is there only because something is in it.
    pub files: BTreeMap<String, (ObjectId, u64)>,
}

/// What an archive says about itself. Nobody has looked whether it is true.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ArchiveFacts {
    /// The engine that wrote it.
    pub engine: String,
    /// Name of the container.
    pub container: String,
    /// Its id.
    pub container_id: String,
    /// The image that it was made of.
    pub image: String,
    /// The id of that.
    pub image_id: String,
    /// The runtime that it ran with.
    pub runtime: String,
    /// What the image around it says, if it was in one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// How many things of each sort it asks for.
    pub never_applied: BTreeMap<String, u32>,
    /// What was in it and was not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

const MEMBER: &str = "member:";
const FILES: &str = "files:";
const CLAIMS: &str = "never-applied";

impl TypedSection for ArchiveSection {
    const NAME: &str = "archive";
    const VERSION: u32 = 1;

    fn to_section(&self) -> Result<Section> {
        let members = self.members.iter().map(|(path, blob)| Root::blob(format!("{MEMBER}{path}"), *blob));
        let files = self
            .files
            .iter()
            .map(|(path, (tree, bytes))| Root::tree(format!("{FILES}{path}"), *tree, *bytes));
        let claims = self.claims.iter().map(|blob| Root::blob(CLAIMS, *blob));
        section::<Self>(&self.said, members.chain(files).chain(claims).collect())
    }

    fn read(section: &Section) -> Result<Self> {
        let mut view = Self { said: attributes(section)?, ..Self::default() };
        for root in &section.roots {
            if let Some(path) = root.name.strip_prefix(MEMBER) {
                view.members.insert(path.to_owned(), blob(section, root)?);
            } else if let Some(path) = root.name.strip_prefix(FILES) {
                let RootTarget::Tree(tree) = root.target else {
                    return Err(fault(section, format!("root `{}` is not a tree", root.name)));
                };
                view.files.insert(path.to_owned(), (tree, root.bytes));
            } else if root.name == CLAIMS {
                view.claims = Some(blob(section, root)?);
            }
        }
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use cas_core::Kind;

    use super::*;
    use crate::object::ManifestObject;
    use crate::snapshot::Snapshot;

    #[test]
    fn it_comes_back_and_a_newer_one_is_refused() {
        let id = |byte| ObjectId::from_bytes([byte; 32]);
        let blob = |byte| BlobRef { id: id(byte), kind: Kind::CHUNK, len: 7 };
        let view = ArchiveSection {
            said: ArchiveFacts {
                engine: "podman".into(),
                container: "web".into(),
                container_id: "ab".repeat(32),
                never_applied: [("mount".into(), 3)].into(),
                left_out: vec!["x".into()],
                ..ArchiveFacts::default()
            },
            members: [("config.dump".into(), blob(1)), ("spec.dump".into(), blob(2))].into(),
            claims: Some(blob(3)),
            files: [("rootfs-diff.tar".into(), (id(4), 9))].into(),
        };
        let section = view.to_section().unwrap();
        let bytes = Snapshot::new(vec![section.clone()]).unwrap().encode().unwrap();
        let again = Snapshot::decode(&bytes).unwrap();
        assert_eq!(again.get::<ArchiveSection>().unwrap().unwrap(), view);
        let newer = Section { version: 2, ..section.clone() };
        assert_eq!(ArchiveSection::from_section(&newer).unwrap_err().code(), "IJ-M002");
        let mut odd = section;
        odd.roots.iter_mut().find(|root| root.name == "member:spec.dump").unwrap().name = "files:x".into();
        assert_eq!(ArchiveSection::from_section(&odd).unwrap_err().code(), "IJ-M006");
    }
}
