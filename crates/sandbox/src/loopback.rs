//! A box's loopback and the machine's, joined: what is asked of `infinijup-box join`, which does it ([`roles::join`](crate::roles)).
//!
//! It is a process of its own, because it has to go on when the daemon is restarted, and ends with the box that it was started for. Whoever
//! asks it which servers the box has connects to its socket, says one byte and reads one line.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};
use crate::launch::last_line;
use crate::listening;
use crate::process::Identity;
use crate::program::Program;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than that is no answer.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Ports of a box by the ports of the machine's loopback that lead to them.
pub type Servers = BTreeMap<u16, u16>;

/// What is to be joined.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Loopback {
    /// Of which box.
    pub holder: Identity,
    /// Whether the services on the machine's loopback are reachable inside, too.
    pub inward: bool,
    /// Ports of the box that belong to its kernel: they have a way of their own.
    pub own: Vec<u16>,
    /// Which ports outside have led to which inside before.
    pub before: Servers,
}

impl Loopback {
    /// Joins them. Its socket is made at this path, in the place of one that a box before this has left.
    pub fn join(&self, program: &Program, socket: &Path) -> Result<()> {
        let words = serde_json::to_string(self)
            .map_err(|error| SandboxError::Forward { detail: error.to_string() })?;
        let mut helper = program.role("loopback");
        helper.arg(socket).arg(words).stdin(Stdio::null());
        let output = helper.output().map_err(SandboxError::io("run", program.path()))?;
        match output.stdout.as_slice() {
            b"up\n" => Ok(()),
            [] => Err(SandboxError::Forward { detail: last_line(&output.stderr) }),
            said => Err(SandboxError::Forward { detail: last_line(said) }),
        }
    }

    /// Whether the box has servers that are not its kernel's.
    pub fn has_servers(&self) -> bool {
        let found = listening::in_network_of(self.holder.pid).unwrap_or_default();
        found.iter().any(|address| !self.own.contains(&address.port()))
    }

    /// Whether somebody listens at this socket.
    pub fn is_joined(socket: &Path) -> bool {
        UnixStream::connect(socket).is_ok()
    }

    /// The servers of the box whose socket this is, each with a port outside that leads to it from now on.
    pub fn servers(socket: &Path) -> Result<Servers> {
        let failed = || SandboxError::io::<std::io::Error>("ask", socket);
        let mut stream = UnixStream::connect(socket).map_err(failed())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed())?;
        stream.write_all(b"?").map_err(failed())?;
        let mut line = String::new();
        BufReader::new(stream.take(LONGEST_ANSWER)).read_line(&mut line).map_err(failed())?;
        serde_json::from_str(&line).map_err(|error| SandboxError::Forward { detail: error.to_string() })
    }
}
