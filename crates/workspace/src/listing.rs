//! What a snapshot knows of files, by path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use cas_core::{ObjectId, Store};
use manifest::snapshot::{OutsideSection, WorkspacePolicy, WorkspaceSection};
use manifest::{BlobRef, ByteText, Entry, ManifestError, ManifestObject, Node, Snapshot, Tree};

use super::Places;
use crate::error::Result;

/// A directory within a directory within … : deeper than this is not read, and not captured either.
pub(crate) const MAX_DEPTH: usize = 256;

/// Stands in a list for all that is not in it.
pub(crate) const MORE: &str = "…";

/// The files of a snapshot, as its processes saw them.
#[derive(Clone, Default, Debug)]
pub struct Listing {
    /// Files, directories and links by full path.
    pub entries: BTreeMap<PathBuf, Entry>,
    /// What was known and not captured, with everything below.
    pub not_captured: Vec<PathBuf>,
    /// The directory that its workspace was; `None` if it is not of one snapshot alone.
    pub root: Option<PathBuf>,
    /// Whether everything in the workspace was to be captured.
    pub whole_tree: bool,
    /// Volumes of which everything was to be captured.
    pub volumes: Vec<PathBuf>,
    /// The files of the workspace that processes had open, if that was written down.
    pub open: Option<BTreeSet<PathBuf>>,
}

impl Listing {
    /// Of a snapshot's two sections.
    pub fn load(
        store: &Store,
        workspace: Option<&WorkspaceSection>,
        outside: Option<&OutsideSection>,
    ) -> Result<Self> {
        let mut listing = Self::default();
        if let Some((tree, _)) = outside.and_then(|section| section.tree) {
            listing.add_tree(store, Path::new("/"), &tree)?;
        }
        if let Some((section, (tree, _))) = workspace.and_then(|section| Some((section, section.tree?))) {
            listing.add_tree(store, &root_of(section)?, &tree)?;
        }
        listing.note(workspace, outside)?;
        Ok(listing)
    }

    /// What the sections say beside their trees.
    pub(crate) fn note(
        &mut self,
        workspace: Option<&WorkspaceSection>,
        outside: Option<&OutsideSection>,
    ) -> Result<()> {
        let beyond = outside.iter().flat_map(|section| &section.not_captured);
        self.not_captured.extend(beyond.map(|item| to_path(item.path.as_bytes())));
        let volumes = outside.iter().flat_map(|section| &section.volumes);
        self.volumes.extend(volumes.map(|volume| to_path(volume.as_bytes())));
        if let Some(section) = workspace {
            let root = root_of(section)?;
            let inside = |path: &ByteText| root.join(to_path(path.as_bytes()));
            self.not_captured.extend(section.not_captured.iter().map(|item| inside(&item.path)));
            self.whole_tree = section.policy == WorkspacePolicy::Tree;
            self.open = section.open.as_ref().map(|open| open.iter().map(inside).collect());
            self.root = Some(root);
        }
        Ok(())
    }

    /// Of a snapshot.
    pub fn of_snapshot(store: &Store, snapshot: &Snapshot) -> Result<Self> {
        Self::load(store, snapshot.get()?.as_ref(), snapshot.get()?.as_ref())
    }

    fn add_tree(&mut self, store: &Store, root: &Path, tree: &ObjectId) -> Result<()> {
        let mut open = vec![(root.to_owned(), *tree, 0)];
        while let Some((directory, id, depth)) = open.pop() {
            let tree = Tree::decode(&store.get(Tree::KIND, &id)?)?;
            for entry in tree.entries() {
                let path = directory.join(OsStr::from_bytes(entry.name.as_bytes()));
                if let Node::Dir { tree } = entry.node {
                    if depth >= MAX_DEPTH {
                        let detail = format!("`{}` is too deep", path.display());
                        return Err(ManifestError::Malformed { what: "tree".to_owned(), detail }.into());
                    }
                    open.push((path.clone(), tree, depth + 1));
                }
                self.entries.insert(path, entry.clone());
            }
        }
        Ok(())
    }

    /// Adds what another one has. Where both have a content, the other's is kept.
    pub fn merge(&mut self, other: Self) {
        for (path, entry) in other.entries {
            let better = content(&entry).is_some() || !self.entries.contains_key(&path);
            if better {
                self.entries.insert(path, entry);
            }
        }
        self.not_captured.extend(other.not_captured);
        self.root = None;
    }

    /// The stored content of a file.
    pub fn content(&self, path: &Path) -> Option<BlobRef> {
        self.entries.get(path).and_then(content)
    }

    /// The files, without directories and links.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &Entry)> {
        let is_file = |(_, entry): &(&PathBuf, &Entry)| matches!(entry.node, Node::File { .. });
        self.entries.iter().filter(is_file).map(|(path, entry)| (path.as_path(), entry))
    }

    /// Whether the snapshot has everything of the directory that a path is in: of the workspace, or of a volume.
    pub(crate) fn has_all_around(&self, places: &Places, path: &Path) -> bool {
        match places.in_workspace(path) {
            true => self.whole_tree,
            false => places.mounted_around(path).is_some_and(|volume| self.volumes.contains(volume)),
        }
    }

    /// What was in a volume that is not there any more is nowhere: least of all in the workspace.
    pub(crate) fn is_of_lost_volume(&self, places: &Places, path: &Path) -> bool {
        let volume = self.volumes.iter().find(|volume| path.starts_with(volume));
        volume.is_some_and(|volume| !places.mapped.iter().any(|(inside, _)| inside == volume))
    }

    /// Whether more was left out than is named one by one.
    pub fn is_shortened(&self) -> bool {
        self.not_captured.iter().any(|path| path.file_name() == Some(OsStr::new(MORE)))
    }

    /// Whether a restore of the processes may fail without this file as it was.
    pub(crate) fn needs(&self, path: &Path) -> bool {
        self.open.as_ref().is_none_or(|open| open.contains(path))
    }

    /// Whether a path, or a directory that it is in, was left out on purpose.
    pub(crate) fn left_out(&self, path: &Path) -> bool {
        self.not_captured.iter().any(|left_out| path.starts_with(left_out))
    }
}

/// The directory that a section is of.
pub(crate) fn root_of(section: &WorkspaceSection) -> Result<PathBuf> {
    let root = to_path(section.root.as_bytes());
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !root.is_absolute() || !root.components().all(plain) {
        let detail = format!("its workspace is `{}`", root.display());
        return Err(ManifestError::Malformed { what: "section `workspace`".to_owned(), detail }.into());
    }
    Ok(root)
}

/// The stored content of an entry.
pub(crate) fn content(entry: &Entry) -> Option<BlobRef> {
    match entry.node {
        Node::File { content, .. } => content,
        _ => None,
    }
}

fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
