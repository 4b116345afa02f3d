//! The key of an encrypted store: a file that only its user can read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::io_error;
use cas_core::crypto::{MIN_KEY_FILE_LEN, Unlock};
use sandbox::bounded;
use zeroize::Zeroizing;

use crate::error::{HistoryError, Result};

/// A longer file is not what was meant.
const LONGEST: usize = 1 << 20;

/// What opens the store, and the file that it came from.
#[derive(Clone, Debug)]
pub struct StoreKey {
    pub(crate) path: PathBuf,
    pub(crate) unlock: Unlock,
}

impl StoreKey {
    /// Reads it. What others could have read is no secret, so that is refused; and so is what others could have written.
    pub fn read(path: &Path) -> Result<Self> {
        let refused = |why: String| HistoryError::StoreKey { path: path.to_owned(), why };
        let file = bounded::open_through_links(path).map_err(|error| refused(error.to_string()))?;
        let found = file.metadata().map_err(|error| refused(error.to_string()))?;
        let us = rustix::process::geteuid().as_raw();
        if found.uid() != us {
            return Err(refused(format!("it belongs to user {}, not to user {us}", found.uid())));
        }
        if found.mode() & 0o077 != 0 {
            return Err(refused(format!("others may use it (mode {:o})", found.mode() & 0o7777)));
        }
        if found.len() < MIN_KEY_FILE_LEN as u64 || found.len() > LONGEST as u64 {
            return Err(refused(format!(
                "it has {} bytes, and a key has {MIN_KEY_FILE_LEN} to {LONGEST}",
                found.len()
            )));
        }
        // All room is there from the start: growing would leave copies of the secret behind.
        let mut content = Zeroizing::new(Vec::with_capacity(LONGEST));
        file.take(found.len()).read_to_end(&mut content).map_err(|error| refused(error.to_string()))?;
        Ok(Self { path: path.to_owned(), unlock: Unlock::KeyFile(content) })
    }

    /// Reads it, or makes a random one if there is none. Durable when this returns: what is sealed with it must not outlive it.
    pub fn read_or_make(path: &Path) -> Result<Self> {
        match make(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            made => made.map_err(io_error("create", path))?,
        }
        Self::read(path)
    }
}

fn make(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let random = Zeroizing::new(cas_core::fsio::random_bytes::<32>().map_err(io::Error::other)?);
    // Text, so that it can be printed and kept on paper.
    let text = Zeroizing::new(format!("{}\n", cas_core::id::hex(&*random)));
    // Whole or not there: half a key would be taken for one.
    let name = cas_core::fsio::random_name().map_err(io::Error::other)?;
    let new = directory.join(format!(".store-key-{name}"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| std::fs::hard_link(&new, path));
    std::fs::remove_file(&new)?;
    linked?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_only_its_user_may_have_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config/store.key");
        StoreKey::read(&path).unwrap_err();
        StoreKey::read_or_make(&path).unwrap();
        let text = fs::read(&path).unwrap();
        assert_eq!((text.len(), fs::metadata(&path).unwrap().mode() & 0o7777), (65, 0o600));
        StoreKey::read_or_make(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), text, "one that is there stays");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "and nothing beside it");
        for open in [0o640, 0o604, 0o610, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
            let refused = StoreKey::read_or_make(&path).unwrap_err();
            assert!(refused.to_string().contains("others may"), "{refused}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        StoreKey::read(&path).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
            let refused = StoreKey::read(&path).unwrap_err().to_string();
            assert!(refused.contains("belongs to user 4711"), "{refused}");
        }
    }

    #[test]
    fn what_is_hardly_a_key_is_none() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        for content in [vec![1; 31], vec![1; (1 << 20) + 1]] {
            let _ = fs::remove_file(&path);
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
            fs::write(&path, &content).unwrap();
            assert!(StoreKey::read(&path).unwrap_err().to_string().contains("a key has 32 to"));
        }
        let refused = StoreKey::read(home.path()).unwrap_err();
        assert!(matches!(refused, HistoryError::StoreKey { .. }), "{refused}");
    }
}
