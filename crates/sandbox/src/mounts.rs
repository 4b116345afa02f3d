//! The mount table.

use std::fs;
use std::path::{Path, PathBuf};

use base::proc::{Mount, mounts_in};

use crate::error::{Result, SandboxError};

/// Our own mount table, in the order in which it was mounted.
pub(crate) fn table() -> Result<Vec<Mount>> {
    let path = Path::new("/proc/self/mountinfo");
    Ok(mounts_in(&fs::read_to_string(path).map_err(SandboxError::io("read", path))?).collect())
}

/// What is mounted at or below this directory, deepest last.
pub fn leftover_mounts(under: &Path) -> Result<Vec<PathBuf>> {
    // The table knows no links. What is not there can have no mounts, but saying so is the table's business.
    let under = under.canonicalize().unwrap_or_else(|_| under.to_owned());
    Ok(table()?.into_iter().map(|mount| mount.target).filter(|target| target.starts_with(&under)).collect())
}
