//! What an image says about open files, sockets and what else has a descriptor.
//!
//! Paths are bytes: a file's name need not be UTF-8, and CRIU does not ask for it. A name with a NUL byte in it is refused by the
//! reader, because CRIU would see another, shorter name.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A file, socket or other object behind one or more descriptors.
#[derive(Clone, PartialEq, Debug)]
pub struct FileEntry {
    /// Its number: what [`Fd::id`], [`super::Fs`], [`super::Mm`] and [`super::Vma::file_id`] refer to.
    pub id: u32,
    /// What it is.
    pub kind: FileKind,
}

/// What a [`FileEntry`] is.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum FileKind {
    /// A file or directory with a path.
    Reg(RegFile),
    /// An unnamed pipe.
    Pipe(Pipe),
    /// A named pipe; its path is another entry.
    Fifo(Fifo),
    /// A TCP or UDP socket.
    Inet(InetSocket),
    /// A unix socket.
    Unix(UnixSocket),
    /// A terminal; [`TtyInfo`] says which.
    Tty(TtyFile),
    /// A memfd; [`MemfdInode`] has its properties.
    Memfd(MemfdFile),
    /// A namespace held open.
    Namespace(NamespaceFile),
    /// A file that is given anew at restore.
    External,
    /// A descriptor for a process.
    Pidfd(PidfdFile),
    /// Something else, by CRIU's number for the sort (6 eventfd, 7 epoll, 8 inotify, 9 signalfd, 10 packet socket, 12 fanotify,
    /// 13 netlink, 15 tun, 17 timerfd, 19 BPF map).
    Other(i32),
}

/// A file or directory with a path.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegFile {
    /// As [`FileEntry::id`].
    #[prost(uint32, required, tag = "1")]
    pub id: u32,
    /// Flags of `open`. 0 for a file that is only mapped.
    #[prost(uint32, required, tag = "2")]
    pub flags: u32,
    /// Position.
    #[prost(uint64, required, tag = "3")]
    pub pos: u64,
    /// Who gets signals about it.
    #[prost(message, optional, tag = "5")]
    pub owner: Option<SignalOwner>,
    /// Its path in its mount namespace, as bytes.
    #[prost(bytes = "vec", required, tag = "6")]
    pub name: Vec<u8>,
    /// The mount it is on.
    #[prost(sint32, optional, tag = "7")]
    pub mnt_id: Option<i32>,
    /// Its size at the dump; the restore fails if it is another.
    #[prost(uint64, optional, tag = "8")]
    pub size: Option<u64>,
    /// Whether a plugin restores it.
    #[prost(bool, optional, tag = "9")]
    pub external: Option<bool>,
    /// Its mode at the dump.
    #[prost(uint32, optional, tag = "10")]
    pub mode: Option<u32>,
}

impl RegFile {
    /// Its path in its mount namespace.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.name))
    }
}

/// Who gets signals about a file.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SignalOwner {
    /// In whose name they are sent.
    #[prost(uint32, required, tag = "1")]
    pub uid: u32,
    /// And the effective one.
    #[prost(uint32, required, tag = "2")]
    pub euid: u32,
    /// Which signal.
    #[prost(uint32, required, tag = "3")]
    pub signal: u32,
    /// Thread, process or group.
    #[prost(uint32, required, tag = "4")]
    pub pid_type: u32,
    /// To whom.
    #[prost(uint32, required, tag = "5")]
    pub pid: u32,
}

/// An end of an unnamed pipe.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Pipe {
    /// The pipe; both ends have the same.
    #[prost(uint32, required, tag = "2")]
    pub pipe_id: u32,
    /// Flags of `open`.
    #[prost(uint32, required, tag = "3")]
    pub flags: u32,
}

/// An end of a named pipe.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Fifo {
    /// The pipe.
    #[prost(uint32, required, tag = "2")]
    pub pipe_id: u32,
    /// The entry with its path.
    #[prost(uint32, optional, tag = "3")]
    pub reg_id: Option<u32>,
}

