//! `door`: a process in a box's network, and in no other part of the box, that makes sockets there and hands them out.
//!
//! It says one byte for each that it is asked for, with the socket if there is one. It has given up all rights that it had by entering.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socket_with, sockopt,
};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use super::super::{Outcome, inside, rights, while_doing, with_causes};
use crate::process::Identity;

/// What is asked for: a socket of IPv4 or of IPv6.
const V4: u8 = 4;
const V6: u8 = 6;
/// How long a server may take to accept.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Words: the holder of the box. Questions come on standard input, a socket.
pub(in super::super) fn door(words: &[OsString]) -> Outcome {
    let holder = inside::parse_identity(words.first().ok_or("the holder is missing")?)?;
    let target = holder.open().map_err(with_causes)?;
    move_into_thread_name_spaces(target.as_fd(), ThreadNameSpaceType::USER | ThreadNameSpaceType::NETWORK)
        .map_err(while_doing("enter the network"))?;
    drop(target);
    rights::give_up()?;
    let asked = rustix::stdio::stdin();
    loop {
        let mut question = [0];
        match rustix::io::read(asked, &mut question) {
            Ok(0) => return Ok(ExitCode::SUCCESS),
            Ok(_) => answer(question).map_err(while_doing("answer"))?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(while_doing("hear questions")(error)),
        }
    }
}

fn answer([question]: [u8; 1]) -> rustix::io::Result<()> {
    let family = if question == V4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let made = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let handed = made.as_ref().map(|made| [made.as_fd()]).ok();
    if let Some(handed) = &handed {
        control.push(SendAncillaryMessage::ScmRights(handed));
    }
    sendmsg(rustix::stdio::stdin(), &[IoSlice::new(&[question])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The way to such a process.
pub(super) struct Door {
    asked: Mutex<UnixStream>,
    /// It ends when it is asked nothing more, which is when we end.
    _child: Child,
}

impl Door {
    /// Starts one for the box with this holder.
    pub(super) fn open(holder: Identity) -> Outcome<Self> {
        let program = std::env::current_exe().map_err(while_doing("find our own program"))?;
        let (ours, theirs) = UnixStream::pair().map_err(while_doing("make a pair of sockets"))?;
        let child = Command::new(program)
            .arg("door")
            .arg(format!("{}:{}", holder.pid, holder.start_time))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(while_doing("open the door"))?;
        let door = Self { asked: Mutex::new(ours), _child: child };
        // It is open when it has answered once.
        door.socket(V4).map_err(while_doing("enter the box's network"))?;
        Ok(door)
    }

    fn socket(&self, family: u8) -> io::Result<OwnedFd> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        rustix::io::write(&*asked, &[family])?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let heard =
            recvmsg(&*asked, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if heard.bytes == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let handed = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        handed.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// A connection to a server in the box.
    pub(super) fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = self.socket(if to.is_ipv4() { V4 } else { V6 })?;
        // A server that does not accept must not hold us for minutes.
        rustix::io::ioctl_fionbio(&socket, true)?;
        match rustix::net::connect(&socket, &to) {
            Err(Errno::INPROGRESS) => {
                let mut done = [PollFd::new(&socket, PollFlags::OUT)];
                if poll(&mut done, Some(&PATIENCE))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                sockopt::socket_error(&socket)??;
            }
            other => other?,
        }
        rustix::io::ioctl_fionbio(&socket, false)?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// A listener on this port of the box's loopback; an error if somebody inside has the port.
    pub(super) fn listen(&self, port: u16) -> io::Result<TcpListener> {
        let socket = self.socket(V4)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(TcpListener::from(socket))
    }
}

/// Stops listening, which also wakes whoever waits in `accept`.
pub(super) fn stop(listener: &TcpListener) {
    // It is one; what else could be said about it is of no use to anybody.
    let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
}
