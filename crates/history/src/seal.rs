//! The mark that says: this installation took this snapshot.
//!
//! Snapshots travel: a store can be copied, exported and imported. A snapshot from elsewhere is a foreign program. So each
//! snapshot that the daemon takes is sealed with a key that never leaves the machine, over the commit (which, being a hash,
//! stands for everything in it). Without a seal it is restored only when its owner says so, and never by root's daemon.
//!
//! `seal.key` holds 32 random bytes, readable by its user only, made once. A seal is one small file per commit in
//! `seals/`, spread over 256 directories; making and checking one does not depend on how many there are.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::io_error;

use crate::error::{HistoryError, Result};

const KEY_FILE: &str = "seal.key";
const KEY_LEN: usize = 32;
/// What is sealed, so that the key can never be used for anything else.
const PURPOSE: &[u8] = b"infinijup snapshot seal, version 1\0";

/// Makes and checks seals.
pub struct Sealer {
    key: [u8; KEY_LEN],
    seals: PathBuf,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("seals", &self.seals).finish_non_exhaustive()
    }
}

impl Sealer {
    /// Reads the key of this installation, and makes it if there is none.
    pub fn open(state: &Path) -> Result<Self> {
        let path = state.join(KEY_FILE);
        let key = match read_key(&path)? {
            Some(key) => key,
            None => {
                make_key(state, &path)?;
                read_key(&path)?.ok_or_else(|| damaged(&path, "it vanished while it was made"))?
            }
        };
        Ok(Self { key, seals: state.join("seals") })
    }

    /// Seals a commit. Durable when it returns.
    pub fn seal(&self, commit: &str) -> Result<()> {
        let path = self.path(commit).ok_or_else(|| not_sealed(commit))?;
        let directory = path.parent().unwrap_or(&self.seals);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(io_error("create", directory))?;
        write_new(&path, self.mark(commit).as_bytes(), true)?;
        for directory in path.ancestors().skip(1).take(2) {
            sync_directory(directory)?;
        }
        Ok(())
    }

    /// Refuses a commit that was not sealed here.
    pub fn check(&self, commit: &str) -> Result<()> {
        let refused = || not_sealed(commit);
        let path = self.path(commit).ok_or_else(refused)?;
        let found = match read_exactly(&path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
            other => other.map_err(io_error("read", &path))?,
        };
        let found = found.ok_or_else(refused)?;
        // comparing two `blake3::Hash` takes the same time wherever they differ
        if blake3::Hash::from_bytes(found) == self.mark(commit) { Ok(()) } else { Err(refused()) }
    }

    /// Takes a seal away, when its commit is gone.
    pub fn remove(&self, commit: &str) -> Result<()> {
        let Some(path) = self.path(commit) else { return Ok(()) };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("remove", path)(error).into())
            }
            _ => Ok(()),
        }
    }

    fn mark(&self, commit: &str) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(PURPOSE).update(commit.as_bytes());
        hasher.finalize()
    }

    /// Where the seal of a commit is; `None` if this is no id of a commit.
    fn path(&self, commit: &str) -> Option<PathBuf> {
        let plain = (16..=128).contains(&commit.len())
            && commit.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let (shard, rest) = commit.split_at_checked(2).filter(|_| plain)?;
        Some(self.seals.join(shard).join(rest))
    }
}

fn not_sealed(commit: &str) -> HistoryError {
    HistoryError::NotSealed { commit: commit.to_owned() }
}

fn damaged(path: &Path, detail: &str) -> HistoryError {
    HistoryError::Damaged { path: path.to_owned(), detail: detail.to_owned() }
}

fn read_key(path: &Path) -> Result<Option<[u8; KEY_LEN]>> {
    match read_exactly(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(damaged(path, "it is not 32 bytes long; without it no earlier snapshot counts as made here"))
        }
        other => Ok(other.map_err(io_error("read", path))?),
    }
}

