//! Directories to mount something over, at paths that need not exist on this machine.
//!
//! A process goes on with the paths that it had. Where the user may make the directory, it is made. Where not, the nearest directory above that exists is
//! covered by one in memory that has everything which was there, bound from below, and the new directory. Only the box sees it.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;

use crate::filesystem::{Outcome, bind_all, failed, fresh, open_directory};

/// So much is bound again at most.
const MOST: usize = 4096;

/// The directory, opened; made if it is not there.
pub(crate) fn open(path: &Path) -> Outcome<OwnedFd> {
    if !path.is_dir() && fs::create_dir_all(path).is_err() {
        cover(path)?;
    }
    open_directory(path)
}

/// What a directory has, for one that takes its place.
enum Item {
    Directory(OwnedFd),
    File(OwnedFd),
    Link(PathBuf),
}

fn cover(path: &Path) -> Outcome<()> {
    let above = path.ancestors().skip(1).find(|above| above.is_dir()).unwrap_or(Path::new("/"));
    if above == Path::new("/") {
        // It would hide everything.
        return Err(format!(
            "cannot make `{}`: have an administrator make this directory, empty",
            path.display()
        ));
    }
    let mut items = Vec::new();
    // What may not be listed is closed to its user anyway.
    for entry in fs::read_dir(above).into_iter().flatten().take(MOST) {
        let entry = entry.map_err(failed("list", above))?;
        let opened = |path: &Path| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).map_err(failed("open", path))
        };
        let kind = entry.file_type().map_err(failed("look at", &entry.path()))?;
        let item = match (kind.is_symlink(), kind.is_dir()) {
            (true, _) => Item::Link(fs::read_link(entry.path()).map_err(failed("read", &entry.path()))?),
            (_, true) => Item::Directory(opened(&entry.path())?),
            _ => Item::File(opened(&entry.path())?),
        };
        items.push((above.join(entry.file_name()), item));
    }
    fresh("tmpfs", &above.to_string_lossy(), MountFlags::NOSUID | MountFlags::NODEV, "mode=755")?;
    for (place, item) in items {
        match item {
            Item::Link(target) => symlink(target, &place).map_err(failed("link", &place))?,
            Item::Directory(fd) => {
                fs::create_dir(&place).map_err(failed("make", &place))?;
                bind_all(&fd, &place)?;
            }
            Item::File(fd) => {
                fs::File::create_new(&place).map_err(failed("make", &place))?;
                bind_all(&fd, &place)?;
            }
        }
    }
    fs::create_dir_all(path).map_err(failed("make", path))
}
