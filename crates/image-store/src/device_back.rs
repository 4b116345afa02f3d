//! Device memory out of the store, into the files that a driver's restore reads.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use base::io_error;
use cas_core::Store;
use cas_core::progress::Progress;
use manifest::snapshot::MemorySection;
use manifest::{FileName, Snapshot};

use crate::error::{ImageError, Result};
use crate::pages::{PagesFile, PagesLayout};

/// Writes the device memory of `snapshot` to `dir`, which is made: `PID/UUID.vram`. Says whether there was any. `commit` is for errors.
pub fn lay_out_device_memory(
    store: &Store,
    commit: &str,
    snapshot: &Snapshot,
    dir: &Path,
    progress: &dyn Progress,
) -> Result<bool> {
    let bad = |detail: String| ImageError::NotWhole { commit: commit.to_owned(), detail };
    let mut any = false;
    for space in snapshot.get::<MemorySection>()?.unwrap_or_default().spaces {
        let Some((pid, gpu)) = space.name.strip_prefix("gpu:").and_then(|name| name.split_once(':')) else {
            continue;
        };
        // Both become paths, and may come from anybody's snapshot.
        let file = format!("{gpu}.vram");
        if pid.parse::<u32>().is_err() || FileName::new(file.as_str()).is_err() {
            return Err(bad(format!("{:?} is not the name of device memory", space.name)));
        }
        let map = space.map.into();
        let layout = PagesLayout::whole(&map);
        if layout.bytes() != space.bytes.next_multiple_of(cas_core::memory::PAGE as u64) {
            return Err(bad(format!("{} has {} bytes, and pages for others", space.name, space.bytes)));
        }
        let own = dir.join(pid);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&own);
        made.map_err(io_error("create", &own))?;
        let path = own.join(file);
        let created = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = created.map_err(io_error("create", &path))?;
        file.set_len(layout.bytes()).map_err(io_error("set the length of", &path))?;
        let pages = PagesFile::new(file.try_clone().map_err(io_error("open", &path))?, layout);
        store.read_memory(&map, &pages, progress)?;
        if !pages.is_full() {
            return Err(bad(format!("{} has other pages than its length says", space.name)));
        }
        file.set_len(space.bytes).map_err(io_error("set the length of", &path))?;
        any = true;
    }
    Ok(any)
}
