//! What is asked of the kernel about a box's network, from inside it.

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};

use crate::error::{Result, SandboxError};

/// `ip link set lo up`, in the words of rtnetlink: one request, one acknowledgement.
pub(crate) fn bring_loopback_up() -> Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 1 | 4;
    const LOOPBACK: i32 = 1;
    const UP: u32 = 1;
    let failed = || SandboxError::system::<rustix::io::Errno>("bring the loopback up");

    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACK.to_ne_bytes());
    message.extend([0; 8]); // sequence and sender
    message.extend([0; 4]); // family, padding, type
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes()); // the flags …
    message.extend(UP.to_ne_bytes()); // … and which of them to change

    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None).map_err(failed())?;
    send(&socket, &message, SendFlags::empty()).map_err(failed())?;
    let mut answer = [0_u8; 256];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty()).map_err(failed())?;
    match acknowledgement(answer.get(..length).unwrap_or_default()) {
        Some(0) => Ok(()),
        Some(error) => Err(failed()(rustix::io::Errno::from_raw_os_error(-error))),
        None => Err(failed()(rustix::io::Errno::BADMSG)),
    }
}

/// The error number in a netlink acknowledgement: zero or negative.
fn acknowledgement(message: &[u8]) -> Option<i32> {
    const NLMSG_ERROR: u16 = 2;
    let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
    let error = i32::from_ne_bytes(message.get(16..20)?.try_into().ok()?);
    (kind == NLMSG_ERROR && error <= 0).then_some(error)
}

/// A socket that can ask the kernel about the sockets of the namespace it is opened in.
pub(crate) fn diagnostics() -> Result<OwnedFd> {
    socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::SOCK_DIAG))
        .map_err(SandboxError::system("ask the kernel about sockets"))
}
