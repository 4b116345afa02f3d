//! The socket: how it is taken, and who comes in.
//!
//! Anybody may connect (0666); what they may do follows from who they are. A file that is in the way is removed only if it
//! is a socket on which nobody answers, which is what a daemon that was killed leaves behind. One user can have only so
//! many connections open at once: without that, any user could use up the daemon's file descriptors, and with them
//! everybody's sessions.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};

use crate::error::DaemonError;
use crate::lock;

/// The user at the other end, as the kernel says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Peer {
    /// The effective user of the process that connected.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

/// The daemon's socket. It is taken away again when this is dropped, unless another has its place by then.
pub struct PeerListener {
    listener: UnixListener,
    seats: Seats,
    path: PathBuf,
    inode: u64,
}

impl PeerListener {
    /// Takes the socket at `path`. Runs inside a tokio runtime.
    pub fn bind(path: &Path, connections_per_user: usize) -> Result<Self, DaemonError> {
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(DaemonError::io("bind", path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))
            .map_err(DaemonError::io("set the mode of", path))?;
        let inode = fs::symlink_metadata(path).map_err(DaemonError::io("look at", path))?.ino();
        Ok(Self { listener, seats: Seats::new(connections_per_user), path: path.to_path_buf(), inode })
    }
}

impl Drop for PeerListener {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // A socket that stays behind is found to be stale by the next daemon.
            let _ = fs::remove_file(&self.path);
        }
    }
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

impl Listener for PeerListener {
    type Io = Connection;
    type Addr = Peer;

    async fn accept(&mut self) -> (Connection, Peer) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let Ok(credentials) = stream.peer_cred() else { continue };
                    let peer = Peer { uid: credentials.uid(), gid: credentials.gid() };
                    let Some(seat) = self.seats.take(peer.uid) else {
                        tracing::warn!(
                            uid = peer.uid,
                            "too many connections of one user; closing the newest"
                        );
                        continue;
                    };
                    return (Connection { stream, _seat: seat }, peer);
                }
                Err(error) => {
                    // Out of file descriptors, most likely: some will be free in a moment.
                    tracing::warn!(error = %error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Connected<IncomingStream<'_, PeerListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, PeerListener>) -> Self {
        *stream.remote_addr()
    }
}

/// How many connections each user has.
#[derive(Clone)]
struct Seats {
    taken: Arc<Mutex<HashMap<u32, usize>>>,
    limit: usize,
}

impl Seats {
    fn new(limit: usize) -> Self {
        Self { taken: Arc::default(), limit }
    }

    /// A seat, if the user has one left. Root always has.
    fn take(&self, uid: u32) -> Option<Seat> {
        let mut taken = lock(&self.taken);
        let count = taken.entry(uid).or_default();
        if uid != 0 && *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Seat { seats: self.clone(), uid })
    }
}

/// One connection's place; dropped with it.
struct Seat {
    seats: Seats,
    uid: u32,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = lock(&self.seats.taken);
        if let Some(count) = taken.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.uid);
            }
        }
    }
}

/// A connection, with its seat.
pub struct Connection {
    stream: UnixStream,
    _seat: Seat,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_counted_by_user_and_given_back() {
        let seats = Seats::new(2);
        let first = seats.take(1000).unwrap();
        let _second = seats.take(1000).unwrap();
        assert!(seats.take(1000).is_none());
        assert!(seats.take(1001).is_some());
        drop(first);
        assert!(seats.take(1000).is_some());
    }
}
