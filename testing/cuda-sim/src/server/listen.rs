//! The socket, and the threads behind it.
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::socket::{ControlMessage, MsgFlags, getsockopt, sendmsg, sockopt::PeerCredentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Process, Server, lock};
use crate::code::Code;
use crate::wire::{Answer, Request, receive, send};

/// The listening socket; its file goes with it.
#[derive(Debug)]
pub struct Listening {
    path: PathBuf,
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

/// Listens on `DIR/socket`, in threads of its own.
///
/// # Errors
/// The directory or the socket cannot be made.
pub fn listen(server: &Arc<Server>, directory: &Path) -> io::Result<Listening> {
    std::fs::create_dir_all(directory)?;
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755))?;
    let path = directory.join("socket");
    drop(std::fs::remove_file(&path));
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666))?;
    let server = server.clone();
    std::thread::Builder::new().name("accept".to_owned()).spawn(move || {
        for connection in listener.incoming() {
            match connection {
                // A client that goes away while it is greeted has lost a channel, nothing else.
                Ok(connection) => drop(greet(&server, &connection)),
                // Too many files: others will close some.
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        }
    })?;
    Ok(Listening { path })
}

/// Hands the process its ends of a new channel, and starts the channel's thread.
fn greet(server: &Arc<Server>, connection: &UnixStream) -> io::Result<()> {
    let peer = getsockopt(connection, PeerCredentials)?;
    let process = server.known(peer.pid())?;
    process.set_uid(peer.uid());
    let (requests, theirs_out) = pipe_with(PipeFlags::CLOEXEC)?;
    let (theirs_in, answers) = pipe_with(PipeFlags::CLOEXEC)?;
    let server = server.clone();
    std::thread::Builder::new()
        .name("channel".to_owned())
        .spawn(move || serve(&server, &process, File::from(requests), File::from(answers)))?;
    let fds = [theirs_out.as_raw_fd(), theirs_in.as_raw_fd()];
    let word = [IoSlice::new(b"!")];
    sendmsg::<()>(
        connection.as_raw_fd(),
        &word,
        &[ControlMessage::ScmRights(&fds)],
        MsgFlags::MSG_NOSIGNAL,
        None,
    )?;
    Ok(())
}

/// One channel, until its other end closes.
fn serve(server: &Arc<Server>, process: &Arc<Process>, mut requests: File, mut answers: File) {
    loop {
        let request = match receive::<Request>(&mut requests) {
            Ok(request) => request,
            // What is no request is answered as such; a broken frame ends the channel.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                if send(&mut answers, &Answer { code: Code::INVALID_VALUE.0, body: serde_json::Value::Null })
                    .is_err()
                {
                    return;
                }
                continue;
            }
            Err(_) => return,
        };
        let result =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.dispatch(process, request)));
        let answer = match result {
            Ok(Ok(body)) => Answer { code: 0, body },
            Ok(Err(code)) => Answer { code: code.0, body: serde_json::Value::Null },
            Err(_) => Answer { code: Code::UNKNOWN.0, body: serde_json::Value::Null },
        };
        if send(&mut answers, &answer).is_err() {
            return;
        }
    }
}

impl Server {
    /// The process of a peer; it is watched from the first time on, and forgotten when it ends.
    fn known(self: &Arc<Self>, pid: i32) -> io::Result<Arc<Process>> {
        if let Some(process) = self.process(pid) {
            if !has_ended(&process.pidfd) {
                return Ok(process);
            }
            // CRIU gives a process the number it had before, and may be faster than our watch.
            self.forget(&process);
        }
        // The peer waits for our answer: the pid cannot be another's by now.
        let number = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        let pidfd = pidfd_open(number, PidfdFlags::empty())?;
        let process = Process::new(pid, pidfd.try_clone()?, self.faults.clone());
        lock(&self.processes).insert(pid, process.clone());
        let (server, watched) = (self.clone(), process.clone());
        std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            wait_for_end(&pidfd);
            watched.set_ended();
            server.forget(&watched);
        })?;
        Ok(process)
    }

    /// Forgets a process and frees what it had.
    pub fn forget(&self, process: &Arc<Process>) {
        let mut processes = lock(&self.processes);
        if processes.get(&process.pid).is_some_and(|known| Arc::ptr_eq(known, process)) {
            processes.remove(&process.pid);
        }
        drop(processes);
        process.clear();
    }
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

fn wait_for_end(pidfd: &OwnedFd) {
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)], None) {
            Ok(_) => return,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
