//! Device nodes of NVIDIA's driver that a box may have.
//!
//! They are bound from the machine's `/dev` when the box is made, so a restored box has the nodes of the GPUs that it was given
//! *now*, with the numbers that they have on *this* machine since *this* boot (that of `nvidia-uvm` is handed out when the driver is
//! loaded).
//!
//! Only names that are known here are bound. Left out on purpose are `nvidia-modeset`, which is for screens, and
//! `nvidia-caps`, which is for MIG and for the driver's own services.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, accessat, major, makedev, minor};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};

/// What every node of the driver begins with.
const PREFIX: &str = "nvidia";

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

/// Those of [`host_nodes`] that we may open for reading and writing. A machine can keep its GPUs for some.
pub fn usable_nodes(dir: &Path) -> Vec<DeviceNode> {
    let mut nodes = host_nodes(dir);
    let may = Access::READ_OK | Access::WRITE_OK;
    nodes.retain(|node| accessat(CWD, dir.join(&node.name), may, AtFlags::empty()).is_ok());
    nodes
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

/// Opens a node of the machine's, to be bound into a box, and sees that it is the one that is meant.
pub(crate) fn open(node: &DeviceNode) -> Result<OwnedFd> {
    check(std::slice::from_ref(node))?;
    let path = Path::new("/dev").join(&node.name);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::open(&path, flags, Mode::empty()).map_err(SandboxError::io("open", &path))?;
    let stat = rustix::fs::fstat(&found).map_err(SandboxError::io("examine", &path))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice || stat.st_rdev != node.number() {
        let other = io::Error::other(format!("it is not the device {}:{}", node.major, node.minor));
        return Err(SandboxError::io("use", &path)(other));
    }
    Ok(found)
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
    fn a_node_that_is_not_there_is_named() {
        let refused = open(&DeviceNode { name: "nvidia9999".to_owned(), major: 195, minor: 1 });
        assert_eq!(refused.expect_err("no machine has it").code(), "IJ-B001");
    }
}
