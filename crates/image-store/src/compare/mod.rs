//! What differs between two snapshots: processes, memory by mapping, files.
//!
//! Nothing is laid out and no page is read. Two maps are compared as the trees that they are: what is shared has the same
//! id, and where ids differ, a page has changed if it lies elsewhere. Files are compared the same way, tree by tree.

mod files;
mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

use cas_core::Store;
use cas_core::memory::MapRoot;
use checkpoint_criu::images::FileKind;
use manifest::snapshot::MemorySection;
use manifest::{BlobRef, Snapshot};

use crate::error::Result;
use crate::held::{begins_with, held_images};
use memory::Mapping;

/// How something differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Change {
    /// Only the second snapshot has it.
    Added,
    /// Only the first has it.
    Removed,
    /// Both have it, and it is not the same.
    Changed,
}

/// What differs between two snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changes {
    /// Processes, by pid.
    pub processes: Vec<ProcessChange>,
    /// Mappings with pages that differ, the most first.
    pub memory: Vec<MemoryChange>,
    /// Files, by path.
    pub files: Vec<FileChange>,
}

/// A process that came, went or runs another program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ProcessChange {
    /// Its number inside the session.
    pub pid: u32,
    /// Its name, in the second snapshot if it is there.
    pub name: String,
    /// Whether it came, went or is another.
    pub change: Change,
}

/// A mapping with pages that differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryChange {
    /// Of which process; 0 for memory that processes share.
    pub pid: u32,
    /// First address; for shared memory, the offset in it.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// A path, `[heap]`, `[stack]`, `[anon]` …
    pub name: OsString,
    /// Whether it came, went or is another.
    pub change: Change,
    /// How many bytes differ, in whole pages. A page that the store has put elsewhere to keep a long history quick to read
    /// counts too, so this may be a little more than was written.
    pub changed_bytes: u64,
}

/// A file that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileChange {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it came, went or is another.
    pub change: Change,
    /// Its size in the first snapshot; `None` if it is not there, or not a regular file.
    pub before: Option<u64>,
    /// Its size in the second.
    pub after: Option<u64>,
    /// What is stored of both; `None` if it is not there, or its content was not captured.
    pub stored: (Option<BlobRef>, Option<BlobRef>),
}

/// The files that differ between two snapshots, sorted by path.
pub fn changed_files(store: &Store, before: &Snapshot, after: &Snapshot) -> Result<Vec<FileChange>> {
    files::changes(store, before, after)
}

/// Compares two snapshots, each given with the id of its commit.
pub fn compare(store: &Store, a: (&str, &Snapshot), b: (&str, &Snapshot)) -> Result<Changes> {
    let (before, after) = (Side::read(store, a)?, Side::read(store, b)?);
    Ok(Changes {
        processes: processes(&before, &after),
        memory: memory_changes(store, &before, &after)?,
        files: files::changes(store, a.1, b.1)?,
    })
}

/// What one snapshot says about its processes.
struct Side {
    /// Names of processes by pid.
    names: BTreeMap<u32, String>,
    mappings: BTreeMap<u32, Vec<Mapping>>,
    /// Address spaces by their names.
    spaces: BTreeMap<String, MapRoot>,
}

impl Side {
    fn read(store: &Store, (commit, snapshot): (&str, &Snapshot)) -> Result<Self> {
        let images = held_images(store, commit, snapshot, is_wanted)?;
        let memory = snapshot.get::<MemorySection>()?.unwrap_or_default();
        let spaces = memory.spaces.into_iter().map(|space| (space.name, space.map.into())).collect();
        let mut side = Self { names: BTreeMap::new(), mappings: BTreeMap::new(), spaces };
        let held: BTreeSet<_> = images.names()?.into_iter().collect();
        let has = |name: String| held.contains(&OsString::from(name));
        if !has("pstree.img".to_owned()) {
            return Ok(side);
        }
        let mut paths = BTreeMap::new();
        if has("files.img".to_owned()) {
            for file in images.files()? {
                if let FileKind::Reg(file) = file.kind {
                    paths.insert(file.id, file.path().as_os_str().to_owned());
                }
            }
        }
        for process in images.pstree()? {
            let pid = process.pid;
            let core = if has(format!("core-{pid}.img")) { Some(images.core(pid)?) } else { None };
            let name = core.as_ref().and_then(|core| core.comm()).unwrap_or_default();
            side.names.insert(pid, name.to_string_lossy().into_owned());
            // The dead have none.
            if has(format!("mm-{pid}.img")) {
                let vmas = images.mm(pid)?.vmas;
                side.mappings.insert(pid, vmas.iter().map(|vma| Mapping::of(vma, &paths)).collect());
            }
        }
        Ok(side)
    }
}

/// The images that say something about processes.
fn is_wanted(name: &str) -> bool {
    matches!(name, "pstree.img" | "files.img") || begins_with(name, &["core-", "mm-"])
}

fn processes(before: &Side, after: &Side) -> Vec<ProcessChange> {
    let pids: BTreeSet<u32> = before.names.keys().chain(after.names.keys()).copied().collect();
    let change = |pid: u32| {
        let (name, change) = match (before.names.get(&pid), after.names.get(&pid)) {
            (None, None) => return None,
            (None, Some(name)) => (name, Change::Added),
            (Some(name), None) => (name, Change::Removed),
            (Some(old), Some(new)) => (new, (old != new).then_some(Change::Changed)?),
        };
        Some(ProcessChange { pid, name: name.clone(), change })
    };
    pids.into_iter().filter_map(change).collect()
}

fn memory_changes(store: &Store, before: &Side, after: &Side) -> Result<Vec<MemoryChange>> {
    let names: BTreeSet<&String> = before.spaces.keys().chain(after.spaces.keys()).collect();
    let mut changes = Vec::new();
    for name in names {
        let (old, new) = (before.spaces.get(name), after.spaces.get(name));
        let runs = memory::changed(store, old, new)?;
        let pid = name.strip_prefix("pid:").and_then(|pid| pid.parse::<u32>().ok());
        match pid {
            Some(pid) => {
                let mappings = |side: &Side| side.mappings.get(&pid).cloned().unwrap_or_default();
                changes.extend(memory::by_mapping(pid, &runs, &mappings(before), &mappings(after)));
            }
            None => changes.extend(memory::of_shared(name, &runs, old.is_some(), new.is_some())),
        }
    }
    changes.sort_by(|one, other| {
        let key = |change: &MemoryChange| (std::cmp::Reverse(change.changed_bytes), change.pid, change.start);
        key(one).cmp(&key(other))
    });
    Ok(changes)
}

#[cfg(test)]
mod tests;
