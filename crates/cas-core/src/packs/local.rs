//! Packs as files in the store's own directory.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{PackBytes, Packs};
use crate::error::{Result, StoreError};
use crate::fsio::{Disk, LocalDisk};
use crate::id::PackId;
use crate::layout::Layout;

/// A directory with packs in it: `objects/ab/ID.pack`.
#[derive(Clone, Debug)]
pub struct LocalPacks {
    layout: Layout,
    disk: Arc<dyn Disk>,
}

impl LocalPacks {
    /// The packs of the store at `root`, on the machine's own disk.
    pub fn below(root: &Path) -> Self {
        Self::new(Layout::new(root), Arc::new(LocalDisk))
    }

    /// The packs of a store with this layout on this disk.
    pub fn new(layout: Layout, disk: Arc<dyn Disk>) -> Self {
        Self { layout, disk }
    }
}

impl Packs for LocalPacks {
    fn list(&self) -> Result<Vec<PackId>> {
        let mut packs = Vec::new();
        for directory in self.layout.pack_dirs() {
            let entries = match self.disk.list(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(StoreError::io("list", &directory)(error)),
            };
            for entry in entries {
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
            self.disk.sync_dir(&directory).map_err(StoreError::io("sync directory", &directory))?;
        }
        Ok(removed)
    }
}
