//! Unix sockets that lead out of a process tree.
//!
//! CRIU cannot dump one end of a connection whose other end lives elsewhere (a database, a display, `ssh-agent`).
//! `/proc/net/unix` does not say who is connected to whom; the kernel's socket diagnostics (`NETLINK_SOCK_DIAG`, see
//! sock_diag(7)) do. They answer for one network namespace, so they are asked from inside the box, and from ours for the names of
//! sockets that the machine's services hold.

use std::collections::BTreeMap;
use std::path::Path;

use base::proc;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};
use crate::exec::sockets_inside;
use crate::network;
use crate::process::Identity;
use crate::program::Program;

/// One end of a connection, held by a process of the tree, whose other end is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignConnection {
    /// The process that holds it.
    pub pid: i32,
    /// Its descriptor.
    pub fd: i32,
    /// The socket's inode.
    pub inode: u64,
    /// The path or abstract name (with a leading `@`) of the other end, or of this one.
    pub name: Option<String>,
    /// The other end's inode.
    pub peer_inode: u64,
}

/// What the kernel says about a socket.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Socket {
    name: Option<String>,
    peer: Option<u64>,
}

/// The connections of these processes that lead to something outside of them. They live in the box of `boxed`, or in none.
/// Processes that end meanwhile are left out.
pub fn unix_connections(tree: &[i32], boxed: Option<(&Program, Identity)>) -> Result<Vec<ForeignConnection>> {
    let mut held: BTreeMap<u64, (i32, i32)> = BTreeMap::new();
    for &pid in tree {
        for (fd, inode) in sockets_of(pid) {
            held.entry(inode).or_insert((pid, fd));
        }
    }
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let mut known = list_sockets()?;
    if let Some((program, holder)) = boxed {
        let text = sockets_inside(program, holder)?;
        let inside: BTreeMap<u64, Socket> = serde_json::from_slice(&text).map_err(|error| {
            SandboxError::Enter { pid: holder.pid, detail: format!("its list of sockets: {error}") }
        })?;
        known.extend(inside);
    }
    let mut found = Vec::new();
    for (inode, (pid, fd)) in &held {
        let Some(socket) = known.get(inode) else { continue };
        let Some(peer) = socket.peer.filter(|peer| !held.contains_key(peer)) else { continue };
        let name = known.get(&peer).and_then(|peer| peer.name.clone()).or_else(|| socket.name.clone());
        found.push(ForeignConnection { pid: *pid, fd: *fd, inode: *inode, name, peer_inode: peer });
    }
    Ok(found)
}

/// Descriptors of a process that are sockets, with their inodes.
fn sockets_of(pid: i32) -> Vec<(i32, u64)> {
    let Ok(Some(descriptors)) = proc::descriptors(pid) else { return Vec::new() };
    let inode = |target: &Path| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    descriptors.into_iter().filter_map(|(fd, target)| Some((fd, inode(&target)?))).collect()
}

pub(crate) const HEADER: usize = 16;
pub(crate) const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// Every Unix socket of our network namespace, by inode.
pub(crate) fn list_sockets() -> Result<BTreeMap<u64, Socket>> {
    const REQUEST_AND_DUMP: u16 = 1 | 0x300;
    const AF_UNIX: u8 = 1;
    const NAME_AND_PEER: u32 = 1 | 4;
    let failed = || SandboxError::system::<rustix::io::Errno>("ask the kernel about sockets");

    let mut request = Vec::with_capacity(40);
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST_AND_DUMP.to_ne_bytes());
    request.extend([0; 8]); // sequence and sender
    request.extend([AF_UNIX, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes()); // in every state
    request.extend(0_u32.to_ne_bytes()); // not one socket but all
    request.extend(NAME_AND_PEER.to_ne_bytes());
    request.extend([0xff; 8]); // whichever cookie

    let kernel = network::diagnostics()?;
    send(&kernel, &request, SendFlags::empty()).map_err(failed())?;
    let mut sockets = BTreeMap::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (length, _) = recv(&kernel, buffer.as_mut_slice(), RecvFlags::empty()).map_err(failed())?;
        match read_answer(buffer.get(..length).unwrap_or_default(), &mut sockets) {
            Ok(true) => return Ok(sockets),
            Ok(false) => {}
            Err(error) => return Err(failed()(error)),
        }
    }
}

