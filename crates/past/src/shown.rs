//! One snapshot: what its directory has.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cas_core::{ObjectId, Store};
use image_store::{Process, processes};
use manifest::snapshot::{
    CriuSection, MemorySection, NotebookSection, OutsideSection, VariablesSection, WorkspaceSection,
};
use manifest::stored::FromStore;
use manifest::{BlobRef, Commit, ManifestObject, MapRef, Snapshot};
use serde_json::json;

use crate::error::{PastError, Result};

/// Snapshots that are kept in memory.
const KEPT: usize = 16;

/// A snapshot, as far as it is shown.
pub(crate) struct Shown {
    pub(crate) commit: Commit,
    pub(crate) workspace: Option<ObjectId>,
    pub(crate) outside: Option<ObjectId>,
    pub(crate) notebook: Option<BlobRef>,
    pub(crate) variables: Option<BlobRef>,
    pub(crate) has_processes: bool,
    /// By name: `pid:1`, `shm:7`.
    spaces: Vec<(String, MapRef, u64)>,
    snapshot: Snapshot,
    id: ObjectId,
    processes: OnceLock<Arc<[Process]>>,
}

impl Shown {
    fn load(store: &Store, id: ObjectId) -> Result<Self> {
        let commit = Commit::load(&FromStore(store), &id)?;
        let snapshot = Snapshot::load(&FromStore(store), &commit.snapshot)?;
        let spaces = snapshot.get::<MemorySection>()?.unwrap_or_default().spaces;
        let tree = |tree: Option<(ObjectId, u64)>| tree.map(|(tree, _)| tree);
        Ok(Self {
            workspace: snapshot.get::<WorkspaceSection>()?.and_then(|section| tree(section.tree)),
            outside: snapshot.get::<OutsideSection>()?.and_then(|section| tree(section.tree)),
            notebook: snapshot.get::<NotebookSection>()?.map(|section| section.content),
            variables: snapshot.get::<VariablesSection>()?.map(|section| section.list),
            has_processes: snapshot.get::<CriuSection>()?.is_some_and(|section| !section.images.is_empty()),
            spaces: spaces.into_iter().map(|space| (space.name, space.map, space.bytes)).collect(),
            commit,
            snapshot,
            id,
            processes: OnceLock::new(),
        })
    }

    /// Who ran.
    pub(crate) fn processes(&self, store: &Store) -> Result<Arc<[Process]>> {
        if let Some(known) = self.processes.get() {
            return Ok(Arc::clone(known));
        }
        let found = processes(store, &self.id.short(), &self.snapshot)?.into();
        Ok(Arc::clone(self.processes.get_or_init(|| found)))
    }

    /// The same as text.
    pub(crate) fn processes_text(&self, store: &Store) -> Result<Arc<[u8]>> {
        let told: Vec<_> = self
            .processes(store)?
            .iter()
            .map(|process| {
                json!({
                    "pid": process.pid,
                    "parent": process.parent,
                    "name": process.name,
                    "threads": process.threads,
                    "mappings": process.mappings.len(),
                    "mapped_bytes": process.mappings.iter().map(|(start, end)| end.saturating_sub(*start)).sum::<u64>(),
                })
            })
            .collect();
        let mut text = serde_json::to_vec_pretty(&told).map_err(|error| PastError::Odd(error.to_string()))?;
        text.push(b'\n');
        Ok(text.into())
    }

    /// The memory of a process.
    pub(crate) fn memory_of(&self, pid: u32) -> Option<MapRef> {
        let name = format!("pid:{pid}");
        self.spaces.iter().find(|(space, ..)| *space == name).map(|(_, map, _)| *map)
    }

    /// Memory that belongs to no single process, by names without slashes.
    pub(crate) fn shared_memory(&self) -> impl Iterator<Item = (&str, MapRef, u64)> {
        let shared = |name: &str| !name.starts_with("pid:") && !name.contains('/') && name.len() < 256;
        let all = self.spaces.iter().map(|(name, map, bytes)| (name.as_str(), *map, *bytes));
        all.filter(move |(name, ..)| shared(name))
    }
}

/// Those that were looked at last.
#[derive(Default)]
pub(crate) struct Recent(Mutex<VecDeque<Arc<Shown>>>);

impl Recent {
    pub(crate) fn get(&self, store: &Store, id: ObjectId) -> Result<Arc<Shown>> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept().iter().find(|shown| shown.id == id) {
            return Ok(Arc::clone(found));
        }
        let shown = Arc::new(Shown::load(store, id)?);
        let mut kept = kept();
        kept.push_front(Arc::clone(&shown));
        kept.truncate(KEPT);
        Ok(shown)
    }
}
