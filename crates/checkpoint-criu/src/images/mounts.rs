//! What an image says about mounts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{FileSystem, Mountpoint};

impl Mountpoint {
    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.mountpoint))
    }

    /// Which directory of its file system is mounted.
    pub fn root(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.root))
    }

    /// The name of the file system's sort, as `mount` knows it; `None` for one that CRIU cannot restore itself.
    pub fn fs_name(&self) -> Option<&OsStr> {
        let known = match FileSystem::try_from(self.fs_kind) {
            Ok(FileSystem::Proc) => "proc",
            Ok(FileSystem::Sysfs) => "sysfs",
            Ok(FileSystem::Devtmpfs) => "devtmpfs",
            Ok(FileSystem::BinfmtMisc) => "binfmt_misc",
            Ok(FileSystem::Tmpfs) => "tmpfs",
            Ok(FileSystem::Devpts) => "devpts",
            Ok(FileSystem::Simfs) => "simfs",
            Ok(FileSystem::Pstore) => "pstore",
            Ok(FileSystem::Securityfs) => "securityfs",
            Ok(FileSystem::Fusectl) => "fusectl",
            Ok(FileSystem::Debugfs) => "debugfs",
            Ok(FileSystem::Cgroup) => "cgroup",
            Ok(FileSystem::Aufs) => "aufs",
            Ok(FileSystem::Mqueue) => "mqueue",
            Ok(FileSystem::Fuse) => "fuse",
            Ok(FileSystem::Overlay) => "overlay",
            Ok(FileSystem::Autofs) => "autofs",
            Ok(FileSystem::Tracefs) => "tracefs",
            Ok(FileSystem::Cgroup2) => "cgroup2",
            Ok(FileSystem::Unsupported | FileSystem::Named) | Err(_) => {
                return self.fsname.as_deref().map(OsStr::from_bytes);
            }
        };
        Some(OsStr::new(known))
    }

    /// The key under which it is given anew at restore; `None` for a mount that CRIU makes itself.
    pub fn external_key(&self) -> Option<&OsStr> {
        self.ext_key.as_deref().map(OsStr::from_bytes)
    }
}
