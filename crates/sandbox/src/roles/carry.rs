//! Carrying connections: what comes in at one end goes out at another, both ways, until both have finished.
//!
//! A kernel has a handful of connections and they last, so a connection gets two plain threads, one for each direction.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::clients::{Channel, Clients, Visit};

/// Connections at a time; more are turned away.
const MOST: usize = 1024;
/// A thread here only copies.
const STACK: usize = 128 << 10;

/// How many connections are open, of all that one process carries.
#[derive(Clone, Default)]
pub(super) struct Open(Arc<AtomicUsize>);

/// Takes connections for ever, and has each carried by a thread to what `connect` makes for it. `connect` also decides whether it
/// is admitted: an error closes it, which is all that the client is told.
pub(super) fn take(
    accept: impl Fn() -> io::Result<TcpStream>,
    connect: impl Fn(&TcpStream) -> io::Result<UnixStream> + Clone + Send + 'static,
    open: &Open,
    (clients, channel): (&Clients, Channel),
) {
    loop {
        let Ok(client) = accept() else {
            // Out of descriptors, mostly. They come back as connections end.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.0.fetch_add(1, Ordering::Relaxed) >= MOST {
            open.0.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (connect, counter, clients) = (connect.clone(), open.clone(), clients.clone());
        let started = std::thread::Builder::new().stack_size(STACK).spawn(move || {
            // A connection that cannot be made or breaks is closed.
            let _ = connect(&client).and_then(|server| both_ways(&client, &server, &clients.visit(channel)));
            counter.0.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            open.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Between a client and a kernel, which may have to wait for each other.
fn both_ways(client: &TcpStream, server: &UnixStream, visit: &Visit) -> io::Result<()> {
    carry(
        client,
        server,
        || visit.there(&mut &*client, &mut &*server),
        || visit.back(&mut &*server, &mut &*client),
    )
}

/// Between any two.
pub(super) fn plainly_both_ways(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    carry(
        client,
        server,
        || io::copy(&mut &*client, &mut &*server).map(drop),
        || io::copy(&mut &*server, &mut &*client).map(drop),
    )
}

/// What can be told that it ends.
trait End: Sync {
    fn end(&self, how: Shutdown) -> io::Result<()>;
}

impl End for TcpStream {
    fn end(&self, how: Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }
}

impl End for UnixStream {
    fn end(&self, how: Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }
}

/// The end of a stream is passed on; a broken one ends both directions.
fn carry(
    client: &impl End,
    server: &impl End,
    there: impl FnOnce() -> io::Result<()> + Send,
    back: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    // Either may be closed already.
    let end_both = || {
        let _ = client.end(Shutdown::Both);
        let _ = server.end(Shutdown::Both);
    };
    let there = || {
        let carried = there();
        let _ = server.end(Shutdown::Write);
        carried.unwrap_or_else(|_| end_both());
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, there)?;
        let carried = back();
        let _ = client.end(Shutdown::Write);
        carried.unwrap_or_else(|_| end_both());
        Ok(())
    })
}
