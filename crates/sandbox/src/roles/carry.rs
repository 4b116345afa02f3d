//! Carrying connections: what comes in at one end goes out at another, both ways, until both have finished.
//!
//! A kernel has a handful of connections and they last, so a connection gets two plain threads, one for each direction.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections at a time; more are turned away.
const MOST: usize = 1024;
/// A thread here only copies.
const STACK: usize = 128 << 10;

/// One end of a connection.
pub(super) trait End: Send + Sync + Sized
where
    for<'a> &'a Self: Read + Write,
{
    fn shut(&self, how: Shutdown) -> io::Result<()>;
}

impl End for TcpStream {
    fn shut(&self, how: Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }
}

impl End for UnixStream {
    fn shut(&self, how: Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }
}

/// How many connections are open, of all that one process carries.
#[derive(Clone, Default)]
pub(super) struct Open(Arc<AtomicUsize>);

/// Takes connections for ever, and has each carried by a thread to what `connect` makes for it. `connect` also decides whether it
/// is admitted: an error closes it, which is all that the client is told.
pub(super) fn take<C, S>(
    accept: impl Fn() -> io::Result<C>,
    connect: impl Fn(&C) -> io::Result<S> + Clone + Send + 'static,
    open: &Open,
) where
    C: End + 'static,
    S: End,
    for<'a> &'a C: Read + Write,
    for<'a> &'a S: Read + Write,
{
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
        let (connect, counter) = (connect.clone(), open.clone());
        let started = std::thread::Builder::new().stack_size(STACK).spawn(move || {
            // A connection that cannot be made or breaks is closed.
            let _ = connect(&client).and_then(|server| both_ways(&client, &server));
            counter.0.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            open.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn both_ways<C: End, S: End>(client: &C, server: &S) -> io::Result<()>
where
    for<'a> &'a C: Read + Write,
    for<'a> &'a S: Read + Write,
{
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || one_way(client, server))?;
        one_way(server, client);
        Ok(())
    })
}

/// Copies one way. The end of the stream is passed on; a broken one ends both directions.
fn one_way<F: End, T: End>(from: &F, to: &T)
where
    for<'a> &'a F: Read + Write,
    for<'a> &'a T: Read + Write,
{
    let (mut reader, mut writer) = (from, to);
    let copied = io::copy(&mut reader, &mut writer);
    // Either may be closed already.
    let _ = to.shut(Shutdown::Write);
    if copied.is_err() {
        let _ = from.shut(Shutdown::Both);
        let _ = to.shut(Shutdown::Both);
    }
}
