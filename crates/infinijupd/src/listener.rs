//! The socket: how it is taken, and who comes in.
//!
//! The daemon serves the user who runs it. The socket (0600) lies in a directory that nobody else can enter (0700), and whoever comes
//! in all the same is asked for by the kernel's own record of who connected: anybody but the daemon's user is sent away at once.
//!
//! A file that is in the way is removed only if it is a socket on which nobody answers, which is what a daemon that was killed
//! leaves behind. The other way round, the socket can be taken away from under a daemon that lives: `/run/user/UID` goes when its
//! user logs out. So it is looked for now and then, and bound anew.
//!
//! A service manager may hold the socket for us (`LISTEN_FDS`); then its file is the manager's business.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{PidfdFlags, PidfdGetfdFlags};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Interval, MissedTickBehavior};

use crate::error::DaemonError;

/// How often the socket's file is looked for.
const LOOK: Duration = Duration::from_secs(2);

/// The daemon's socket. It is taken away again when this is dropped, unless another has its place by then.
pub struct PeerListener {
    listener: UnixListener,
    user: u32,
    /// The file that we made; none if the socket was passed to us.
    own: Option<(PathBuf, u64)>,
    look: Interval,
}

impl PeerListener {
    /// Takes the socket at `path`. Runs inside a tokio runtime.
    pub fn bind(path: &Path) -> Result<Self, DaemonError> {
        let (listener, inode) = bind(path)?;
        Ok(Self::new(listener, Some((path.to_path_buf(), inode))))
    }

    /// The socket that the service manager passed, if it did. Runs inside a tokio runtime.
    pub fn passed() -> Result<Option<Self>, DaemonError> {
        let failed = |what| DaemonError::io(what, "the socket of the service manager");
        let Some(number) = sd_notify::listen_fds().map_err(failed("take"))?.next() else { return Ok(None) };
        // A copy of our own, for a number is no descriptor. The original is closed with us, and never inherited.
        let us = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
        let copied = us.and_then(|us| rustix::process::pidfd_getfd(us, number, PidfdGetfdFlags::empty()));
        let listener = StdListener::from(copied.map_err(io::Error::from).map_err(failed("copy"))?);
        listener.local_addr().map_err(failed("look at"))?;
        Ok(Some(Self::new(in_tokio(listener).map_err(failed("wait on"))?, None)))
    }

    fn new(listener: UnixListener, own: Option<(PathBuf, u64)>) -> Self {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { listener, user: rustix::process::geteuid().as_raw(), own, look }
    }

    /// Whether the service manager holds the socket.
    pub fn is_passed(&self) -> bool {
        self.own.is_none()
    }

    /// The next connection of the daemon's own user.
    pub async fn accept(&mut self) -> UnixStream {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = self.look.tick() => {
                    self.bind_again();
                    continue;
                }
            };
            match accepted {
                Ok((stream, _)) => match stream.peer_cred() {
                    Ok(peer) if peer.uid() == self.user => return stream,
                    Ok(peer) => tracing::warn!(uid = peer.uid(), "somebody else connected and was sent away"),
                    Err(error) => tracing::warn!(%error, "nobody knows who connected"),
                },
                Err(error) => {
                    // Out of file descriptors, most likely: some will be free in a moment.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    /// Makes the socket anew if its file is gone. Who is connected stays so.
    fn bind_again(&mut self) {
        let Some((path, _)) = self.own.as_ref().filter(|(path, _)| !path.exists()) else { return };
        let made =
            path.parent().map_or(Ok(()), |run| api::places::make_private(run).map_err(DaemonError::from));
        // Not before its user has a directory for such things again; that may take until the next login.
        let Ok((listener, inode)) = made.and_then(|()| bind(path)) else { return };
        tracing::info!(socket = %path.display(), "the socket was gone; it is there again");
        let path = path.clone();
        self.own = Some((path, inode));
        self.listener = listener;
    }
}

impl Drop for PeerListener {
    fn drop(&mut self) {
        if let Some((path, inode)) = &self.own
            && fs::symlink_metadata(path).is_ok_and(|found| found.ino() == *inode)
        {
            // A socket that stays behind is found to be stale by the next daemon.
            let _ = fs::remove_file(path);
        }
    }
}

fn in_tokio(listener: StdListener) -> io::Result<UnixListener> {
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

fn bind(path: &Path) -> Result<(UnixListener, u64), DaemonError> {
    remove_stale(path)?;
    let listener = UnixListener::bind(path).map_err(DaemonError::io("bind", path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(DaemonError::io("set the mode of", path))?;
    let inode = fs::symlink_metadata(path).map_err(DaemonError::io("look at", path))?.ino();
    Ok((listener, inode))
}

fn remove_stale(path: &Path) -> Result<(), DaemonError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(DaemonError::io("look at", path)(error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(DaemonError::io("bind", path)(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "something that is not a socket is in its place",
        )));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(other) => {
            let holder = rustix::net::sockopt::socket_peercred(&other)
                .map_or_else(|_| "unknown".to_owned(), |peer| format!("pid {}", peer.pid.as_raw_nonzero()));
            Err(DaemonError::AlreadyRunning { path: path.to_path_buf(), holder })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(DaemonError::io("remove the stale socket", path))
        }
        // For instance a full queue: somebody is there, only slow.
        Err(error) => Err(DaemonError::io("connect to", path)(error)),
    }
}
