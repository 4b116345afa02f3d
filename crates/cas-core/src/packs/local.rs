//! Packs as files in the store's own directory.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{PackBytes, Packs};
use crate::error::{Result, StoreError};
use crate::fsio::{Disk, Listed, LocalDisk};
use crate::id::PackId;
use crate::layout::Layout;

/// A directory with packs in it: `objects/ab/ID.pack`.
#[derive(Clone, Debug)]
pub struct LocalPacks {
    layout: Layout,
    disk: Arc<dyn Disk>,
    /// Directories of packs that are there for good.
    durable: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl LocalPacks {
    /// The packs of the store at `root`, on the machine's own disk.
    pub fn below(root: &Path) -> Self {
        Self::new(Layout::new(root), Arc::new(LocalDisk))
    }

    /// The packs of a store with this layout on this disk.
    pub fn new(layout: Layout, disk: Arc<dyn Disk>) -> Self {
        Self { layout, disk, durable: Arc::default() }
    }

    /// Makes the directory of a pack, if it is the first in there, and sees to it that it stays. One that is there already may have been made by
    /// somebody who has not come to that.
    fn make_durable(&self, directory: &Path) -> Result<()> {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if !durable.contains(directory) {
            let objects = self.layout.objects();
            self.disk.create_dir(directory).map_err(StoreError::io("create directory", directory))?;
            self.disk.sync_dir(&objects).map_err(StoreError::io("sync directory", &objects))?;
            durable.insert(directory.to_path_buf());
        }
        Ok(())
    }

    /// What is in a directory; nothing, if there is none.
    fn entries(&self, directory: &Path) -> Result<Vec<Listed>> {
        match self.disk.list(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.map_err(StoreError::io("list", directory)),
        }
    }
}

/// Whether something in `objects` is a directory of packs, called by a byte.
fn has_packs(entry: &Listed) -> bool {
    let name = entry.name.as_bytes();
    entry.is_dir && name.len() == 2 && name.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

impl Packs for LocalPacks {
    fn list(&self) -> Result<Vec<PackId>> {
        let objects = self.layout.objects();
        let mut packs = Vec::new();
        for directory in self.entries(&objects)?.into_iter().filter(has_packs) {
            for entry in self.entries(&objects.join(directory.name))? {
                let name = entry.name.to_str().and_then(|name| name.strip_suffix(".pack"));
                packs.extend(name.and_then(|name| name.parse::<PackId>().ok()));
            }
        }
        packs.sort_unstable();
        Ok(packs)
    }

    fn open(&self, pack: &PackId) -> Result<PackBytes> {
        let path = self.layout.pack(pack);
        match self.disk.open(&path) {
            Ok(bytes) => Ok(PackBytes::new(path, bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::MissingPack { pack: *pack })
            }
            Err(error) => Err(StoreError::io("open", path)(error)),
        }
    }

    fn put_new(&self, pack: &PackId, staged: &Path) -> Result<()> {
        let (path, directory) = (self.layout.pack(pack), self.layout.pack_dir(pack));
        self.make_durable(&directory)?;
        self.disk.rename_new(staged, &path).map_err(StoreError::io("rename into place", &path))?;
        self.disk.sync_dir(&directory).map_err(StoreError::io("sync directory", &directory))
    }

    fn remove(&self, packs: &[PackId]) -> Result<u64> {
        let mut removed = 0;
        for pack in packs {
            let path = self.layout.pack(pack);
            match self.disk.remove(&path) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(StoreError::io("remove", path)(error)),
            }
        }
        // Also those of packs that were not there: whoever removed them may have died before this.
        let directories: BTreeSet<_> = packs.iter().map(|pack| self.layout.pack_dir(pack)).collect();
        for directory in directories {
            match self.disk.sync_dir(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other.map_err(StoreError::io("sync directory", &directory))?,
            }
        }
        Ok(removed)
    }
}
