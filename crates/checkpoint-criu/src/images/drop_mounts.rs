//! Leaving mounts out of `mountpoints-*.img`.
//!
//! A box has every file system of the machine that was mounted when it was made. One of them may be gone when it is restored, a
//! disk that was unplugged or somebody's tmpfs, and CRIU would have nothing to mount there. If no process has anything
//! open on it, it is not missed. Entries that stay are not touched: each is a `u32` length and a message, as CRIU wrote them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use prost::Message;

use super::Mountpoint;
use super::entries::{Entries, MAX_IMAGE, magic, read_whole};
use crate::error::{CriuError, Result};

/// Leaves the mounts with these numbers ([`Mountpoint::mnt_id`]) out of all mount tables in `dir`. Each table is replaced as a
/// whole or not at all.
pub fn drop_mounts(dir: &Path, numbers: &BTreeSet<u32>) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(CriuError::io("list", dir))? {
        let path = entry.map_err(CriuError::io("list", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("mountpoints-") || !name.ends_with(".img") {
            continue;
        }
        let old = read_whole(&path, MAX_IMAGE)?;
        let fresh = without(&path, &old, numbers)?;
        if fresh != old {
            let temporary = dir.join(format!(".{name}.new"));
            let mut file = File::create(&temporary).map_err(CriuError::io("create", &temporary))?;
            file.write_all(&fresh).map_err(CriuError::io("write", &temporary))?;
            file.sync_all().map_err(CriuError::io("sync", &temporary))?;
            fs::rename(&temporary, &path).map_err(CriuError::io("rename", &temporary))?;
        }
    }
    Ok(())
}

/// The same on bytes; `path` is only for messages.
fn without(path: &Path, image: &[u8], numbers: &BTreeSet<u32>) -> Result<Vec<u8>> {
    let mut entries = Entries::new(path, image, magic::MNTS)?;
    let mut fresh = entries.head(image).to_vec();
    while let Some(entry) = entries.next_bytes()? {
        let mount = Mountpoint::decode(entry)
            .map_err(|error| CriuError::image(path, format!("cannot be decoded: {error}")))?;
        if numbers.contains(&mount.mnt_id) {
            continue;
        }
        let size = u32::try_from(entry.len()).map_err(|_| CriuError::image(path, "an entry is too long"))?;
        fresh.extend(size.to_le_bytes());
        fresh.extend(entry);
    }
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use super::super::entries::image_of;
    use super::*;

    #[test]
    fn only_the_named_ones_go() {
        let mount = |mnt_id: u32| Mountpoint { mnt_id, ..Mountpoint::default() }.encode_to_vec();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mountpoints-12.img");
        fs::write(&path, image_of(magic::MNTS, &[mount(1), mount(2), mount(3)])).unwrap();
        drop_mounts(dir.path(), &BTreeSet::from([2, 9])).unwrap();
        assert_eq!(fs::read(&path).unwrap(), image_of(magic::MNTS, &[mount(1), mount(3)]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::write(&path, b"nonsense").unwrap();
        drop_mounts(dir.path(), &BTreeSet::new()).unwrap_err();
    }
}
