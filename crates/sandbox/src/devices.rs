//! Device nodes of NVIDIA's driver that a box may have.
//!
//! They are made inside with `mknod`, like the harmless ones: CRIU cannot dump a `/dev` into which nodes of the machine's were
//! bound. A node is a name and a number and nothing else, so it can also be made later, in the `/dev` of a box that runs:
//! after a restore the box must have the nodes of the GPUs that it was given *now*, with the numbers that they have on
//! *this* machine since *this* boot (that of `nvidia-uvm` is handed out when the driver is loaded).
//!
//! Only names that are known here are made. Left out on purpose are `nvidia-modeset`, which is for screens, and
//! `nvidia-caps`, which is for MIG and for the driver's own services.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, accessat, major, makedev, minor,
    mknodat,
};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};
use crate::user::{User, as_user};

/// What every node of the driver begins with.
const PREFIX: &str = "nvidia";
/// Everybody may open them, as the driver's own tool makes them. Who gets a node is decided by making it or not.
const MODE: u32 = 0o666;
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A character device below `/dev`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct DeviceNode {
    /// Its name below `/dev`.
    pub name: String,
    /// The number of the driver.
    pub major: u32,
    /// The number of the device.
    pub minor: u32,
}

impl DeviceNode {
    /// The minor number in the name of a GPU's own node: 3 of `nvidia3`. `None` for the nodes that all GPUs share.
    pub fn gpu(&self) -> Option<u32> {
        gpu_of(&self.name)
    }

    /// Whether a box may have a node of this name.
    pub fn is_known(name: &str) -> bool {
        matches!(name, "nvidiactl" | "nvidia-uvm" | "nvidia-uvm-tools") || gpu_of(name).is_some()
    }

    fn number(&self) -> u64 {
        makedev(self.major, self.minor)
    }
}

/// `nvidia` and a number as the driver writes it: digits without a leading zero.
fn gpu_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(PREFIX)?;
    let number: u32 = digits.parse().ok()?;
    (number < 10_000 && digits == number.to_string()).then_some(number)
}

/// The nodes of the driver in the machine's `/dev`, by name; none where there is no driver.
pub fn host_nodes(dir: &Path) -> Vec<DeviceNode> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut nodes: Vec<DeviceNode> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok().filter(|name| DeviceNode::is_known(name))?;
            let found = fs::symlink_metadata(entry.path()).ok()?;
            let (major, minor) = (major(found.rdev()), minor(found.rdev()));
            found.file_type().is_char_device().then_some(DeviceNode { name, major, minor })
        })
        .collect();
    nodes.sort();
    nodes
}

/// Those of [`host_nodes`] that this user may open for reading and writing. A machine can keep its GPUs for some: then a box
/// must not be the way around that.
pub fn host_nodes_for(dir: &Path, user: &User) -> Result<Vec<DeviceNode>> {
    let mut nodes = host_nodes(dir);
    as_user(user, || {
        let may = Access::READ_OK | Access::WRITE_OK;
        nodes.retain(|node| accessat(CWD, dir.join(&node.name), may, AtFlags::empty()).is_ok());
        nodes
    })
}

/// Refuses names that no box may have, and one name twice.
pub(crate) fn check(nodes: &[DeviceNode]) -> Result<()> {
    let bad = |detail: String| Err(SandboxError::BadSpec { detail });
    for (at, node) in nodes.iter().enumerate() {
        if !DeviceNode::is_known(&node.name) {
            return bad(format!("`{}` is not a device that a box may have", node.name.escape_debug()));
        }
        if nodes.iter().take(at).any(|other| other.name == node.name) {
            return bad(format!("the device `{}` is named twice", node.name));
        }
    }
    Ok(())
}

