//! Whether a user may have what a path leads to: tried as that user, by the kernel.
//!
//! CRIU opens files as root. What it opens is then in the hands of the user's process, so the question is not whether the
//! path looks right but whether this user could have opened it. No rule of ours decides that: a thread takes on the user's
//! identity ([`sandbox::as_user`]) and walks the path with `openat2`, from a directory that root opened, without following a
//! single link. (The paths in images are those that the kernel reported, so they have no links
//! in them; one that has got a link since leads elsewhere than at the snapshot.) The walk ends in an `O_PATH` descriptor,
//! which opens nothing, and `access` is asked about that.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use sandbox::User;

/// What is to be done with what is at a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Need {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Run it, or search it if it is a directory.
    pub(crate) execute: bool,
    /// It becomes code of the process: must not be a set-user-id program of somebody else.
    pub(crate) code: bool,
    /// CRIU makes a name here, and takes away what has it now.
    pub(crate) make: bool,
}

/// One thing that CRIU would open or make.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Wanted {
    /// As the session sees it; for messages.
    pub(crate) inside: PathBuf,
    /// Where the walk begins, a directory that root opens …
    pub(crate) base: PathBuf,
    /// … and the rest of the way.
    pub(crate) below: PathBuf,
    pub(crate) need: Need,
}

/// Says which of `wanted` the user may not have.
pub(crate) fn check(wanted: &[Wanted], user: &User) -> sandbox::Result<Vec<String>> {
    let mut bases: Vec<(&Path, Result<OwnedFd, Errno>)> = Vec::new();
    for want in wanted {
        if !bases.iter().any(|(base, _)| *base == want.base) {
            bases.push((&want.base, open_base(&want.base)));
        }
    }
    sandbox::as_user(user, || {
        let mut refused = Vec::new();
        for want in wanted {
            let Some((_, base)) = bases.iter().find(|(base, _)| *base == want.base) else { continue };
            let answer = match base {
                Ok(base) => may(base, &want.below, want.need, user).map(drop),
                Err(error) => Err(format!("is in a place that cannot be opened ({error})")),
            };
            if let Err(reason) = answer {
                refused.push(format!("`{}` {reason}", want.inside.display()));
            }
        }
        refused
    })
}

/// A place to walk from. Root opens it, since the way there may be closed to the user.
pub(crate) fn open_base(base: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(base, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Walks `below` from `base` and asks for the rights. To be called as the user. Gives back what is there, or `None` if
/// nothing is: a rollback puts files back after this check, and a file that stays away fails the restore by itself.
pub(crate) fn may(base: &OwnedFd, below: &Path, need: Need, user: &User) -> Result<Option<OwnedFd>, String> {
    if need.make {
        let parent = below.parent().unwrap_or(Path::new(""));
        let Some(directory) = walk(base, parent)? else {
            return Err("would be made in a directory that is not there".to_owned());
        };
        if !has(&directory, Access::WRITE_OK | Access::EXEC_OK) {
            return Err("would be made in a directory that the user may not write to".to_owned());
        }
    }
    let Some(found) = walk(base, below)? else {
        // the nearest directory that is there must be one that the user can reach: else this asks about somebody else's
        let mut parent = below.parent();
        while let Some(path) = parent {
            if walk(base, path)?.is_some() {
                return Ok(None);
            }
            parent = path.parent();
        }
        return Ok(None);
    };
    let stat = rustix::fs::fstat(&found).map_err(|error| format!("cannot be examined ({error})"))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let owned = stat.st_uid == user.uid;
    if need.make && !owned {
        return Err("belongs to somebody else and would be replaced".to_owned());
    }
    if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice)
        && !is_harmless_device(kind, stat.st_rdev)
    {
        return Err("is a device that no session has".to_owned());
    }
    if need.code && !owned && stat.st_mode & 0o6000 != 0 && kind == FileType::RegularFile {
        return Err("is a set-user-id or set-group-id program".to_owned());
    }
    // the owner can give the right to themselves: a file opened for writing and then made read-only is no trick
    if owned {
        return Ok(Some(found));
    }
    for (wanted, access, what) in [
        (need.read, Access::READ_OK, "read"),
        (need.write, Access::WRITE_OK, "write to"),
        (need.execute, Access::EXEC_OK, "run or enter"),
    ] {
        if wanted && !has(&found, access) {
            return Err(format!("is nothing that user {} may {what}", user.uid));
        }
    }
    Ok(Some(found))
}

fn walk(base: &OwnedFd, below: &Path) -> Result<Option<OwnedFd>, String> {
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
    match rustix::fs::openat2(base, below, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::LOOP) => Err("leads through a symbolic link".to_owned()),
        Err(Errno::XDEV) => Err("leads out of where the walk began".to_owned()),
        Err(Errno::ACCESS) => Err("is in a directory that the user may not enter".to_owned()),
        Err(error) => Err(format!("cannot be reached by the user ({error})")),
    }
}

fn has(file: &OwnedFd, access: Access) -> bool {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::accessat(CWD, path.as_str(), access, AtFlags::empty()).is_ok()
}

/// The six nodes that the launcher makes, and pseudo-terminals.
pub(crate) fn is_harmless_device(kind: FileType, device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    kind == FileType::CharacterDevice
        && matches!((major, minor), (1, 3 | 5 | 7 | 8 | 9) | (5, 0 | 2) | (136..=143, _))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> User {
        let uid = rustix::process::getuid().as_raw();
        let mut user = sandbox::User::by_uid(uid).unwrap();
        user.uid = uid;
        user
    }

    fn ask(dir: &Path, below: &str, need: Need) -> Result<bool, String> {
        may(&open_base(dir).unwrap(), Path::new(below), need, &me()).map(|found| found.is_some())
    }

    #[test]
    fn a_link_on_the_way_is_refused_and_an_absent_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::fs::write(dir.path().join("d/f"), b"").unwrap();
        std::os::unix::fs::symlink("d", dir.path().join("l")).unwrap();
        let read = Need { read: true, ..Need::default() };
        assert_eq!(ask(dir.path(), "d/f", read), Ok(true));
        assert_eq!(ask(dir.path(), "d/absent/g", read), Ok(false));
        assert!(ask(dir.path(), "l/f", read).unwrap_err().contains("symbolic link"));
        assert!(ask(dir.path(), "l/absent", read).unwrap_err().contains("symbolic link"));
        assert!(ask(dir.path(), "../x", read).unwrap_err().contains("leads out"), "BENEATH");
        let make = Need { make: true, ..Need::default() };
        assert!(ask(dir.path(), "absent/g", make).unwrap_err().contains("not there"));
    }

    #[test]
    fn only_the_nodes_of_the_box_are_harmless() {
        let node = rustix::fs::makedev;
        assert!(is_harmless_device(FileType::CharacterDevice, node(1, 3)));
        assert!(is_harmless_device(FileType::CharacterDevice, node(136, 4)));
        assert!(!is_harmless_device(FileType::CharacterDevice, node(1, 1)), "/dev/mem");
        assert!(!is_harmless_device(FileType::CharacterDevice, node(195, 0)));
        assert!(!is_harmless_device(FileType::BlockDevice, node(8, 0)));
    }
}
