//! Where dumps are written, and where plain images are kept for quick restores.
//!
//! CRIU writes and reads directories of plain files, the store has none. So between the two there is always a directory: while a
//! dump is on its way into the store, and while a snapshot's images are laid out for a restore. A recent snapshot's directory is
//! kept for a while, because going back to it is then quick.
//!
//! ```text
//! state/staging/<name>         a dump that is being written or stored; removed at the next start
//! state/staging/<name>.files   files captured with it
//! state/cache/<snapshot>       images of a snapshot that is in the store (`cache`)
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
mod cache;
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
use cache::{Cache, remove};
use cas_core::fsio::random_name;
pub use error::{Result, StagingError};
pub use reserve::Reserve;
pub use room::disk_free;
use room::{Medium, Memory, Room};

/// The cache takes a quarter of the memory, but no more than this, unless the configuration says otherwise.
const CACHE_LIMIT: u64 = 8 << 30;
/// Where everybody may have files in memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// A dump is this much larger than the memory in it: other images, and what is touched until it stands still.
const OVERHEAD: u64 = 16 << 20;

/// All staging places and the cache. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Stages {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    disk: PathBuf,
    memory: PathBuf,
    boot: String,
    cache: Cache,
    /// Nothing plain on disk.
    memory_only: bool,
    /// What was promised to those who are staging now, on disk and in memory.
    promised: Mutex<(u64, u64)>,
}

impl Stages {
    /// Opens the places below the state and run directories, and removes what an earlier daemon left unfinished.
    pub fn open(state: &Path, run: &Path, cache_bytes: Option<u64>, memory_only: bool) -> Result<Self> {
        // On disk it is page cache, which makes way by itself; in a tmpfs it does not.
        let share = if memory_only { 8 } else { 4 };
        let limit = match cache_bytes {
            Some(limit) => limit,
            None => (Memory::read()?.total / share).min(CACHE_LIMIT),
        };
        let boot = "/proc/sys/kernel/random/boot_id";
        let boot = fs::read_to_string(boot).map_err(io_error("read", boot))?;
        let shared = Shared {
            disk: state.to_owned(),
            memory: memory_directory(run),
            boot,
            cache: Cache::new(limit),
            memory_only,
            promised: Mutex::default(),
        };
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
        let mut room = shared.room(with_those(*promised))?;
        if bytes > room.quick_disk && (bytes > room.memory || bytes > room.disk) {
            // Images that are only kept for convenience make way.
            for (medium, free) in [(Medium::Memory, room.memory), (Medium::Disk, room.disk)] {
                shared.make_room(medium, bytes.saturating_sub(free));
            }
            room = shared.room(with_those(*promised))?;
        }
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
            medium,
            promised: bytes,
            shared: shared.clone(),
        };
        for directory in [&staged.images, &staged.files] {
            DirBuilder::new().mode(0o700).create(directory).map_err(io_error("create", directory))?;
        }
        Ok(staged)
    }

    /// Keeps staged images as those of `snapshot`, if there is room for them; else they are removed. Nothing depends on it,
    /// so nothing is said when it fails.
    pub fn adopt(&self, staged: Staged, snapshot: &str) {
        drop(self.keep(staged, snapshot));
    }

    /// The same, for someone who needs the images now, kept or not.
    pub fn keep(&self, staged: Staged, snapshot: &str) -> PlainImages {
        let shared = &self.shared;
        let directory = shared.cache_dir(staged.medium);
        let (kept, gone) = shared
            .cache
            .put(snapshot, &staged.images, &directory, staged.medium, &|medium| shared.trash(medium));
        remove_all(&gone);
        match kept.then(|| self.cached(snapshot)).flatten() {
            Some(cached) => PlainImages::Kept(cached),
            None => PlainImages::Staged(staged),
        }
    }

    /// The images of a snapshot, if they are kept. They stay for as long as the answer lives.
    pub fn cached(&self, snapshot: &str) -> Option<Cached> {
        let path = self.shared.cache.pin(snapshot)?;
        Some(Cached { shared: self.shared.clone(), snapshot: snapshot.to_owned(), path })
    }

    /// Keeps the images of a snapshot no longer.
    pub fn forget(&self, snapshot: &str) {
        let gone = self.shared.cache.forget(snapshot, &|medium| self.shared.trash(medium));
        remove_all(gone.as_slice());
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

    fn cache_dir(&self, medium: Medium) -> PathBuf {
        self.base(medium).join("cache")
    }

    /// Makes the directories of a medium, removes what is unfinished, and takes in what is cached.
    fn prepare(&self, medium: Medium) -> Result<()> {
        let (staging, cache) = (self.staging(medium), self.cache_dir(medium));
        for directory in [&staging, &cache] {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(io_error("create", directory))?;
        }
        for entry in fs::read_dir(&staging).map_err(io_error("list", &staging))? {
            let path = entry.map_err(io_error("list", &staging))?.path();
            // A worker that outlived its daemon may still be writing there: the next start takes the rest.
            let _ = remove(&path);
        }
        // What is of no boot is removed.
        let boot = if self.memory_only && medium == Medium::Disk { "none" } else { &self.boot };
        self.cache.load(&cache, medium, boot)
    }

    fn room(&self, promised: (u64, u64)) -> Result<Room> {
        let room = Room::of(disk_free(&self.staging(Medium::Disk))?, &Memory::read()?, promised);
        Ok(if self.memory_only { room.without_disk(disk_free(Path::new(SHARED_MEMORY))?) } else { room })
    }

    fn make_room(&self, medium: Medium, bytes: u64) {
        if bytes > 0 {
            remove_all(&self.cache.make_room(medium, bytes, &|medium| self.trash(medium)));
        }
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

    /// A new name in the staging directory, for something that is to be removed.
    fn trash(&self, medium: Medium) -> io::Result<PathBuf> {
        let name = random_name().map_err(io::Error::other)?;
        Ok(self.staging(medium).join(name))
    }
}

/// The directory in memory of the daemon with this run directory: everybody's memory is at `/dev/shm`, so it has a name of its own.
fn memory_directory(run: &Path) -> PathBuf {
    let name = blake3::hash(run.as_os_str().as_encoded_bytes()).to_hex();
    let name = name.as_str().get(..12).unwrap_or_default();
    Path::new(SHARED_MEMORY).join(format!("infinijup-{}-{name}", rustix::process::geteuid().as_raw()))
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
}

impl Drop for Staged {
    fn drop(&mut self) {
        remove_all(&[self.images.clone(), self.files.clone()]);
        let mut promised = self.shared.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let promise = match self.medium {
            Medium::Disk => &mut promised.0,
            Medium::Memory => &mut promised.1,
        };
        *promise = promise.saturating_sub(self.promised);
    }
}

/// Images to restore from, wherever they are.
#[derive(Debug)]
pub enum PlainImages {
    /// Kept for others too.
    Kept(Cached),
    /// Only for now.
    Staged(Staged),
}

impl PlainImages {
    /// Where they are.
    pub fn path(&self) -> &Path {
        match self {
            Self::Kept(cached) => cached.path(),
            Self::Staged(staged) => staged.path(),
        }
    }
}

/// Images that are kept, and stay while this lives.
#[derive(Debug)]
pub struct Cached {
    shared: Arc<Shared>,
    snapshot: String,
    path: PathBuf,
}

impl Cached {
    /// Where they are. Others restore from them at the same time: they must not be changed.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        let gone = self.shared.cache.unpin(&self.snapshot, &|medium| self.shared.trash(medium));
        remove_all(gone.as_slice());
    }
}

#[cfg(test)]
mod tests;
