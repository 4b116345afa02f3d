//! Small files of JSON: they are the old one or the new one, whenever the machine stops.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base::io_error;
use serde::Serialize;

use crate::error::{RecordError, Result};

/// Replaces a file by rename, durably.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| RecordError::Bug(format!("cannot write `{}`: {error}", path.display())))?;
    let new = path.with_extension("new");
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .map_err(io_error("create", &new))?;
    std::io::Write::write_all(&mut file, &bytes).map_err(io_error("write", &new))?;
    file.sync_all().map_err(io_error("sync", &new))?;
    fs::rename(&new, path).map_err(io_error("rename", &new))?;
    Ok(fs::File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(io_error("sync", directory))?)
}