/// A TCP or UDP socket.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InetSocket {
    /// Its inode number at the dump.
    #[prost(uint32, required, tag = "2")]
    pub inode: u32,
    /// `AF_INET` (2) or `AF_INET6` (10).
    #[prost(uint32, required, tag = "3")]
    pub family: u32,
    /// `SOCK_STREAM` (1), `SOCK_DGRAM` (2) …
    #[prost(uint32, required, tag = "4")]
    pub kind: u32,
    /// `IPPROTO_*`.
    #[prost(uint32, required, tag = "5")]
    pub protocol: u32,
    /// The kernel's state: [`InetSocket::is_listening`], [`InetSocket::is_established`].
    #[prost(uint32, required, tag = "6")]
    pub state: u32,
    /// Our port.
    #[prost(uint32, required, tag = "7")]
    pub src_port: u32,
    /// The other's.
    #[prost(uint32, required, tag = "8")]
    pub dst_port: u32,
    /// Our address, in network order: [`InetSocket::source`].
    #[prost(uint32, repeated, packed = "false", tag = "11")]
    pub src_addr: Vec<u32>,
    /// The other's: [`InetSocket::destination`].
    #[prost(uint32, repeated, packed = "false", tag = "12")]
    pub dst_addr: Vec<u32>,
    /// Network device it is bound to.
    #[prost(bytes = "vec", optional, tag = "17")]
    pub device: Option<Vec<u8>>,
    /// Its network namespace.
    #[prost(uint32, optional, tag = "18")]
    pub ns_id: Option<u32>,
}

impl InetSocket {
    /// Whether it is a listening TCP socket.
    pub fn is_listening(&self) -> bool {
        self.kind == 1 && self.state == 10
    }

    /// Whether it is a TCP connection in either direction.
    pub fn is_established(&self) -> bool {
        self.kind == 1 && matches!(self.state, 1..=6 | 8 | 9 | 11)
    }

    /// Our address.
    pub fn source(&self) -> Option<IpAddr> {
        address(&self.src_addr)
    }

    /// The other's address.
    pub fn destination(&self) -> Option<IpAddr> {
        address(&self.dst_addr)
    }
}

