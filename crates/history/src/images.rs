//! A snapshot as a directory of CRIU's images, for those who have other uses for them than ours.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use base::io_error;
use cas_core::progress::Progress;
use cas_core::{ObjectId, Store};
use image_store::{lay_out, lay_out_device_memory};
use manifest::stored::FromStore;
use manifest::{Commit, ManifestObject, Snapshot};

use crate::error::{HistoryError, Result};

/// Makes the directory, which nobody else may read, and writes the images of a commit into it: those of an ordinary dump, whichever way the
/// memory has come into the store.
pub fn write_images(store: &Store, id: &ObjectId, directory: &Path, progress: &dyn Progress) -> Result<()> {
    let source = FromStore(store);
    let snapshot = Snapshot::load(&source, &Commit::load(&source, id)?.snapshot)?;
    DirBuilder::new().mode(0o700).create(directory).map_err(io_error("create", directory))?;
    lay_out(store, &id.short(), &snapshot, directory, progress).map_err(HistoryError::Images)?;
    // CRIU knows nothing of device memory, and does not look into directories.
    let device = directory.join("device");
    lay_out_device_memory(store, &id.short(), &snapshot, &device, progress).map_err(HistoryError::Images)?;
    Ok(())
}
