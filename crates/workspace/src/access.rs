//! Opening other people's files.
//!
//! Everything here runs on a thread with the user's credentials. A lookup starts at a directory handle, follows no link and
//! cannot leave the directory; what is opened is looked at before it is used, so that a FIFO or a device in the place of a
//! file is refused and never waited for.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use manifest::tree::Time;
use manifest::{Entry, FileName, Node};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Statx, StatxFlags, Uid};
use rustix::io::Errno;

use super::{Base, Places, Spot};

/// What is known of a file without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    pub(crate) device: (u32, u32),
    pub(crate) ino: u64,
    pub(crate) kind: FileType,
    /// Of a device, which one it is.
    pub(crate) names_device: (u32, u32),
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) nlink: u64,
    pub(crate) size: u64,
    /// Bytes that it takes on disk, less than `size` if it has holes.
    pub(crate) allocated: u64,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    /// When it was made, where the file system knows.
    pub(crate) born: Option<Time>,
}

impl From<Statx> for Facts {
    fn from(stat: Statx) -> Self {
        let time = |seconds, nanoseconds| Time { seconds, nanoseconds };
        let has_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            kind: FileType::from_raw_mode(stat.stx_mode.into()),
            names_device: (stat.stx_rdev_major, stat.stx_rdev_minor),
            mode: u32::from(stat.stx_mode) & 0o7777,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            nlink: stat.stx_nlink.into(),
            size: stat.stx_size,
            allocated: stat.stx_blocks.saturating_mul(512),
            mtime: time(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            ctime: time(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
            born: has_birth.then(|| time(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
        }
    }
}

impl Facts {
    pub(crate) fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Whether nothing can have changed since the entry was made. An entry without a ctime never says so.
    pub(crate) fn unchanged_since(&self, entry: &Entry) -> bool {
        matches!(entry.node, Node::File { size, .. } if size == self.size)
            && self.is_file()
            && entry.ino == Some(self.ino)
            && entry.ctime == Some(self.ctime)
    }

    /// Whether it has the owner and the mode of an entry.
    pub(crate) fn is_owned_as(&self, entry: &Entry) -> bool {
        (self.uid, self.gid, self.mode) == (entry.uid, entry.gid, entry.mode)
    }

    /// Whether it is the same file, and nothing was written to it in between.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        (self.ino, self.size, self.ctime) == (other.ino, other.size, other.ctime)
    }

    /// An entry with these attributes.
    pub(crate) fn entry(&self, name: FileName, node: Node) -> Entry {
        let mut entry = Entry::new(name, node);
        (entry.mode, entry.uid, entry.gid) = (self.mode, self.uid, self.gid);
        if !self.is_dir() {
            // A directory's own times and number say nothing that its entries don't, and would make every tree a new object.
            (entry.mtime, entry.ino, entry.ctime) = (self.mtime, Some(self.ino), Some(self.ctime));
            entry.nlink = Some(self.nlink);
        }
        entry
    }
}

const FACTS: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// What a handle is of.
pub(crate) fn facts_of(handle: impl AsFd) -> io::Result<Facts> {
    Ok(rustix::fs::statx(handle, c"", AtFlags::EMPTY_PATH, FACTS)?.into())
}

/// What a name in a directory is of; a link is a link.
pub(crate) fn facts_at(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Facts> {
    Ok(rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, FACTS)?.into())
}

/// What `/proc/PID/fd/N` is of: the one kind of link that is meant to be followed.
pub(crate) fn facts_of_magic(link: &Path) -> io::Result<Facts> {
    Ok(rustix::fs::statx(CWD, link, AtFlags::empty(), FACTS)?.into())
}

/// The last name of a path, as an entry has it.
pub(crate) fn file_name(path: &Path) -> io::Result<FileName> {
    let name = path.file_name().unwrap_or_else(|| OsStr::new(""));
    FileName::new(name.as_bytes()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// The directories that lookups start at.
#[derive(Debug)]
pub(crate) struct Bases {
    workspace: Option<OwnedFd>,
    root: OwnedFd,
}

impl Bases {
    /// Opens them. How the workspace is reached is the user's business, so links on the way are followed.
    pub(crate) fn open(places: &Places) -> io::Result<Self> {
        let workspace = match &places.workspace {
            // A workspace that is gone has no files; whoever needs one of them will hear it.
            Some((_, outside)) => open_directory(outside).ok(),
            None => None,
        };
        Ok(Self { workspace, root: open_directory(Path::new("/"))? })
    }

    /// With a workspace that is open already.
    pub(crate) fn with_workspace(workspace: OwnedFd) -> io::Result<Self> {
        Ok(Self { workspace: Some(workspace), root: open_directory(Path::new("/"))? })
    }

    pub(crate) fn get(&self, base: Base) -> io::Result<BorrowedFd<'_>> {
        match (base, &self.workspace) {
            (Base::Root, _) => Ok(self.root.as_fd()),
            (Base::Workspace, Some(handle)) => Ok(handle.as_fd()),
            (Base::Workspace, None) => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    /// What is at a spot. `None` if nothing is.
    pub(crate) fn facts(&self, spot: &Spot) -> io::Result<Option<Facts>> {
        match open_below(self.get(spot.base)?, &spot.below, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(handle) => Ok(Some(facts_of(handle)?)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a directory.
    pub(crate) fn directory(&self, spot: &Spot) -> io::Result<OwnedFd> {
        let below = if spot.below.as_os_str().is_empty() { Path::new(".") } else { &spot.below };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        open_below(self.get(spot.base)?, below, flags, Mode::empty())
    }

    /// Opens a regular file.
    pub(crate) fn open_file(&self, spot: &Spot, access: OFlags) -> io::Result<(File, Facts)> {
        let base = self.get(spot.base)?;
        regular(open_below(
            base,
            &spot.below,
            access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW,
            Mode::empty(),
        )?)
    }

    /// Makes a file that must not exist.
    pub(crate) fn create_file(&self, spot: &Spot) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        Ok(open_below(self.get(spot.base)?, &spot.below, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// The directory that a spot is in, and its name there.
    pub(crate) fn parent<'a>(&self, spot: &'a Spot) -> io::Result<(OwnedFd, &'a OsStr)> {
        let name = spot.below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = spot.below.parent().filter(|parent| !parent.as_os_str().is_empty());
        let base = self.get(spot.base)?;
        let parent = parent.unwrap_or(Path::new("."));
        Ok((open_below(base, parent, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())?, name))
    }

    /// Makes the directories that lead to a spot, where they are missing. `mode` says how the user had them.
    pub(crate) fn make_parents(&self, spot: &Spot, mode: impl Fn(&Path) -> u32) -> io::Result<()> {
        let Some(parent) = spot.below.parent() else { return Ok(()) };
        let base = self.get(spot.base)?;
        let mut handle = open_below(base, Path::new("."), OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        let mut so_far = Path::new("").to_path_buf();
        for component in parent.components() {
            let Component::Normal(name) = component else { return Err(io::ErrorKind::InvalidInput.into()) };
            so_far.push(name);
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            handle = match open_below(handle.as_fd(), Path::new(name), flags, Mode::empty()) {
                Err(error) if is_absent(&error) => {
                    make_directory(handle.as_fd(), name, mode(&so_far) | 0o700)?
                }
                other => other?,
            };
        }
        Ok(())
    }
}

/// Makes a directory with exactly this mode, whatever our own mask is.
pub(crate) fn make_directory(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<OwnedFd> {
    rustix::fs::mkdirat(parent, name, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let handle = open_below(parent, Path::new(name), flags, Mode::empty())?;
    rustix::fs::fchmod(&handle, Mode::from_raw_mode(mode))?;
    Ok(handle)
}

/// Gives a file or directory the owner that an entry says, and then its mode: whoever changes an owner takes setuid away. Without the owner there
/// is none.
pub(crate) fn own(handle: impl AsFd, entry: &Entry) -> io::Result<()> {
    let facts = facts_of(&handle)?;
    // Nobody is given what has another name by now: that may be somebody else's.
    if facts.is_file() && facts.nlink > entry.nlink.unwrap_or(1) && !facts.is_owned_as(entry) {
        return Err(io::Error::other("it has another name by now"));
    }
    let owner = match (facts.uid, facts.gid) == (entry.uid, entry.gid) {
        true => Ok(()),
        false => rustix::fs::fchown(&handle, Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid))),
    };
    let mode = if owner.is_ok() { entry.mode } else { entry.mode & 0o1777 };
    rustix::fs::fchmod(&handle, Mode::from_raw_mode(mode))?;
    Ok(owner?)
}

/// Gives a link that is no file its owner. It is looked at by its handle: the name may be another thing's by now.
pub(crate) fn own_link(parent: BorrowedFd<'_>, name: &OsStr, entry: &Entry) -> io::Result<()> {
    let link = open_below(parent, Path::new(name), OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
    let facts = facts_of(&link)?;
    if facts.kind != FileType::Symlink || facts.nlink > 1 {
        return Err(io::Error::other(format!("is a {} now", kind_name(facts.kind))));
    }
    let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
    Ok(rustix::fs::chownat(&link, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?)
}

/// A directory by its full path.
pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens what is below a directory, through no link, and never above it.
pub(crate) fn open_below(
    base: BorrowedFd<'_>,
    below: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // Without O_CREAT the kernel wants no mode at all.
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    loop {
        match rustix::fs::openat2(base, below, flags | OFlags::CLOEXEC, mode, resolve) {
            // Somebody renamed something on the way while the kernel was looking.
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Opens a process's file by its descriptor, so that it is that file whatever its name leads to by now.
pub(crate) fn open_descriptor(pid: i32, fd: i32) -> io::Result<(File, Facts)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    regular(rustix::fs::open(format!("/proc/{pid}/fd/{fd}"), flags, Mode::empty())?)
}

fn regular(handle: OwnedFd) -> io::Result<(File, Facts)> {
    let facts = facts_of(&handle)?;
    if !facts.is_file() {
        return Err(io::Error::other(format!("is a {} now", kind_name(facts.kind))));
    }
    Ok((handle.into(), facts))
}

/// How people call what is not a regular file.
pub(crate) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "file",
    }
}

/// Whether there is nothing of that name. A link in the place of a directory is something.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound)
        || error.raw_os_error() == Some(Errno::NOTDIR.raw_os_error())
}

/// Why something could not be opened, for people.
pub(crate) fn reason(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::LOOP | Errno::XDEV) => "a symbolic link is in the way".to_owned(),
        Some(Errno::ACCESS | Errno::PERM) => "permission denied".to_owned(),
        Some(Errno::NXIO) => "is not a regular file".to_owned(),
        Some(Errno::NOENT) => "is gone".to_owned(),
        _ => error.to_string(),
    }
}