fn address(words: &[u32]) -> Option<IpAddr> {
    match words {
        [word] => Some(Ipv4Addr::from(word.to_ne_bytes()).into()),
        [a, b, c, d] => {
            let mut bytes = [0; 16];
            for (slot, word) in bytes.chunks_exact_mut(4).zip([a, b, c, d]) {
                slot.copy_from_slice(&word.to_ne_bytes());
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

/// A unix socket.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UnixSocket {
    /// Its inode number at the dump.
    #[prost(uint32, required, tag = "2")]
    pub inode: u32,
    /// `SOCK_STREAM` (1), `SOCK_DGRAM` (2), `SOCK_SEQPACKET` (5).
    #[prost(uint32, required, tag = "3")]
    pub kind: u32,
    /// The kernel's state: 1 connected, 7 not connected, 10 listening.
    #[prost(uint32, required, tag = "4")]
    pub state: u32,
    /// CRIU's own flags: bit 0 says that the other end is outside of the tree, bit 3 that it is given anew at restore.
    #[prost(uint32, required, tag = "6")]
    pub uflags: u32,
    /// The inode of what it is connected to, 0 for nothing.
    #[prost(uint32, required, tag = "8")]
    pub peer: u32,
    /// Its name; one that starts with NUL is abstract.
    #[prost(bytes = "vec", required, tag = "11")]
    pub name: Vec<u8>,
    /// Mode and owner of the socket's file.
    #[prost(message, optional, tag = "13")]
    pub permissions: Option<Permissions>,
    /// The directory that a relative name starts from.
    #[prost(bytes = "vec", optional, tag = "14")]
    pub name_dir: Option<Vec<u8>>,
    /// Whether its file was removed.
    #[prost(bool, optional, tag = "15")]
    pub deleted: Option<bool>,
    /// Its network namespace.
    #[prost(uint32, optional, tag = "16")]
    pub ns_id: Option<u32>,
    /// The mount its file is on.
    #[prost(sint32, optional, tag = "17")]
    pub mnt_id: Option<i32>,
}

impl UnixSocket {
    /// The path of its file; `None` for an unnamed or abstract socket.
    pub fn path(&self) -> Option<&Path> {
        match self.name.first() {
            None | Some(0) => None,
            Some(_) => {
                let name = self.name.strip_suffix(&[0]).unwrap_or(&self.name);
                Some(Path::new(OsStr::from_bytes(name)))
            }
        }
    }
}

/// Mode and owner of a socket's file.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Permissions {
    /// Mode.
    #[prost(uint32, required, tag = "1")]
    pub mode: u32,
    /// Owner.
    #[prost(uint32, required, tag = "2")]
    pub uid: u32,
    /// Group.
    #[prost(uint32, required, tag = "3")]
    pub gid: u32,
}

/// An open terminal.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TtyFile {
    /// Which terminal: [`TtyInfo::id`].
    #[prost(uint32, required, tag = "2")]
    pub tty_info_id: u32,
    /// Flags of `open`.
    #[prost(uint32, required, tag = "3")]
    pub flags: u32,
    /// The entry with its path.
    #[prost(uint32, optional, tag = "6")]
    pub reg_id: Option<u32>,
}

/// `tty-info.img`: a terminal.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TtyInfo {
    /// Its number.
    #[prost(uint32, required, tag = "1")]
    pub id: u32,
    /// 1 pseudo-terminal, 2 console, 3 virtual terminal, 4 current terminal, 5 external, 6 serial line.
    #[prost(int32, required, tag = "2")]
    pub kind: i32,
    /// Session that it controls.
    #[prost(uint32, required, tag = "6")]
    pub sid: u32,
    /// Foreground process group.
    #[prost(uint32, required, tag = "7")]
    pub pgrp: u32,
    /// Device number.
    #[prost(uint32, required, tag = "8")]
    pub rdev: u32,
    /// For a pseudo-terminal, which.
    #[prost(message, optional, tag = "12")]
    pub pty: Option<Pty>,
    /// Owner.
    #[prost(uint32, optional, tag = "14")]
    pub uid: Option<u32>,
    /// Group.
    #[prost(uint32, optional, tag = "15")]
    pub gid: Option<u32>,
}

/// A pseudo-terminal's number.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Pty {
    /// The N of `/dev/pts/N`.
    #[prost(uint32, required, tag = "1")]
    pub index: u32,
}

/// An open memfd.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MemfdFile {
    /// Flags of `open`.
    #[prost(uint32, required, tag = "2")]
    pub flags: u32,
    /// Position.
    #[prost(uint64, required, tag = "3")]
    pub pos: u64,
    /// Which memfd: [`MemfdInode::inode_id`].
    #[prost(uint32, required, tag = "5")]
    pub inode_id: u32,
}

/// `memfd.img`: a memfd.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemfdInode {
    /// Its name.
    #[prost(bytes = "vec", required, tag = "1")]
    pub name: Vec<u8>,
    /// Owner.
    #[prost(uint32, required, tag = "2")]
    pub uid: u32,
    /// Group.
    #[prost(uint32, required, tag = "3")]
    pub gid: u32,
    /// Size.
    #[prost(uint64, required, tag = "4")]
    pub size: u64,
    /// The number in the name of its `pagemap-shmem-*.img`.
    #[prost(uint32, required, tag = "5")]
    pub shmid: u32,
    /// Seals.
    #[prost(uint32, required, tag = "6")]
    pub seals: u32,
    /// Its number.
    #[prost(uint64, required, tag = "7")]
    pub inode_id: u64,
    /// Mode.
    #[prost(uint32, optional, tag = "9")]
    pub mode: Option<u32>,
}

/// A namespace held open.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct NamespaceFile {
    /// Which namespace, by CRIU's number.
    #[prost(uint32, required, tag = "2")]
    pub ns_id: u32,
    /// Of what sort, as a `CLONE_NEW*` flag.
    #[prost(uint32, required, tag = "3")]
    pub clone_flag: u32,
}

