//! Room on the disk that is kept back for bad days.
//!
//! A full disk must not cost a session: to stop or suspend one, a few lines have to be written, to the journal and to its record, and
//! what changed since its last snapshot. So a file of some size lies in the state directory and holds nothing. When such an operation
//! fails for want of room, the file is removed and the operation tried once more; when there is room again, it is put back.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use crate::room::disk_free;

/// The file.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    /// So many bytes in this directory; none at all if 0.
    pub fn new(state: &Path, bytes: u64) -> Self {
        Self { path: state.join("reserve"), bytes }
    }

    /// Puts the reserve there, if there is room for it and more. Without it everything works until the disk is full, so nobody
    /// is told that it could not be done; the next snapshot tries again.
    pub fn fill(&self) {
        let there = fs::symlink_metadata(&self.path).map_or(0, |found| found.len());
        if there == self.bytes {
            return;
        }
        let _ = fs::remove_file(&self.path);
        if self.bytes > 0 && self.has_room() && self.make().is_err() {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Whether the reserve would not be what makes the disk full.
    fn has_room(&self) -> bool {
        let around = self.path.parent().unwrap_or(Path::new("/"));
        disk_free(around).is_ok_and(|free| free / 2 > self.bytes)
    }

    fn make(&self) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?;
        Ok(fallocate(&file, FallocateFlags::empty(), 0, self.bytes)?)
    }

    /// Gives the room free; whether there was any.
    pub fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

/// Whether there was no room on a disk: an error says so, or one of its causes.
pub fn is_full(error: &(dyn Error + 'static)) -> bool {
    let full = |error: &(dyn Error + 'static)| {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    };
    std::iter::successors(Some(error), |error| (*error).source()).any(full)
}

#[cfg(test)]
mod tests {
    use base::io_error;

    use super::*;
    use crate::error::StagingError;

    #[test]
    fn what_a_full_disk_says_is_understood_however_deep() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(is_full(&io_error("write", "/x")(kind)));
            let deep = cas_core::StoreError::io("write", "/x")(kind.into());
            assert!(is_full(&StagingError::from(deep)));
        }
        assert!(!is_full(&io_error("write", "/x")(io::ErrorKind::PermissionDenied)));
    }

    #[test]
    fn it_takes_room_and_gives_it_back() {
        let home = tempfile::tempdir().unwrap();
        let (reserve, path) = (Reserve::new(home.path(), 1 << 20), home.path().join("reserve"));
        assert!(!reserve.release(), "there is none yet");
        reserve.fill();
        let about = fs::metadata(&path).unwrap();
        assert!(std::os::unix::fs::MetadataExt::blocks(&about) * 512 >= 1 << 20, "it is no hole");
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777, 0o600);
        reserve.fill();
        assert!(reserve.release() && !path.exists());
        // Another size, and none.
        reserve.fill();
        Reserve::new(home.path(), 1 << 16).fill();
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 16);
        Reserve::new(home.path(), 0).fill();
        assert!(!path.exists());
        Reserve::new(home.path(), u64::MAX / 4).fill();
        assert!(!path.exists(), "more than there is");
    }
}
