//! Whose a TCP connection is, by the kernel's word.
//!
//! Its socket diagnostics (sock_diag(7)) answer for one connection. `/proc/net/tcp` says the same in a list of all that the machine has,
//! and takes so long to read that a stranger who does nothing but connect would keep everybody else waiting: it is asked only where
//! there are no diagnostics.
//!
//! A socket that its owner has closed is nobody's, whatever it has sent before: it has no inode, and where its uid stood the kernel
//! writes 0, which would be root's.

use std::fs;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::network;
use crate::unix::{HEADER, SOCK_DIAG_BY_FAMILY, u16_at, u32_at};

/// Whether diagnostics have ever answered. 'There is no such socket' is also what they say where they cannot answer at all.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// Whether the other end of this connection is our own user's, or root's, who needs nobody's leave.
pub(super) fn is_ours(client: &TcpStream) -> io::Result<bool> {
    let (here, there) = (v4(client.local_addr()?)?, v4(client.peer_addr()?)?);
    let own = rustix::process::geteuid().as_raw();
    Ok(matches!(owner(there, here)?, Some(uid) if uid == own || uid == 0))
}

fn v4(address: SocketAddr) -> io::Result<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Whose socket is bound to `local` and connected to `remote`; `None` if it is nobody's.
fn owner(local: SocketAddrV4, remote: SocketAddrV4) -> io::Result<Option<u32>> {
    match ask(local, remote) {
        Ok(owner) => {
            ANSWERED.store(true, Ordering::Relaxed);
            Ok(owner)
        }
        Err(Errno::NOENT) if ANSWERED.load(Ordering::Relaxed) => Ok(None),
        Err(_) => Ok(in_table(&fs::read_to_string("/proc/net/tcp")?, local, remote)),
    }
}

/// Asks the diagnostics.
fn ask(local: SocketAddrV4, remote: SocketAddrV4) -> Result<Option<u32>, Errno> {
    const LENGTH: u32 = 72;
    const REQUEST: u16 = 1;
    const INET_AND_TCP: [u8; 2] = [2, 6];
    let mut request = Vec::with_capacity(72);
    request.extend(LENGTH.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    request.extend([0; 8]); // sequence and sender
    request.extend(INET_AND_TCP);
    request.extend([0; 2]); // nothing beyond the usual
    request.extend(u32::MAX.to_ne_bytes()); // in every state
    request.extend(local.port().to_be_bytes());
    request.extend(remote.port().to_be_bytes());
    for address in [local, remote] {
        request.extend(address.ip().octets());
        request.extend([0; 12]); // as long as an address of IPv6
    }
    request.extend([0; 4]); // on any interface
    request.extend([0xff; 8]); // whichever cookie

    let kernel = network::diagnostics().map_err(|_| Errno::NOTSUP)?;
    send(&kernel, &request, SendFlags::empty())?;
    let mut buffer = vec![0; 4096];
    let (length, _) = recv(&kernel, buffer.as_mut_slice(), RecvFlags::empty())?;
    understand(buffer.get(..length).unwrap_or_default())
}

/// The owner in an answer.
fn understand(message: &[u8]) -> Result<Option<u32>, Errno> {
    const UID: usize = 64;
    const INODE: usize = 68;
    const NLMSG_ERROR: u16 = 2;
    match u16_at(message, 4) {
        Some(SOCK_DIAG_BY_FAMILY) => {
            let (uid, inode) = (u32_at(message, HEADER + UID), u32_at(message, HEADER + INODE));
            Ok(uid.zip(inode).filter(|(_, inode)| *inode != 0).map(|(uid, _)| uid))
        }
        Some(NLMSG_ERROR) => {
            let error = u32_at(message, HEADER).map_or(0, u32::cast_signed);
            Err(Errno::from_raw_os_error(error.saturating_neg()))
        }
        _ => Err(Errno::BADMSG),
    }
}

/// The same by the text of `/proc/net/tcp`.
fn in_table(table: &str, local: SocketAddrV4, remote: SocketAddrV4) -> Option<u32> {
    // Addresses are written as the number that the machine sees in the four bytes.
    let text = |address: SocketAddrV4| {
        let number = u32::from_ne_bytes(address.ip().octets());
        format!("{number:08X}:{:04X}", address.port())
    };
    let (local, remote) = (text(local), text(remote));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next()? != local || fields.next()? != remote {
            return None;
        }
        // state, queues, timer and retransmissions stand before it
        let uid = fields.nth(4)?.parse().ok()?;
        // and a timeout before the inode
        (fields.nth(1)? != "0").then_some(uid)
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn address(address: io::Result<SocketAddr>) -> SocketAddrV4 {
        address.and_then(v4).expect("an address")
    }

    #[test]
    fn a_connection_is_whose_made_it_until_it_is_closed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (server, _) = listener.accept().expect("its other end");
        let (here, there) = (address(server.local_addr()), address(server.peer_addr()));
        assert!(is_ours(&server).expect("an answer"));
        let table = || fs::read_to_string("/proc/net/tcp").expect("the table");
        let own = Some(rustix::process::geteuid().as_raw());
        assert_eq!(owner(there, here).expect("an answer"), own);
        assert_eq!(in_table(&table(), there, here), own);
        drop(client);
        assert!(!is_ours(&server).expect("an answer"));
        assert_eq!(owner(there, here).expect("an answer"), None);
        assert_eq!(in_table(&table(), there, here), None);
        let nobody = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        assert_eq!(owner(nobody, here).expect("an answer"), None);
    }

    #[test]
    fn the_table_is_read_by_its_columns() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1005        0 99 1 0 20 4 30 10 -1\n\
             1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1006        0 98 1 0 20 4 30 10 -1\n\
             2: 0100007F:C002 0100007F:1F90 05 00000000:00000000 03:00001771 00000000     0        0 0 3 0\n";
        let address = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        assert_eq!(in_table(table, address(0xC001), address(0x1F90)), Some(1005));
        assert_eq!(in_table(table, address(0x1F90), address(0xC001)), Some(1006));
        assert_eq!(in_table(table, address(0xC002), address(0x1F90)), None, "it was closed");
        assert_eq!(in_table(table, address(1), address(2)), None);
        assert_eq!(in_table("", address(1), address(2)), None);
    }

    #[test]
    fn answers_that_are_none_are_errors() {
        assert_eq!(understand(&[]), Err(Errno::BADMSG));
        let mut refusal = vec![0; 20];
        refusal[4] = 2;
        refusal[16..20].copy_from_slice(&(-2_i32).to_ne_bytes());
        assert_eq!(understand(&refusal), Err(Errno::NOENT));
    }
}
