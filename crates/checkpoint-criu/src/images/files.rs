//! What an image says about open files, sockets and what else has a descriptor.
//!
//! Paths are bytes: a file's name need not be UTF-8, and CRIU does not ask for it. A name with a NUL byte in it is refused by the
//! reader, because CRIU would see another, shorter name.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{
    Fifo, GhostFile, InetSocket, MemfdFile, NamespaceFile, PidfdFile, Pipe, RegFile, Remap, RemapSort,
    TtyFile, UnixSocket,
};

/// A file, socket or other object behind one or more descriptors.
#[derive(Clone, PartialEq, Debug)]
pub struct FileEntry {
    /// Its number: what [`super::Fd::id`], [`super::Fs`], [`super::Mm`] and [`super::Vma::file_id`] refer to.
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
    /// A terminal; [`super::TtyInfo`] says which.
    Tty(TtyFile),
    /// A memfd; [`super::MemfdInode`] has its properties.
    Memfd(MemfdFile),
    /// A namespace held open.
    Namespace(NamespaceFile),
    /// A file that is given anew at restore.
    External,
    /// A descriptor for a process.
    Pidfd(PidfdFile),
    /// Something else, by CRIU's number for its [`super::FileSort`], which may be one that has no name there.
    Other(i32),
}

impl RegFile {
    /// Its path in its mount namespace.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.name))
    }
}

/// `SOCK_STREAM`.
const STREAM: u32 = 1;

/// The kernel's states of TCP sockets, from the first to the last.
const ESTABLISHED: u32 = 1;
const CLOSED: u32 = 7;
const LISTENING: u32 = 10;
const CLOSING: u32 = 11;

impl InetSocket {
    /// Whether it is a listening TCP socket.
    pub fn is_listening(&self) -> bool {
        self.kind == STREAM && self.state == LISTENING
    }

    /// Whether it is a TCP connection in either direction.
    pub fn is_established(&self) -> bool {
        self.kind == STREAM
            && (ESTABLISHED..=CLOSING).contains(&self.state)
            && !matches!(self.state, CLOSED | LISTENING)
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

impl Remap {
    /// Whether a link (`link_remap.N`) stands in for the file; that link must exist at the restore.
    pub fn is_link(&self) -> bool {
        self.kind == Some(RemapSort::Link.into())
    }

    /// Whether the file's content is in the image.
    pub fn is_ghost(&self) -> bool {
        // Images of old versions have no such field, and know nothing but ghosts.
        self.kind.is_none_or(|kind| kind == i32::from(RemapSort::Ghost))
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
