//! What an image says about mounts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `mountpoints-*.img`: one mount of a mount namespace.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Mountpoint {
    /// CRIU's number for the sort of file system; 0 is one it does not restore itself, 16 one given by name.
    #[prost(uint32, required, tag = "1")]
    pub fs_kind: u32,
    /// Its number: what [`super::RegFile::mnt_id`] refers to.
    #[prost(uint32, required, tag = "2")]
    pub mnt_id: u32,
    /// Device number of the file system.
    #[prost(uint32, required, tag = "3")]
    pub root_dev: u32,
    /// The mount it is mounted on.
    #[prost(uint32, required, tag = "4")]
    pub parent_mnt_id: u32,
    /// `MS_*` flags.
    #[prost(uint32, required, tag = "5")]
    pub flags: u32,
    /// Which directory of the file system is mounted.
    #[prost(bytes = "vec", required, tag = "6")]
    pub root: Vec<u8>,
    /// Where.
    #[prost(bytes = "vec", required, tag = "7")]
    pub mountpoint: Vec<u8>,
    /// From what.
    #[prost(bytes = "vec", required, tag = "8")]
    pub source: Vec<u8>,
    /// Options of the file system.
    #[prost(bytes = "vec", required, tag = "9")]
    pub options: Vec<u8>,
    /// Peer group.
    #[prost(uint32, optional, tag = "10")]
    pub shared_id: Option<u32>,
    /// Peer group that it follows.
    #[prost(uint32, optional, tag = "11")]
    pub master_id: Option<u32>,
    /// Whether a plugin mounts it.
    #[prost(bool, optional, tag = "12")]
    pub with_plugin: Option<bool>,
    /// Whether it is given anew at restore.
    #[prost(bool, optional, tag = "13")]
    pub external: Option<bool>,
    /// Name of the file system, where the number says "by name".
    #[prost(bytes = "vec", optional, tag = "14")]
    pub fsname: Option<Vec<u8>>,
    /// Whether its directory was deleted.
    #[prost(bool, optional, tag = "16")]
    pub deleted: Option<bool>,
    /// Flags of the superblock.
    #[prost(uint32, optional, tag = "17")]
    pub sb_flags: Option<u32>,
    /// Under which key it is given anew.
    #[prost(bytes = "vec", optional, tag = "18")]
    pub ext_key: Option<Vec<u8>>,
}

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
        let known = match self.fs_kind {
            1 => "proc",
            2 => "sysfs",
            3 => "devtmpfs",
            4 => "binfmt_misc",
            5 => "tmpfs",
            6 => "devpts",
            7 => "simfs",
            8 => "pstore",
            9 => "securityfs",
            10 => "fusectl",
            11 => "debugfs",
            12 => "cgroup",
            13 => "aufs",
            14 => "mqueue",
            15 => "fuse",
            17 => "overlay",
            18 => "autofs",
            19 => "tracefs",
            23 => "cgroup2",
            _ => return self.fsname.as_deref().map(OsStr::from_bytes),
        };
        Some(OsStr::new(known))
    }

    /// The key under which it is given anew at restore; `None` for a mount that CRIU makes itself.
    pub fn external_key(&self) -> Option<&OsStr> {
        self.ext_key.as_deref().map(OsStr::from_bytes)
    }
}
