//! The files of a catalogue that nobody has open.

use std::path::Path;

use crate::error::{Result, StoreError};

/// Removes a catalogue with everything that belongs to it.
pub(crate) fn remove_database(path: &Path) -> Result<()> {
    remove_if_there(path)?;
    remove_companions(path)
}

/// The write-ahead log and the shared memory of a database. One that was left behind would be taken for the new one's.
pub(crate) fn remove_companions(path: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        remove_if_there(Path::new(&name))?;
    }
    Ok(())
}

/// Removes a file, if there is one.
pub(crate) fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
