//! Who ran at a snapshot, and where in their memory something was: read from the store, without a directory.

use cas_core::Store;
use manifest::Snapshot;

use crate::error::Result;
use crate::held::{begins_with, held_images};

/// A process of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its number inside.
    pub pid: u32,
    /// That of its parent; 0 for the first.
    pub parent: u32,
    /// Its name, as `ps` shows it.
    pub name: String,
    /// How many threads it has.
    pub threads: usize,
    /// First address of each mapping and the first after it, in order.
    pub mappings: Vec<(u64, u64)>,
}

/// The processes of a snapshot. `commit` is for errors.
pub fn processes(store: &Store, commit: &str, snapshot: &Snapshot) -> Result<Vec<Process>> {
    let wanted = |name: &str| begins_with(name, &["pstree", "core-", "mm-"]);
    let images = held_images(store, commit, snapshot, wanted)?;
    let mut found = Vec::new();
    for entry in images.pstree()? {
        let core = images.core(entry.pid)?;
        let name = core.comm().unwrap_or_default().to_string_lossy().into_owned();
        // One that has ended and was not waited for has no memory.
        let mappings = images.mm(entry.pid).map(|mm| mm.vmas).unwrap_or_default();
        found.push(Process {
            pid: entry.pid,
            parent: entry.ppid,
            name,
            threads: entry.threads.len(),
            mappings: mappings.iter().map(|mapping| (mapping.start, mapping.end)).collect(),
        });
    }
    Ok(found)
}