/// A descriptor for a process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PidfdFile {
    /// The process, in the tree's PID namespace.
    #[prost(int32, required, tag = "2")]
    pub pid: i32,
}

/// `fdinfo-*.img`: a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Fd {
    /// What is behind it: [`FileEntry::id`].
    #[prost(uint32, required, tag = "1")]
    pub id: u32,
    /// Its own flags (close-on-exec).
    #[prost(uint32, required, tag = "2")]
    pub flags: u32,
    /// Sort of file, by CRIU's number.
    #[prost(int32, required, tag = "3")]
    pub kind: i32,
    /// Its number in the process.
    #[prost(uint32, required, tag = "4")]
    pub fd: u32,
}

/// `remap-fpath.img`: a file whose name was gone at the dump.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Remap {
    /// The file: [`FileEntry::id`].
    #[prost(uint32, required, tag = "1")]
    pub original_id: u32,
    /// By what it is replaced: for a link another [`FileEntry::id`], for a ghost [`Ghost::id`].
    #[prost(uint32, required, tag = "2")]
    pub remap_id: u32,
    /// 0 link, 1 ghost, 2 a file of a process that is gone.
    #[prost(int32, optional, tag = "3")]
    pub kind: Option<i32>,
}

impl Remap {
    /// Whether a link (`link_remap.N`) stands in for the file; that link must exist at the restore.
    pub fn is_link(&self) -> bool {
        self.kind == Some(0)
    }

    /// Whether the file's content is in the image.
    pub fn is_ghost(&self) -> bool {
        // Images of old versions have no such field, and know nothing but ghosts.
        matches!(self.kind, None | Some(1))
    }
}

/// `ghost-file-*.img`: a deleted file whose content is in the image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ghost {
    /// Its number, from the name of its image.
    pub id: u32,
    /// What it is.
    pub file: GhostFile,
}

/// Owner and mode of a deleted file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GhostFile {
    /// Owner.
    #[prost(uint32, required, tag = "1")]
    pub uid: u32,
    /// Group.
    #[prost(uint32, required, tag = "2")]
    pub gid: u32,
    /// Mode, with the sort of file.
    #[prost(uint32, required, tag = "3")]
    pub mode: u32,
    /// Device it was on.
    #[prost(uint32, optional, tag = "4")]
    pub dev: Option<u32>,
    /// Inode it had.
    #[prost(uint64, optional, tag = "5")]
    pub ino: Option<u64>,
    /// For a device node, which device.
    #[prost(uint32, optional, tag = "6")]
    pub rdev: Option<u32>,
    /// Size.
    #[prost(uint64, optional, tag = "10")]
    pub size: Option<u64>,
    /// Target of a symbolic link.
    #[prost(bytes = "vec", optional, tag = "11")]
    pub symlink_target: Option<Vec<u8>>,
}

/// The frame of a file in `files.img`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FileFrame {
    #[prost(int32, required, tag = "1")]
    pub(crate) kind: i32,
    #[prost(uint32, required, tag = "2")]
    pub(crate) id: u32,
    #[prost(message, optional, tag = "3")]
    pub(crate) reg: Option<RegFile>,
    #[prost(message, optional, tag = "4")]
    pub(crate) inet: Option<InetSocket>,
    #[prost(message, optional, tag = "5")]
    pub(crate) namespace: Option<NamespaceFile>,
    #[prost(message, optional, tag = "16")]
    pub(crate) unix: Option<UnixSocket>,
    #[prost(message, optional, tag = "17")]
    pub(crate) fifo: Option<Fifo>,
    #[prost(message, optional, tag = "18")]
    pub(crate) pipe: Option<Pipe>,
    #[prost(message, optional, tag = "19")]
    pub(crate) tty: Option<TtyFile>,
    #[prost(message, optional, tag = "20")]
    pub(crate) memfd: Option<MemfdFile>,
    #[prost(message, optional, tag = "22")]
    pub(crate) pidfd: Option<PidfdFile>,
}
