//! The way out of a private network: `pasta` (package `passt`), a user-space network stack that needs no bridge and no
//! firewall rules. The tap device it makes belongs to the namespace, which no snapshot contains.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};
use crate::launch::last_line;
use crate::process::Identity;
use crate::program::Program;

/// A running pasta. It outlives the daemon, and can be written down and taken up again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pasta {
    /// Its process.
    pub identity: Identity,
}

impl Pasta {
    /// Where the program is, if it is installed.
    pub fn find() -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|directory| directory.join("pasta")).find(|file| file.is_file())
    }

    /// Whether we may open the node that it needs. Every distribution opens it to everybody; a bare container may not.
    pub fn has_node() -> bool {
        std::fs::File::options().read(true).write(true).open("/dev/net/tun").is_ok()
    }

    /// Opens the way out of the network of the box with this holder. `note` is a file that it may make for a moment. `None` if
    /// this machine has no way out for us: pasta is not installed, or may not open its node.
    ///
    /// The namespace gets the host's address and default route. It does not get at the host's loopback (`--no-map-gw`), and
    /// nothing outside gets in: ports are the [`Forwarder`](crate::Forwarder)'s business.
    pub fn start(helper: &Program, holder: Identity, note: &Path) -> Result<Option<Self>> {
        let Some(program) = Self::find().filter(|_| Self::has_node()) else { return Ok(None) };
        let namespace = |kind: &str| format!("/proc/{}/ns/{kind}", holder.pid);
        // It keeps pipes that would be too large (`roles::way_out`). It goes into the background by itself once the network is up, and leaves its pid in the note.
        let output = helper
            .role("way-out")
            .arg(&program)
            .args(["--config-net", "--quiet", "--no-map-gw"])
            .args(["-t", "none", "-u", "none", "-T", "none", "-U", "none"])
            .arg("--pid")
            .arg(note)
            .args(["--userns", &namespace("user"), "--netns", &namespace("net")])
            .stdin(Stdio::null())
            .output()
            .map_err(SandboxError::io("run", &program))?;
        let pid = std::fs::read_to_string(note).ok().and_then(|text| text.trim().parse().ok());
        // Whether or not it was written.
        let _ = std::fs::remove_file(note);
        let pid = match pid {
            Some(pid) if output.status.success() => pid,
            _ => return Err(SandboxError::Pasta { detail: last_line(&output.stderr) }),
        };
        let identity = Identity::of(pid)?.ok_or(SandboxError::Gone { pid })?;
        Ok(Some(Self { identity }))
    }

    /// Ends it. Says whether it is gone.
    pub fn stop(&self) -> bool {
        crate::reaper::end_and_reap(&self.identity, Duration::from_secs(2))
    }
}
