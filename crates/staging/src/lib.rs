//! Where dumps are written, and images are laid out for restores.
//!
//! CRIU writes and reads directories of plain files, the store has none. So between the two there is always a directory: while a
//! dump is on its way into the store, and while a snapshot's images are laid out for a restore. None is kept for longer.
//!
//! ```text
//! state/staging/<name>         a dump that is being written or stored, or a snapshot's images; removed at the next start
//! state/staging/<name>.files   files captured with it
//! state/staging/<name>.device  device memory that is laid out for a restore; where the images are
//! /dev/shm/infinijup-…         the same in memory, for dumps that are too large for the page cache (`room`)
//! ```
//!
//! If the store is encrypted, images are in memory only: what is on disk must not be plain. Captured files are files of the disk
//! anyway.
//!
//! What a store may take of the disk (`budget`), and what is kept back of it for bad days (`reserve`), is counted here, too.
//!
//! Nothing here is the only copy of anything: what is staged is either on its way into the store, with its processes still
//! there, or on its way out of it.

#![forbid(unsafe_code)]

mod budget;
mod error;
mod reserve;
mod room;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base::io_error;
pub use budget::{Used, allowed};
use cas_core::fsio::random_name;
pub use error::{Result, StagingError};
pub use reserve::{Reserve, is_full};
pub use room::disk_free;
use room::{Medium, Memory, Room};

/// Where everybody may have files in memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// A dump is this much larger than the memory in it: other images, and what is touched until it stands still.
const OVERHEAD: u64 = 16 << 20;

/// All staging places. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Stages {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    disk: PathBuf,
    memory: PathBuf,
    /// Nothing plain on disk.
    memory_only: bool,
    /// What was promised to those who are staging now, on disk and in memory.
    promised: Mutex<(u64, u64)>,
}