/// The 32 bytes in a file, `None` if there is no file.
fn read_exactly(path: &Path) -> io::Result<Option<[u8; KEY_LEN]>> {
    let file = match OpenOptions::new().read(true).custom_flags(libc_nofollow()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut bytes = Vec::with_capacity(KEY_LEN + 1);
    file.take(KEY_LEN as u64 + 1).read_to_end(&mut bytes)?;
    bytes.try_into().map(Some).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn libc_nofollow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
}

/// Two daemons that start at once must end up with one key: whoever links first has made it.
fn make_key(state: &Path, path: &Path) -> Result<()> {
    let key = cas_core::fsio::random_bytes::<KEY_LEN>()?;
    write_new(path, &key, false)?;
    sync_directory(state)
}

/// Writes a file under another name and then gives it its own: it is there whole or not at all.
fn write_new(path: &Path, content: &[u8], replace: bool) -> Result<()> {
    let name = cas_core::fsio::random_name()?;
    let temporary = path.with_file_name(format!(".{name}"));
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        if replace {
            return fs::rename(&temporary, path);
        }
        match fs::hard_link(&temporary, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    };
    let written = write();
    if !replace || written.is_err() {
        // after a rename there is nothing left to take away
        let _absent_is_fine = fs::remove_file(&temporary);
    }
    Ok(written.map_err(io_error("write", path))?)
}

pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    Ok(File::open(path).and_then(|directory| directory.sync_all()).map_err(io_error("sync", path))?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const COMMIT: &str = "3f9a01c2d4e5f60718293a4b5c6d7e8f3f9a01c2d4e5f60718293a4b5c6d7e8f";

    #[track_caller]
    fn refused(result: Result<()>) {
        assert!(matches!(result, Err(HistoryError::NotSealed { .. })), "{result:?}");
    }

    #[test]
    fn what_was_sealed_here_passes_and_nothing_else() {
        let state = tempfile::tempdir().unwrap();
        let sealer = Sealer::open(state.path()).unwrap();
        refused(sealer.check(COMMIT));
        sealer.seal(COMMIT).unwrap();
        sealer.check(COMMIT).unwrap();
        sealer.seal(COMMIT).unwrap();
        let other = COMMIT.replace('3', "4");
        refused(sealer.check(&other));
        // another commit's seal, copied
        let (from, to) = (sealer.path(COMMIT).unwrap(), sealer.path(&other).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
        refused(sealer.check(&other));
        sealer.remove(COMMIT).unwrap();
        sealer.remove(COMMIT).unwrap();
        refused(sealer.check(COMMIT));
    }

    #[test]
    fn the_key_stays_and_is_closed() {
        let state = tempfile::tempdir().unwrap();
        Sealer::open(state.path()).unwrap().seal(COMMIT).unwrap();
        Sealer::open(state.path()).unwrap().check(COMMIT).unwrap();
        let mode = fs::metadata(state.path().join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left: Vec<_> =
            fs::read_dir(state.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "no temporary file is left: {left:?}");
        // another installation does not take it
        let other = tempfile::tempdir().unwrap();
        let sealer = Sealer::open(other.path()).unwrap();
        let (from, to) = (state.path().join("seals"), other.path().join("seals"));
        fs::rename(from, to).unwrap();
        refused(sealer.check(COMMIT));
    }

    #[test]
    fn two_that_start_at_once_have_one_key() {
        let state = tempfile::tempdir().unwrap();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..8).map(|_| scope.spawn(|| Sealer::open(state.path()).unwrap().key)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        assert!(keys.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn names_that_are_no_ids_and_damaged_files_are_refused() {
        let state = tempfile::tempdir().unwrap();
        let sealer = Sealer::open(state.path()).unwrap();
        for name in [
            "",
            "..",
            "../../../etc/shadow",
            "3F9A01C2D4E5F607",
            &"a/".repeat(32),
            "aa\0aaaaaaaaaaaaaaaa",
            &"a".repeat(4096),
        ] {
            refused(sealer.check(name));
            refused(sealer.seal(name));
        }
        sealer.seal(COMMIT).unwrap();
        for content in [&[0; 32][..], b"short"] {
            fs::write(sealer.path(COMMIT).unwrap(), content).unwrap();
            refused(sealer.check(COMMIT));
        }
        fs::write(state.path().join(KEY_FILE), b"short").unwrap();
        assert!(matches!(Sealer::open(state.path()), Err(HistoryError::Damaged { .. })));
    }
}
