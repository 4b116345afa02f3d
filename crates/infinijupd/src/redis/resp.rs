//! RESP, the protocol of Redis, as far as adding to a stream needs it: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.
//!
//! One command at a time, each with one short answer, so this is a page of code. Written by hand because the `redis` crate (1.8.1
//! was tried, without its features) has no limit for what it reads: a server that announces a long answer and sends 600 MiB of
//! it had all of it in our memory, and a line without an end kept a core busy for longer than anybody waits. It cannot be given
//! a stream of ours that has a limit, and it brings a URL parser with tables of Unicode and 30 crates that nothing else needs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::address::{Address, Place};

/// How long Redis may take for anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest answer that is read.
const ANSWER: u64 = 64 << 10;

/// A connection that is logged in.
pub(super) struct Connection {
    reader: BufReader<Box<dyn Stream>>,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Connection {
    pub(super) fn open(address: &Address) -> io::Result<Self> {
        let stream: Box<dyn Stream> = match &address.place {
            Place::Tcp(host, port) => {
                let found = (host.as_str(), *port).to_socket_addrs()?.next();
                let address = found.ok_or_else(|| io::Error::other("the host has no address"))?;
                let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
        };
        let mut connection = Self { reader: BufReader::new(stream) };
        match (&address.user, &address.password) {
            (Some(user), password) => {
                connection.call(&["AUTH", user, password.as_deref().unwrap_or_default()])?;
            }
            (None, Some(password)) => connection.call(&["AUTH", password])?,
            (None, None) => (),
        }
        if address.database != 0 {
            connection.call(&["SELECT", &address.database.to_string()])?;
        }
        Ok(connection)
    }

    /// Sends a command and waits until Redis has done it.
    pub(super) fn call(&mut self, words: &[&str]) -> io::Result<()> {
        self.reader.get_mut().write_all(&command(words))?;
        answer(&mut self.reader)
    }
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Reads one answer; what it says matters only if it is an error.
fn answer(reader: &mut impl BufRead) -> io::Result<()> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut line = Vec::new();
    reader.by_ref().take(ANSWER).read_until(b'\n', &mut line)?;
    let Some(line) = line.strip_suffix(b"\r\n") else { return Err(wrong("Redis sent half an answer")) };
    let text = String::from_utf8_lossy(line);
    let (kind, rest) = text.split_at_checked(1).ok_or_else(|| wrong("Redis sent an empty answer"))?;
    match kind {
        "+" | ":" => Ok(()),
        "-" => Err(io::Error::other(format!("Redis says: {rest}"))),
        "$" => {
            let length: i64 = rest.parse().map_err(|_| wrong("Redis sent a length that is no number"))?;
            let Ok(length) = u64::try_from(length) else { return Ok(()) };
            if length > ANSWER {
                return Err(wrong("Redis sent an answer that is too long"));
            }
            let copied = io::copy(&mut reader.by_ref().take(length + 2), &mut io::sink())?;
            if copied == length + 2 { Ok(()) } else { Err(wrong("Redis sent half an answer")) }
        }
        _ => Err(wrong("Redis sent an answer of a kind that was not asked for")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_written_by_length() {
        assert_eq!(command(&["XADD", "", "é"]), "*3\r\n$4\r\nXADD\r\n$0\r\n\r\n$2\r\né\r\n".as_bytes());
    }

    #[test]
    fn answers_are_read_to_their_end() {
        let mut answers = &b"+OK\r\n$3\r\n1-0\r\n:7\r\n$-1\r\n-WRONGTYPE not a stream\r\n+OK\r\n"[..];
        for _ in 0..4 {
            answer(&mut answers).unwrap();
        }
        assert!(answer(&mut answers).unwrap_err().to_string().contains("WRONGTYPE"));
        answer(&mut answers).unwrap();
        for nonsense in
            ["", "+OK", "\r\n", "$5\r\nab", "$x\r\n", "$99999999999\r\n", "*1\r\n+OK\r\n", "HTTP/1.1 400\r\n"]
        {
            answer(&mut nonsense.as_bytes()).unwrap_err();
        }
    }

    fn answers() -> impl Strategy<Value = Vec<u8>> {
        let noise = prop::collection::vec(any::<u8>(), 0..200);
        let kinds = prop::sample::select(b"+-:$*_".as_slice());
        let line = (kinds, any::<i64>(), noise.clone()).prop_map(|(kind, number, noise)| {
            let head = format!("{}{number}\r\n", char::from(kind)).into_bytes();
            [head, noise].concat()
        });
        prop_oneof![noise, line]
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_makes_it_panic_or_read_on(bytes in answers()) {
            let mut rest = bytes.as_slice();
            while answer(&mut rest).is_ok() {}
            let mut endless = BufReader::new(bytes.as_slice().chain(io::repeat(b'x')));
            // It ends, although what it reads does not.
            while answer(&mut endless).is_ok() {}
        }

        #[test]
        fn an_answer_is_read_to_its_end_and_not_beyond(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let bytes = [format!("${}\r\n", body.len()).as_bytes(), &body, b"\r\n+OK\r\n"].concat();
            let mut rest = bytes.as_slice();
            prop_assert!(answer(&mut rest).is_ok());
            prop_assert_eq!(rest, b"+OK\r\n".as_slice());
        }
    }
}
