//! The gate of a box ([`Gate`](crate::Gate)), reachable from the machine's loopback by its own user.
//!
//! The forwarder is a process of its own (`infinijup-box forward`), because it has to go on when the daemon is restarted. It connects
//! to the gate's sockets by their paths, so it also serves a box that was made anew.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};
use crate::launch::last_line;
use crate::process::Identity;
use crate::program::Program;

/// What the forwarding helper says once, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It listens.
    Up(Forwarder),
    /// It does not.
    Failed(String),
}

/// A running forwarder. It can be written down and taken up again by a later daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Forwarder {
    /// Its process.
    pub identity: Identity,
    /// Ports outside, in the order of the gate's sockets.
    pub ports: Vec<u16>,
}

impl Forwarder {
    /// Starts one for the gate in this directory. Port 0 means any that is free.
    pub fn start(program: &Program, gate: &Path, ports: &[u16]) -> Result<Self> {
        let mut helper = program.role("forward");
        helper.arg(gate).args(ports.iter().map(ToString::to_string)).stdin(Stdio::null());
        let mut helper = helper.spawn().map_err(SandboxError::io("run", program.path()))?;
        let mut line = String::new();
        if let Some(stdout) = helper.stdout.take() {
            // What cannot be read is not a report, which is handled below.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        // The first process ends as soon as the lasting one runs.
        let output = helper.wait_with_output().map_err(SandboxError::io("wait for", program.path()))?;
        match serde_json::from_str(&line) {
            Ok(Report::Up(forwarder)) => Ok(forwarder),
            Ok(Report::Failed(detail)) => Err(SandboxError::Forward { detail }),
            Err(_) => Err(SandboxError::Forward { detail: last_line(&output.stderr) }),
        }
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        self.identity.is_alive()
    }

    /// Ends it. Says whether it is gone.
    pub fn stop(&self) -> bool {
        crate::reaper::end_and_reap(&self.identity, Duration::from_secs(2))
    }
}

/// Ports on 127.0.0.1 that are free now and differ from each other.
pub fn free_ports(count: usize) -> Result<Vec<u16>> {
    let failed = || SandboxError::system::<std::io::Error>("find a free port");
    // All are held until the last is found, or the same one might come twice.
    let mut held = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..count {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
        ports.push(listener.local_addr().map_err(failed())?.port());
        held.push(listener);
    }
    Ok(ports)
}
