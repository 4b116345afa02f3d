//! One call for one user: what the helper does from its start to its end.
//!
//! In this order, because each step costs more than the one before it, and the first that fails is the last: who asks, the
//! message, whose the target is; only then is the driver's library opened. The target is looked at again right before the call,
//! since opening the library takes its time, and once more after it.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_peercred, socket_type};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendFlags,
    SocketType, recvmsg, sendmsg,
};

use super::message::{Answer, LENGTH, Refusal, Request};
use super::target::Target;
use crate::sys::Library;

/// How long who has connected may take to ask.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

type Result<T> = std::result::Result<T, Refusal>;

/// Serves the one who is at the other end of `connection`, once. True if the driver was asked.
pub fn serve_one(connection: BorrowedFd<'_>) -> bool {
    let answer = outcome(connection).unwrap_or_else(Answer::Refused);
    let bytes = answer.bytes();
    // Who does not take the answer goes without it: nothing here waits for them.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = sendmsg(connection, &[IoSlice::new(&bytes)], &mut SendAncillaryBuffer::default(), flags);
    !matches!(answer, Answer::Refused(_))
}

fn outcome(connection: BorrowedFd<'_>) -> Result<Answer> {
    // Who connected, as the kernel noted it then. It fails if this is no such socket.
    let user = socket_peercred(connection).map_err(|_| Refusal::Malformed)?.uid.as_raw();
    if socket_type(connection) != Ok(SocketType::SEQPACKET) {
        return Err(Refusal::Malformed);
    }
    if user == 0 {
        return Err(Refusal::Root);
    }
    let (request, pidfd) = receive(connection)?;
    let target = Target::of(pidfd)?;
    target.belongs_to(user)?;
    let library = Library::open(None).map_err(|_| Refusal::NoDriver)?;
    target.belongs_to(user)?;
    let called = call(&library, target.pid, &request);
    if target.belongs_to(user).is_err() {
        // It may have been another's when the driver came to it. The one call that holds it up is taken back.
        if matches!(request, Request::Lock { .. }) && called.is_ok() && target.number_is_taken() {
            let _ = library.unlock(target.pid);
        }
        return Err(Refusal::Changed);
    }
    Ok(called.map_or_else(Answer::Code, Answer::Done))
}

fn call(library: &Library, pid: i32, request: &Request) -> std::result::Result<i32, i32> {
    match request {
        Request::Thread => library.restore_thread(pid),
        Request::State => library.state(pid).map(Into::into),
        Request::Lock { timeout_ms } => library.lock(pid, *timeout_ms).map(|()| 0),
        Request::Checkpoint => library.checkpoint(pid).map(|()| 0),
        Request::Restore { pairs } => library.restore(pid, pairs).map(|()| 0),
        Request::Unlock => library.unlock(pid).map(|()| 0),
    }
}

/// The one packet, and the one descriptor with it.
fn receive(connection: BorrowedFd<'_>) -> Result<(Request, BorrowedFd<'static>)> {
    let mut fds = [PollFd::from_borrowed_fd(connection, PollFlags::IN)];
    match poll(&mut fds, Some(&PATIENCE)) {
        Ok(ready) if ready > 0 => {}
        _ => return Err(Refusal::Malformed),
    }
    // One byte more than a request has: a longer packet is seen to be one.
    let mut bytes = [0; LENGTH + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = loop {
        match recvmsg(connection, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            received => break received.map_err(|_| Refusal::Malformed)?,
        }
    };
    // Never closed, but left to the end of this program: closing a file of somebody's own file system (FUSE) waits for its
    // server, who need not answer.
    let descriptors: &'static [OwnedFd] = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect::<Vec<_>>()
        .leak();
    let cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    match (bytes.get(..received.bytes).and_then(Request::parse), descriptors) {
        (Some(request), [pidfd]) if !cut => Ok((request, pidfd.as_fd())),
        _ => Err(Refusal::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::net::{AddressFamily, SocketFlags, socketpair};

    use super::*;

    fn answer(kind: SocketType) -> (bool, Answer) {
        let (own, helpers) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::send(&own, &[7; LENGTH + 40], SendFlags::empty()).unwrap();
        let served = serve_one(helpers.as_fd());
        let mut bytes = [0; 64];
        let (count, _) = rustix::net::recv(&own, &mut bytes, RecvFlags::DONTWAIT).unwrap();
        (served, Answer::parse(&bytes[..count]).unwrap())
    }

    #[test]
    fn nonsense_is_answered_and_nothing_is_done() {
        let root = rustix::process::geteuid().is_root();
        let expected = if root { Refusal::Root } else { Refusal::Malformed };
        assert_eq!(answer(SocketType::SEQPACKET), (false, Answer::Refused(expected)));
        assert_eq!(answer(SocketType::STREAM), (false, Answer::Refused(Refusal::Malformed)));
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        if rustix::process::geteuid().is_root() {
            return;
        }
        let (own, helpers) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let start = Instant::now();
        assert!(!serve_one(helpers.as_fd()));
        assert!(start.elapsed() < Duration::from_secs(10));
        drop(own);
    }
}
