//! The worker's side: one connection, one request, one answer.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, socket_with,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::message::{ANSWER, Answer, Request};

/// Where the helper is, if it is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Helper {
    socket: PathBuf,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It is not installed.
    Absent,
    /// Anything else.
    Failed(io::Error),
}

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Self {
        Self::Failed(error.into())
    }
}

impl Helper {
    pub(crate) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Asks for one call about a process. Takes as long as the driver does.
    pub(crate) fn ask(&self, pid: i32, request: &Request) -> Result<Answer, Trouble> {
        let bytes = request.bytes().ok_or(Errno::INVAL)?;
        let address = SocketAddrUnix::new(&self.socket)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        retry_on_intr(|| connect(&socket, &address)).map_err(|error| match error {
            // Nobody has set it up, or has taken it away again.
            Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED => Trouble::Absent,
            error => error.into(),
        })?;
        let pidfd = pidfd_open(Pid::from_raw(pid).ok_or(Errno::INVAL)?, PidfdFlags::empty())?;
        let descriptors = [pidfd.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL))?;
        let mut answer = [0; ANSWER + 1];
        let (count, _) = retry_on_intr(|| recv(&socket, &mut answer[..], RecvFlags::empty()))?;
        let answer = answer.get(..count).and_then(Answer::parse);
        answer.ok_or_else(|| Trouble::Failed(io::Error::other("it ended without an answer")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_is_not_there_is_absent() {
        let directory = tempfile::tempdir().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let helper = Helper::new(&directory.path().join("none.sock"));
        assert!(matches!(helper.ask(own, &Request::State), Err(Trouble::Absent)));
        // As the self-test names one that nobody can have.
        let nobody = Helper::new(Path::new("/dev/null/none"));
        assert!(matches!(nobody.ask(own, &Request::State), Err(Trouble::Absent)));
        // A socket that nobody listens on, as after a crash.
        let path = directory.path().join("old.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let outcome = Helper::new(&path).ask(own, &Request::State);
        assert!(matches!(outcome, Err(Trouble::Absent | Trouble::Failed(_))), "{outcome:?}");
    }
}