/// Reads one datagram of answers; true when it was the last.
fn read_answer(mut datagram: &[u8], sockets: &mut BTreeMap<u64, Socket>) -> Result<bool, rustix::io::Errno> {
    const NLMSG_ERROR: u16 = 2;
    const NLMSG_DONE: u16 = 3;
    let malformed = rustix::io::Errno::BADMSG;
    while !datagram.is_empty() {
        let length = u32_at(datagram, 0).and_then(|length| usize::try_from(length).ok()).ok_or(malformed)?;
        let message = datagram.get(..length).filter(|message| message.len() >= HEADER).ok_or(malformed)?;
        match u16_at(message, 4) {
            Some(NLMSG_DONE) => return Ok(true),
            Some(NLMSG_ERROR) => {
                let error = u32_at(message, HEADER).map_or(0, u32::cast_signed);
                return Err(rustix::io::Errno::from_raw_os_error(error.saturating_neg()));
            }
            Some(SOCK_DIAG_BY_FAMILY) => {
                if let Some((inode, socket)) = read_socket(message) {
                    sockets.insert(inode, socket);
                }
            }
            _ => {}
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn read_socket(message: &[u8]) -> Option<(u64, Socket)> {
    const NAME: u16 = 0;
    const PEER: u16 = 2;
    let inode = u32_at(message, HEADER + 4)?;
    let mut socket = Socket::default();
    let mut attributes = message.get(HEADER + 16..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let value = attributes.get(4..length)?;
        match kind {
            NAME => socket.name = readable(value),
            PEER => socket.peer = u32_at(value, 0).filter(|peer| *peer != 0).map(u64::from),
            _ => {}
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some((u64::from(inode), socket))
}

/// A path ends with NUL; an abstract name begins with it.
fn readable(name: &[u8]) -> Option<String> {
    match name {
        [] | [0] => None,
        [0, rest @ ..] => Some(format!("@{}", String::from_utf8_lossy(rest))),
        path => Some(String::from_utf8_lossy(path).trim_end_matches('\0').to_owned()),
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    #[test]
    fn only_a_connection_that_leaves_the_tree_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("service");
        let listener = UnixListener::bind(&path).expect("a listener");
        // The child holds one end as its stdin; the other end stays with us.
        let client = UnixStream::connect(&path).expect("a connection");
        let (server, _) = listener.accept().expect("its other end");
        let mut child = Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::from(OwnedFd::from(client)))
            .spawn()
            .expect("sleep starts");
        let (pid, own) = (
            i32::try_from(child.id()).expect("pids fit"),
            i32::try_from(std::process::id()).expect("pids fit"),
        );
        let of_child = unix_connections(&[pid], None);
        let of_both = unix_connections(&[pid, own], None);
        child.kill().expect("it is ours");
        child.wait().expect("it has ended");

        let found = of_child.expect("the kernel answers");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].pid, found[0].fd, found[0].name.as_deref()), (pid, 0, path.to_str()));
        let of_both = of_both.expect("the kernel answers");
        assert!(of_both.iter().all(|found| found.fd != 0 && found.fd != server.as_raw_fd()), "{of_both:?}");
    }

    #[test]
    fn nonsense_from_the_kernel_ends_the_reading() {
        let mut sockets = BTreeMap::new();
        for bytes in [&[1_u8, 2, 3][..], &[0; 16], &[255; 40]] {
            read_answer(bytes, &mut sockets).expect_err("this is no answer");
        }
        assert!(sockets.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = read_answer(&bytes, &mut BTreeMap::new());
        }
    }
}
