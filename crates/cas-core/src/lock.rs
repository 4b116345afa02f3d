//! Locks between processes: `flock` on a file that is never removed while it may be in use. The kernel drops the lock
//! when its holder dies, however it dies.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::{Result, StoreError};

fn open(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.create(true).append(true).mode(0o600).open(path).map_err(StoreError::io("open lock", path))
}

/// Waits for the lock. It is held until the file is dropped.
pub(crate) fn exclusive(path: &Path) -> Result<File> {
    let file = open(path)?;
    file.lock().map_err(StoreError::io("lock", path))?;
    Ok(file)
}

/// Takes the lock if it is free.
pub(crate) fn try_exclusive(path: &Path) -> Result<Option<File>> {
    taken(open(path)?, path, File::try_lock)
}

/// Takes the lock together with others, unless somebody has it alone.
pub(crate) fn try_shared(path: &Path) -> Result<Option<File>> {
    taken(open(path)?, path, File::try_lock_shared)
}

fn taken(
    file: File,
    path: &Path,
    lock: impl FnOnce(&File) -> std::result::Result<(), TryLockError>,
) -> Result<Option<File>> {
    match lock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(StoreError::io("lock", path)(error)),
    }
}