impl Stages {
    /// Opens the places below the state and run directories, and removes what an earlier daemon left unfinished.
    pub fn open(state: &Path, run: &Path, memory_only: bool) -> Result<Self> {
        let memory = memory_directory(run);
        let shared = Shared { disk: state.to_owned(), memory, memory_only, promised: Mutex::default() };
        shared.prepare(Medium::Disk)?;
        // Anybody can make a directory of that name before us. Then there is none in memory, and the disk has to do.
        if shared.is_made().unwrap_or_default() {
            shared.prepare(Medium::Memory)?;
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Where images are written, if there is nothing against it.
    fn directory(&self) -> PathBuf {
        self.shared.staging(if self.shared.memory_only { Medium::Memory } else { Medium::Disk })
    }

    /// A new directory for images of about so many bytes of memory, where they are written with the shortest pause. Refused
    /// if they fit nowhere.
    pub fn stage(&self, memory_bytes: u64) -> Result<Staged> {
        self.stage_beside(memory_bytes, 0)
    }

    /// The same where the processes themselves are about to need so many bytes more of the machine's memory.
    pub fn stage_beside(&self, memory_bytes: u64, soon_used: u64) -> Result<Staged> {
        let bytes = memory_bytes.saturating_add(memory_bytes / 64).saturating_add(OVERHEAD);
        let shared = &self.shared;
        // Held until the promise is made: two at once must not be promised the same room.
        let mut promised = shared.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let with_those = |promised: (u64, u64)| (promised.0, promised.1.saturating_add(soon_used));
        let room = shared.room(with_those(*promised))?;
        let no_room = || StagingError::NoRoom {
            path: self.directory(),
            needed: bytes,
            available: room.disk.max(room.memory),
        };
        let mut medium = room.best(bytes).ok_or_else(no_room)?;
        if medium == Medium::Memory {
            match shared.make_memory() {
                // The disk is slower, that is all.
                Err(_) if bytes <= room.disk => medium = Medium::Disk,
                made => made?,
            }
        }
        match medium {
            Medium::Disk => promised.0 += bytes,
            Medium::Memory => promised.1 += bytes,
        }
        drop(promised);
        let name = random_name()?;
        let staged = Staged {
            images: shared.staging(medium).join(&name),
            files: shared.staging(Medium::Disk).join(format!("{name}.files")),
            device: shared.staging(medium).join(format!("{name}.device")),
            medium,
            promised: bytes,
            shared: shared.clone(),
        };
        for directory in [&staged.images, &staged.files] {
            DirBuilder::new().mode(0o700).create(directory).map_err(io_error("create", directory))?;
        }
        Ok(staged)
    }
}

impl Stages {
    /// Whether so many bytes may lie on the disk for a while, as they are, and there is room for them.
    pub fn may_lie_on_disk(&self, bytes: u64) -> Result<bool> {
        let promised = *self.shared.promised.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(!self.shared.memory_only && bytes <= self.shared.room(promised)?.disk)
    }
}

impl Shared {
    fn base(&self, medium: Medium) -> &Path {
        match medium {
            Medium::Disk => &self.disk,
            Medium::Memory => &self.memory,
        }
    }

    fn staging(&self, medium: Medium) -> PathBuf {
        self.base(medium).join("staging")
    }

    /// Makes the directory of a medium and removes what is unfinished.
    fn prepare(&self, medium: Medium) -> Result<()> {
        let staging = self.staging(medium);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&staging);
        made.map_err(io_error("create", &staging))?;
        for entry in fs::read_dir(&staging).map_err(io_error("list", &staging))? {
            let path = entry.map_err(io_error("list", &staging))?.path();
            // A worker that outlived its daemon may still be writing there: the next start takes the rest.
            let _ = remove(&path);
        }
        // Earlier versions kept images here, which may be many gigabytes.
        let _ = remove(&self.base(medium).join("cache"));
        Ok(())
    }

    fn room(&self, promised: (u64, u64)) -> Result<Room> {
        let room = Room::of(disk_free(&self.staging(Medium::Disk))?, &Memory::read()?, promised);
        Ok(if self.memory_only { room.without_disk(disk_free(Path::new(SHARED_MEMORY))?) } else { room })
    }

    /// Whether our directory in memory is there. It is closed to others: somebody else's, made to catch us, is not ours.
    fn is_made(&self) -> Result<bool> {
        match fs::symlink_metadata(&self.memory) {
            Ok(found) => {
                let ours = found.is_dir()
                    && found.uid() == rustix::process::geteuid().as_raw()
                    && found.mode() & 0o077 == 0;
                ours.then_some(true).ok_or_else(|| {
                    io_error("use", &self.memory)(io::Error::other("it is not ours, or open to others"))
                        .into()
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error("look at", &self.memory)(error).into()),
        }
    }

    /// Makes our directory in memory, unless it is there. It stays, with what is in it, for the daemons after us.
    fn make_memory(&self) -> Result<()> {
        if self.is_made()? {
            return Ok(());
        }
        let made = DirBuilder::new().mode(0o700).create(&self.memory);
        made.map_err(io_error("create", &self.memory))?;
        self.prepare(Medium::Memory)
    }
}

/// The directory in memory of the daemon with this run directory: everybody's memory is at `/dev/shm`, so it has a name of its own.
fn memory_directory(run: &Path) -> PathBuf {
    let name = blake3::hash(run.as_os_str().as_encoded_bytes()).to_hex();
    let name = name.as_str().get(..12).unwrap_or_default();
    Path::new(SHARED_MEMORY).join(format!("infinijup-{}-{name}", rustix::process::geteuid().as_raw()))
}

/// Removes a directory of images or a file; that it is not there is fine.
fn remove(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// What cannot be removed now, the next start removes.
fn remove_all(paths: &[PathBuf]) {
    for path in paths {
        let _ = remove(path);
    }
}

/// A directory of images that are being written, or are not needed for long. Removed when dropped.
#[derive(Debug)]
pub struct Staged {
    images: PathBuf,
    files: PathBuf,
    device: PathBuf,
    medium: Medium,
    promised: u64,
    shared: Arc<Shared>,
}

impl Staged {
    /// Where the images are.
    pub fn path(&self) -> &Path {
        &self.images
    }

    /// Where captured files are. Always on disk.
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// Where device memory can be laid out beside the images. Whoever does makes it.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Empties it, for another attempt.
    pub fn begin_anew(&mut self) -> Result<()> {
        for directory in [&self.images, &self.files] {
            for entry in fs::read_dir(directory).map_err(io_error("list", directory))? {
                let path = entry.map_err(io_error("list", directory))?.path();
                let is_directory = fs::symlink_metadata(&path).is_ok_and(|data| data.is_dir());
                let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(io_error("remove", &path))?;
            }
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        remove_all(&[self.images.clone(), self.files.clone(), self.device.clone()]);
        let mut promised = self.shared.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let promise = match self.medium {
            Medium::Disk => &mut promised.0,
            Medium::Memory => &mut promised.1,
        };
        *promise = promise.saturating_sub(self.promised);
    }
}

#[cfg(test)]
mod tests;
