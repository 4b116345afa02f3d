//! Carrying connections in one thread.
//!
//! Threads have numbers like processes. In a box that is being restored those belong to the tree that is coming, and clients that try
//! to get back in would use them up. So the gate has no threads: it waits for all its sockets at once, and each direction of each
//! connection has a small buffer of its own.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Connections at a time; more wait until one has ended.
const MOST: usize = 512;
const BUFFER: usize = 64 << 10;
/// How long no new connections are taken when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// Leads every connection of a listener to its port, for ever.
pub(super) fn relay(listeners: &[(UnixListener, u16)]) -> io::Result<()> {
    for (listener, _) in listeners {
        listener.set_nonblocking(true)?;
    }
    let mut open: Vec<Connection> = Vec::new();
    loop {
        let ready = wait(listeners, &open)?;
        let (new, old) = ready.split_at(listeners.len());
        for (connection, ready) in open.iter_mut().zip(old.chunks(2)) {
            connection.step(ready.iter().any(|flags| !flags.is_empty()));
        }
        open.retain(|connection| !connection.is_over());
        for ((listener, port), ready) in listeners.iter().zip(new) {
            if !ready.is_empty() && open.len() < MOST {
                match listener.accept() {
                    // One that cannot be led on is closed; that is all the client can be told.
                    Ok((client, _)) => open.extend(Connection::new(client, *port).ok()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        }
    }
}

/// Waits until something can be done; what, for each listener and for both ends of each connection.
fn wait(listeners: &[(UnixListener, u16)], open: &[Connection]) -> io::Result<Vec<PollFlags>> {
    let full = open.len() >= MOST;
    let mut waited = Vec::with_capacity(listeners.len() + 2 * open.len());
    let wanted = |wanted: bool, flags| if wanted { flags } else { PollFlags::empty() };
    for (listener, _) in listeners {
        waited.push(PollFd::new(listener, wanted(!full, PollFlags::IN)));
    }
    for one in open {
        let (there, back) = (&one.there, &one.back);
        waited.push(PollFd::new(
            &one.client,
            wanted(there.wants_input(), PollFlags::IN) | wanted(back.has_output(), PollFlags::OUT),
        ));
        waited.push(PollFd::new(
            &one.server,
            wanted(back.wants_input(), PollFlags::IN) | wanted(there.has_output(), PollFlags::OUT),
        ));
    }
    loop {
        match poll(&mut waited, None::<&Timespec>) {
            Ok(_) => return Ok(waited.iter().map(PollFd::revents).collect()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

struct Connection {
    client: UnixStream,
    server: TcpStream,
    there: Direction,
    back: Direction,
}

impl Connection {
    fn new(client: UnixStream, port: u16) -> io::Result<Self> {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        server.set_nodelay(true)?;
        server.set_nonblocking(true)?;
        client.set_nonblocking(true)?;
        Ok(Self { client, server, there: Direction::default(), back: Direction::default() })
    }

    fn step(&mut self, is_ready: bool) {
        if !is_ready {
            return;
        }
        let shut_server = |how| self.server.shutdown(how);
        let went = self.there.step(&mut &self.client, &mut &self.server, shut_server);
        let came = self.back.step(&mut &self.server, &mut &self.client, |how| self.client.shutdown(how));
        if went.is_err() || came.is_err() {
            (self.there.over, self.back.over) = (true, true);
        }
    }

    fn is_over(&self) -> bool {
        self.there.over && self.back.over
    }
}

/// What comes from one end and has not gone out at the other.
#[derive(Default)]
struct Direction {
    waiting: Vec<u8>,
    ended: bool,
    over: bool,
}

impl Direction {
    fn wants_input(&self) -> bool {
        !self.ended && self.waiting.is_empty()
    }

    fn has_output(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Moves what can be moved now. The end of a stream is passed on; an error is a broken one.
    fn step(
        &mut self,
        from: &mut impl Read,
        to: &mut impl Write,
        shut: impl Fn(Shutdown) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.wants_input() {
            let mut buffer = [0; BUFFER];
            match from.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(length) => self.waiting.extend(buffer.get(..length).unwrap_or_default()),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error),
            }
        }
        while !self.waiting.is_empty() {
            match to.write(&self.waiting) {
                Ok(length) => drop(self.waiting.drain(..length)),
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if self.ended && self.waiting.is_empty() && !self.over {
            self.over = true;
            // It may be closed already.
            let _ = shut(Shutdown::Write);
        }
        Ok(())
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn bytes_go_both_ways_and_ends_are_passed_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("1");
        let gate = UnixListener::bind(&path).expect("a socket");
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = server.local_addr().expect("an address").port();
        std::thread::spawn(move || relay(&[(gate, port)]));

        let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let echo = std::thread::spawn(move || {
            let (mut one, _) = server.accept().expect("a connection");
            let mut heard = Vec::new();
            one.read_to_end(&mut heard).expect("until its end");
            one.write_all(&heard).expect("it is taken back");
        });
        let mut client = UnixStream::connect(&path).expect("the gate is open");
        client.write_all(&sent).expect("it is taken");
        client.shutdown(Shutdown::Write).expect("no more");
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).expect("until its end");
        echo.join().expect("it has echoed");
        assert!(heard == sent, "{} of {} bytes", heard.len(), sent.len());
    }

    #[test]
    fn nobody_behind_the_gate_means_a_closed_connection() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("1");
        let gate = UnixListener::bind(&path).expect("a socket");
        // Port 1 is nobody's.
        std::thread::spawn(move || relay(&[(gate, 1)]));
        for _ in 0..3 {
            let mut client = UnixStream::connect(&path).expect("the gate is open");
            assert_eq!(client.read(&mut [0; 1]).expect("the end"), 0);
        }
    }
}