/// Makes them in the `/dev` of a box that is being built.
pub(crate) fn make_all(dev: &Path, nodes: &[DeviceNode]) -> Result<()> {
    check(nodes)?;
    let directory = rustix::fs::open(dev, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(SandboxError::io("open", dev))?;
    nodes.iter().try_for_each(|node| make(directory.as_fd(), dev, node))
}

/// Makes the driver's nodes in the `/dev` of a running box exactly these: what is missing is made, what is wrong is made anew,
/// what is too much is removed. Other files there are left alone.
///
/// The box may be a restored one and its `/dev` may by then belong to the user, who could exchange names while we work. So nothing
/// is followed, what we change is what we hold open, and the directory must be a tmpfs other than the machine's `/dev`.
pub fn settle_devices(init_pid: i32, nodes: &[DeviceNode]) -> Result<()> {
    check(nodes)?;
    let shown = PathBuf::from(format!("/proc/{init_pid}/root/dev"));
    let dev = open_dev(init_pid, &shown)?;
    for (name, found) in present(&dev, &shown)? {
        let wanted = nodes.iter().find(|node| node.name == name);
        if !wanted.is_some_and(|node| is_right(node, &found)) {
            let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
            let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            rustix::fs::unlinkat(&dev, name.as_str(), flags)
                .map_err(SandboxError::io("remove", &shown.join(&name)))?;
        }
    }
    for node in nodes {
        let found = rustix::fs::statat(&dev, node.name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        match found {
            Ok(found) if is_right(node, &found) => {}
            _ => make(dev.as_fd(), &shown, node)?,
        }
    }
    Ok(())
}

/// The box's own `/dev`, never the machine's.
fn open_dev(init_pid: i32, shown: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = PathBuf::from(format!("/proc/{init_pid}/root"));
    let base = rustix::fs::open(&root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| match error {
            rustix::io::Errno::NOENT | rustix::io::Errno::SRCH => SandboxError::Gone { pid: init_pid },
            error => SandboxError::io("open", &root)(error),
        })?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let dev = rustix::fs::openat2(&base, "dev", flags, Mode::empty(), resolve)
        .map_err(SandboxError::io("open", shown))?;
    let own = rustix::fs::fstat(&dev).map_err(SandboxError::io("examine", shown))?;
    let ours = rustix::fs::stat("/dev").map_err(SandboxError::io("examine", Path::new("/dev")))?;
    let is_tmpfs =
        rustix::fs::fstatfs(&dev).map_err(SandboxError::io("examine", shown))?.f_type == TMPFS_MAGIC;
    if !is_tmpfs || own.st_dev == ours.st_dev {
        let refused = io::Error::other("it is not a `/dev` that was made for a box");
        return Err(SandboxError::io("change", shown)(refused));
    }
    Ok(dev)
}

/// Everything there that has a name of the driver's, known or not.
fn present(dev: &OwnedFd, shown: &Path) -> Result<Vec<(String, Stat)>> {
    let mut found = Vec::new();
    let entries = Dir::read_from(dev).map_err(SandboxError::io("list", shown))?;
    for entry in entries {
        let entry = entry.map_err(SandboxError::io("list", shown))?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name.starts_with(PREFIX)
            && let Ok(stat) = rustix::fs::statat(dev, name, AtFlags::SYMLINK_NOFOLLOW)
        {
            found.push((name.to_owned(), stat));
        }
    }
    Ok(found)
}

fn is_right(node: &DeviceNode, found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice
        && found.st_rdev == node.number()
        && found.st_mode & 0o7777 == MODE
}

fn make(dev: BorrowedFd<'_>, shown: &Path, node: &DeviceNode) -> Result<()> {
    let path = shown.join(&node.name);
    let mode = Mode::from_raw_mode(MODE);
    mknodat(dev, node.name.as_str(), FileType::CharacterDevice, mode, node.number())
        .map_err(SandboxError::io("make the device", &path))?;
    // The umask is the whole program's and may be anything. The mode is set on what was opened, which is looked at first:
    // the name could be a link by now.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(dev, node.name.as_str(), flags, Mode::empty())
        .map_err(SandboxError::io("open", &path))?;
    let stat = rustix::fs::fstat(&made).map_err(SandboxError::io("examine", &path))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice || stat.st_rdev != node.number() {
        return Err(SandboxError::io("make the device", &path)(io::Error::other("somebody exchanged it")));
    }
    rustix::fs::chmod(format!("/proc/self/fd/{}", made.as_raw_fd()), mode)
        .map_err(SandboxError::io("set the mode of", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> DeviceNode {
        DeviceNode { name: name.to_owned(), major: 10, minor: 237 }
    }

    #[test]
    fn only_the_drivers_own_names_are_taken() {
        for good in ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia15"] {
            check(&[node(good)]).expect("a box may have it");
        }
        for bad in [
            "",
            "nvidia",
            "nvidia-modeset",
            "nvidia-caps",
            "nvidia-caps/nvidia-cap1",
            "nvidia/../sda",
            "../nvidia0",
            "nvidia0/x",
            "nvidia01",
            "nvidia+1",
            "nvidia-1",
            "nvidia99999",
            "sda",
            "nvidia0\0",
        ] {
            let refused = check(&[node(bad)]).expect_err("no box may have it");
            assert_eq!(refused.code(), "IJ-B005", "{bad}");
        }
        check(&[node("nvidia0"), node("nvidia0")]).expect_err("twice");
        assert_eq!((node("nvidia12").gpu(), node("nvidiactl").gpu()), (Some(12), None));
    }

    #[test]
    fn nothing_is_found_where_there_is_no_driver() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("nvidia0"), "no device").expect("a file");
        fs::create_dir(dir.path().join("nvidia-caps")).expect("a directory");
        assert_eq!(host_nodes(dir.path()), []);
        assert_eq!(host_nodes(&dir.path().join("missing")), []);
    }

    #[test]
    fn the_dev_of_the_machine_is_never_touched() {
        let own = i32::try_from(std::process::id()).expect("pids fit");
        let refused = settle_devices(own, &[node("nvidia0")]).expect_err("this is no box");
        assert_eq!(refused.code(), "IJ-B001", "{refused}");
        assert!(!Path::new("/dev/nvidia0").exists() || !host_nodes(Path::new("/dev")).is_empty());
        let gone = settle_devices(i32::MAX, &[]).expect_err("nobody has this pid");
        assert_eq!(gone.code(), "IJ-B010", "{gone}");
    }
}
