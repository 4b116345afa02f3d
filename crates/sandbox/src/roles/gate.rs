//! `gate`: the way into a box. It lives inside, beside the tree, and holds sockets that were made outside.
//!
//! The sockets are files in a directory of the user's that nobody else can enter, so the kernel decides who gets to a port: a port on
//! loopback would be anybody's. ZeroMQ's protocol is the same over both.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use super::relay::relay;
use super::{Outcome, number, rights, while_doing};

/// Makes the sockets `1`, `2` … in a directory. What an earlier box has left there is replaced.
pub(super) fn listen(directory: &Path, count: usize) -> Outcome<Vec<OwnedFd>> {
    let one = |number: usize| {
        let path = directory.join(number.to_string());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(while_doing(format!("replace `{}`", path.display()))(error));
            }
            _ => {}
        }
        let listener =
            UnixListener::bind(&path).map_err(while_doing(format!("listen at `{}`", path.display())))?;
        Ok(OwnedFd::from(listener))
    };
    (1..=count).map(one).collect()
}

/// Starts the gate as a child of the holder.
pub(super) fn start(program: &Path, ports: &[u16], sockets: &[RawFd]) -> Outcome<()> {
    let mut gate = Command::new(program);
    gate.arg("gate").arg("-");
    for socket in sockets {
        gate.arg(format!("fd={socket}"));
    }
    gate.args(ports.iter().map(ToString::to_string));
    gate.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    gate.spawn().map(drop).map_err(while_doing("start the gate"))
}

pub(super) fn gate(words: &[OsString], sockets: &[RawFd]) -> Outcome {
    rights::give_up()?;
    rustix::process::setsid().map_err(while_doing("start a session"))?;
    let ports = words.get(1 + sockets.len()..).unwrap_or_default();
    let mut listeners = Vec::new();
    for (socket, port) in sockets.iter().zip(ports) {
        listeners.push((adopt(*socket)?, number(port, "a port")?));
    }
    relay(&listeners).map_err(while_doing("carry connections"))?;
    Ok(ExitCode::SUCCESS)
}

/// A listener out of a number that we were told. The kernel hands out a duplicate, of our own descriptors as of others'.
fn adopt(number: RawFd) -> Outcome<UnixListener> {
    let us = pidfd_open(getpid(), PidfdFlags::empty()).map_err(while_doing("take the sockets over"))?;
    let socket =
        pidfd_getfd(us, number, PidfdGetfdFlags::empty()).map_err(while_doing("take the sockets over"))?;
    Ok(UnixListener::from(socket))
}
