//! Device memory in files, beside the process that it belongs to (CUDA 13.4).
//!
//! ```text
//! DIRECTORY/PID/parts       which GPUs, and how many bytes of each: written before the first byte is copied
//! DIRECTORY/PID/UUID.vram   the bytes; the file grows while they are copied
//! DIRECTORY/PID/restoring.N there while they are copied back, into process N as the machine numbers it
//! ```
//!
//! `PID` is the process's id in its own namespace, which is the same after CRIU's restore. From the end of a checkpoint until the end of
//! a restore these files are the only copy of the memory. So they have to be where the next daemon finds them if this one is killed, and
//! whoever removes them has to know that the process runs again, or has ended.
//!
//! A driver that has begun a restore completes it, whether or not all bytes were there to be copied. A process that is LOCKED with the file
//! `restoring` of its own beside it has memory that is not its own, and is never let run.
//!
//! The files are not synced: a power cut that they would not survive is one that the process does not survive either. Room for them is
//! taken before the first byte is copied.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::uuid::GpuUuid;

/// All memory that a process has on one GPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The GPU.
    pub gpu: GpuUuid,
    /// Its length.
    pub bytes: u64,
}

/// The files of one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beside {
    directory: PathBuf,
}

impl Beside {
    /// Those of the process with this number in its own namespace, below `directory`.
    pub fn of(directory: &Path, number: impl std::fmt::Display) -> Self {
        Self { directory: directory.join(number.to_string()) }
    }

    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the bytes of a GPU are.
    pub fn file(&self, gpu: GpuUuid) -> PathBuf {
        self.directory.join(format!("{gpu}.vram"))
    }

    /// Which GPUs there are; `None` as long as that is not known, or if nothing was stored here.
    pub fn parts(&self) -> io::Result<Option<Vec<Part>>> {
        match fs::read(self.directory.join("parts")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the files, with room for all bytes, and says which there are.
    pub(crate) fn make(&self, parts: &[Part]) -> io::Result<()> {
        for part in parts {
            let path = self.file(part.gpu);
            let wrong = |error: io::Error| io::Error::other(format!("`{}`: {error}", path.display()));
            let file = fs::File::create(&path).map_err(wrong)?;
            match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, part.bytes) {
                // Some file systems cannot say beforehand. They say it in the middle then.
                Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL) => {}
                Err(error) => return Err(wrong(error.into())),
            }
        }
        let (new, parts_file) = (self.directory.join("parts.new"), self.directory.join("parts"));
        fs::write(&new, serde_json::to_vec(parts)?)?;
        fs::rename(new, parts_file)
    }

    /// Sees that all bytes are there, as far as lengths tell. Where nothing says which there should be, the restore itself sees it.
    pub(crate) fn check(&self) -> io::Result<()> {
        for part in self.parts()?.unwrap_or_default() {
            let there = fs::metadata(self.file(part.gpu))?.len();
            if there != part.bytes {
                let path = self.file(part.gpu);
                let detail = format!("`{}` has {there} of {} bytes", path.display(), part.bytes);
                return Err(io::Error::other(detail));
            }
        }
        Ok(())
    }

    /// From now on the process has memory of its own only if [`Beside::came_back`] was said.
    /// Several may come back from the same files: branches of one snapshot.
    pub(crate) fn comes_back(&self, pid: i32) -> io::Result<()> {
        fs::write(self.marker(pid), b"")
    }

    /// All bytes are where they were.
    pub(crate) fn came_back(&self, pid: i32) -> io::Result<()> {
        fs::remove_file(self.marker(pid))
    }

    /// Whether a restore began that did not bring all bytes back.
    pub(crate) fn is_torn(&self, pid: i32) -> bool {
        self.marker(pid).exists()
    }

    fn marker(&self, pid: i32) -> PathBuf {
        self.directory.join(format!("restoring.{pid}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_known_and_what_is_missing_is_found() {
        let home = tempfile::tempdir().unwrap();
        let beside = Beside::of(home.path(), 301);
        assert_eq!(beside.parts().unwrap(), None);
        beside.check().unwrap();
        fs::create_dir(beside.directory()).unwrap();
        let parts = [Part { gpu: GpuUuid::from_bytes([7; 16]), bytes: 3 }];
        beside.make(&parts).unwrap();
        assert_eq!(beside.parts().unwrap().unwrap(), parts);
        assert!(beside.check().unwrap_err().to_string().contains("0 of 3 bytes"));
        fs::write(beside.file(parts[0].gpu), "abc").unwrap();
        beside.check().unwrap();
        assert!(!beside.is_torn(7));
        beside.comes_back(7).unwrap();
        beside.comes_back(8).unwrap();
        beside.came_back(8).unwrap();
        assert!(beside.is_torn(7) && !beside.is_torn(8));
        beside.came_back(7).unwrap();
        assert!(!beside.is_torn(7));
    }
}
