//! The second place at which a runtime mounts a container's root directory while it restores: `criu-root`, in the state directory of runc's, and in
//! the bundle of crun's. One that is killed leaves it mounted.

use std::fs;
use std::path::{Path, PathBuf};

use base::io_error;
use base::proc::{mounts_in, read_text_at};
use rustix::mount::{UnmountFlags, unmount};

use super::error::Result;

/// What it is called.
pub(super) const SECOND_ROOT: &str = "criu-root";
/// More mounts above each other are no accident.
const MOST_ABOVE_EACH_OTHER: usize = 64;

/// Unmounts it in this directory, with all that is mounted in it. It is no error if nothing is.
pub(super) fn unmount_second_root(directory: &Path) -> Result<()> {
    // A link of that name is not the runtime's, and is not followed.
    let Ok(place) = fs::canonicalize(directory).map(|directory| directory.join(SECOND_ROOT)) else {
        return Ok(());
    };
    let listed = as_listed(&place);
    let there = mounts()?.into_iter().filter(|target| *target == listed).count();
    for _ in 0..there.min(MOST_ABOVE_EACH_OTHER) {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        unmount(&place, flags).map_err(io_error("unmount", &place))?;
    }
    Ok(())
}

/// Where something is mounted, as our own process sees it.
pub(super) fn mounts() -> Result<Vec<PathBuf>> {
    let path = Path::new("/proc/self/mountinfo");
    let text = read_text_at(path).map_err(io_error("read", path))?;
    Ok(mounts_in(&text).map(|mount| mount.target).collect())
}

/// A path as [`mounts`] has it: what is no UTF-8 is replaced there.
pub(super) fn as_listed(path: &Path) -> PathBuf {
    path.to_string_lossy().into_owned().into()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_directory_without_the_mount_is_left_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        unmount_second_root(home.path()).unwrap();
        unmount_second_root(&home.path().join("gone")).unwrap();
        fs::create_dir(home.path().join(SECOND_ROOT)).unwrap();
        unmount_second_root(home.path()).unwrap();
        assert!(home.path().join(SECOND_ROOT).is_dir());
    }

    #[test]
    fn a_link_of_that_name_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        // If it were, the machine's `/proc` would be unmounted, or at least tried to be.
        std::os::unix::fs::symlink("/proc", home.path().join(SECOND_ROOT)).unwrap();
        unmount_second_root(home.path()).unwrap();
        assert!(mounts().unwrap().iter().any(|target| target == Path::new("/proc")));
    }

    #[test]
    fn a_name_that_is_no_text_is_still_found_in_the_list() {
        let odd = Path::new(OsStr::from_bytes(b"/run/\xffc1"));
        assert_eq!(as_listed(odd), Path::new("/run/\u{fffd}c1"));
        assert_eq!(as_listed(Path::new("/run/c1")), Path::new("/run/c1"));
    }
}
