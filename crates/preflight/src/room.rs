//! Room on disk and in memory.

use std::path::Path;

use staging::{StagingError, disk_free};

use super::{Needs, Preflight, Problem};
use crate::error::Result;

/// What a dump needs beside the memory itself: tables, small images, the log.
const BESIDE: u64 = 32 << 20;
/// The store always needs some: packs are written before old ones go.
const STORE_LEAST: u64 = 16 << 20;

/// Compares what will be written with what is free.
pub(super) fn examine(needs: &Needs, found: &mut Preflight) -> Result<()> {
    let wanted = found.memory_bytes.saturating_add(BESIDE);
    if let Some(staging) = &needs.staging {
        let free = free_bytes(staging)?;
        if free < wanted {
            found.refusals.push(lack("room for the images", staging, wanted, free));
        }
    }
    let free = free_bytes(&needs.store)?;
    if free < wanted {
        found.warnings.push(lack(
            "room in the store, if little of it is known yet",
            &needs.store,
            wanted,
            free,
        ));
    }
    Ok(())
}

/// Whether the store has the least that it needs. This is none of the refusals above because it can be helped: what a full disk must
/// not prevent is tried again with the reserve.
pub fn store_has_room(store: &Path) -> Result<()> {
    let available = free_bytes(store)?;
    if available < STORE_LEAST {
        return Err(StagingError::NoRoom { path: store.to_owned(), needed: STORE_LEAST, available }.into());
    }
    Ok(())
}

fn lack(what: &'static str, path: &Path, wanted: u64, free: u64) -> Problem {
    Problem {
        pid: 0,
        comm: String::new(),
        what,
        evidence: format!(
            "`{}` has {} MiB free, {} MiB are needed",
            path.display(),
            free >> 20,
            wanted >> 20
        ),
        way_out: "free some, or end what uses it".to_owned(),
    }
}

/// Bytes that are free at a path, or at the nearest directory above it that is there.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let nearest = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    Ok(disk_free(nearest)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_told_with_figures() {
        let dir = tempfile::tempdir().unwrap();
        let mut found = Preflight { memory_bytes: u64::MAX / 2, ..Preflight::default() };
        let needs = Needs {
            staging: Some(dir.path().join("not/there/yet")),
            store: dir.path().to_owned(),
            uid: None,
            boxed: None,
            on_gpu: Default::default(),
            vram_bytes: 0,
        };
        examine(&needs, &mut found).unwrap();
        assert_eq!(found.refusals.len(), 1, "{found:?}");
        assert!(found.refusals[0].evidence.contains("MiB free"));
        assert_eq!(found.warnings.len(), 1);
        store_has_room(dir.path()).unwrap();
    }
}
