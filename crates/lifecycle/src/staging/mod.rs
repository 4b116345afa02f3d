//! Where dumps are written, and where plain images are kept for quick restores.
//!
//! ```text
//! state/staging/<name>         a dump that is being written or stored; removed at the next start
//! state/staging/<name>.files   files captured with it
//! state/cache/<snapshot>       images of a snapshot that is in the store ([`cache`])
//! run/tmpfs/staging, cache     the same in memory, for dumps that are too large for the page cache ([`room`])
//! ```
//!
//! Nothing here is the only copy of anything: what is staged is either on its way into the store, with its processes still
//! there, or on its way out of it.

mod cache;
mod room;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mount::{MountFlags, mount};

use crate::error::{LifecycleError, Result, io_error};
use cache::{Cache, remove};
use room::{Medium, Memory, Room, disk_free};

/// The cache takes a quarter of the memory, but no more than this, unless the configuration says otherwise.
const CACHE_LIMIT: u64 = 8 << 30;
/// A dump is this much larger than the memory in it: other images, and what is touched until it stands still.
const OVERHEAD: u64 = 16 << 20;

/// All staging places and the cache. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Stages {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    disk: PathBuf,
    memory: PathBuf,
    boot: String,
    cache: Cache,
    /// What was promised to those who are staging now, on disk and in memory.
    promised: Mutex<(u64, u64)>,
}

impl Stages {
    /// Opens the places below the state and run directories, and removes what an earlier daemon left unfinished.
    pub(crate) fn open(state: &Path, run: &Path, cache_bytes: Option<u64>) -> Result<Self> {
        let limit = match cache_bytes {
            Some(limit) => limit,
            None => (Memory::read()?.total / 4).min(CACHE_LIMIT),
        };
        let boot = "/proc/sys/kernel/random/boot_id";
        let boot = fs::read_to_string(boot).map_err(io_error("read", boot))?;
        let shared = Shared {
            disk: state.to_owned(),
            memory: run.join("tmpfs"),
            boot,
            cache: Cache::new(limit),
            promised: Mutex::default(),
        };
        shared.prepare(Medium::Disk)?;
        if shared.is_mounted() {
            shared.prepare(Medium::Memory)?;
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A new directory for images of about so many bytes of memory, where they are written with the shortest pause. Refused
    /// if they fit nowhere.
    pub(crate) fn stage(&self, memory_bytes: u64) -> Result<Staged> {
        self.stage_beside(memory_bytes, 0)
    }

    /// The same where the processes themselves are about to need so many bytes more of the machine's memory.
    pub(crate) fn stage_beside(&self, memory_bytes: u64, soon_used: u64) -> Result<Staged> {
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
        let no_room = || LifecycleError::NoRoom {
            path: shared.staging(Medium::Disk),
            needed: bytes,
            available: room.disk.max(room.memory),
        };
        let mut medium = room.best(bytes).ok_or_else(no_room)?;
        if medium == Medium::Memory && shared.mount().is_err() {
            // Not everyone may mount. The disk is slower, that is all.
            medium = if bytes <= room.disk { Medium::Disk } else { return Err(no_room()) };
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
    pub(crate) fn adopt(&self, staged: Staged, snapshot: &str) {
        drop(self.keep(staged, snapshot));
    }

    /// The same, for someone who needs the images now, kept or not.
    pub(crate) fn keep(&self, staged: Staged, snapshot: &str) -> PlainImages {
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
    pub(crate) fn cached(&self, snapshot: &str) -> Option<Cached> {
        let path = self.shared.cache.pin(snapshot)?;
        Some(Cached { shared: self.shared.clone(), snapshot: snapshot.to_owned(), path })
    }

    /// Keeps the images of a snapshot no longer.
    pub(crate) fn forget(&self, snapshot: &str) {
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
        self.cache.load(&cache, medium, &self.boot)
    }

    fn room(&self, promised: (u64, u64)) -> Result<Room> {
        Ok(Room::of(disk_free(&self.staging(Medium::Disk))?, &Memory::read()?, promised))
    }

    fn make_room(&self, medium: Medium, bytes: u64) {
        if bytes > 0 {
            remove_all(&self.cache.make_room(medium, bytes, &|medium| self.trash(medium)));
        }
    }

    /// Our tmpfs is another file system than the directory that it is in.
    fn is_mounted(&self) -> bool {
        let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
        let parent = self.memory.parent().and_then(device);
        device(&self.memory).is_some_and(|own| Some(own) != parent)
    }

    /// Mounts our tmpfs, unless it is there. It stays, with what is in it, for the daemons after us.
    fn mount(&self) -> Result<()> {
        if self.is_mounted() {
            return Ok(());
        }
        let path = &self.memory;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(io_error("create", path))?;
        // The limit is for mistakes: how much may be used is decided before each dump.
        let options = format!("mode=0700,size={}", Memory::read()?.total / 4 * 3);
        let options = std::ffi::CString::new(options).map_err(io_error("mount", path))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("infinijup", path, "tmpfs", flags, options.as_c_str()).map_err(io_error("mount", path))?;
        self.prepare(Medium::Memory)
    }

    /// A new name in the staging directory, for something that is to be removed.
    fn trash(&self, medium: Medium) -> io::Result<PathBuf> {
        let name = random_name().map_err(io::Error::other)?;
        Ok(self.staging(medium).join(name))
    }
}

/// What cannot be removed now, the next start removes.
fn remove_all(paths: &[PathBuf]) {
    for path in paths {
        let _ = remove(path);
    }
}

fn random_name() -> Result<String> {
    let number = getrandom::u64()
        .map_err(|error| LifecycleError::Bug(format!("the system has no random bytes: {error}")))?;
    Ok(format!("{number:016x}"))
}

/// A directory of images that are being written, or are not needed for long. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Staged {
    images: PathBuf,
    files: PathBuf,
    medium: Medium,
    promised: u64,
    shared: Arc<Shared>,
}

impl Staged {
    /// Where the images are.
    pub(crate) fn path(&self) -> &Path {
        &self.images
    }

    /// Where captured files are. Always on disk.
    pub(crate) fn files(&self) -> &Path {
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
pub(crate) enum PlainImages {
    /// Kept for others too.
    Kept(Cached),
    /// Only for now.
    Staged(Staged),
}

impl PlainImages {
    /// Where they are.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(cached) => cached.path(),
            Self::Staged(staged) => staged.path(),
        }
    }
}

/// Images that are kept, and stay while this lives.
#[derive(Debug)]
pub(crate) struct Cached {
    shared: Arc<Shared>,
    snapshot: String,
    path: PathBuf,
}

impl Cached {
    /// Where they are. Others restore from them at the same time: they must not be changed.
    pub(crate) fn path(&self) -> &Path {
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
