//! Whose daemon this is: where its things are, and how long it stays.

use std::time::Duration;

use api::Places;

use crate::abroad::RemotePolicy;

/// What does not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct Home {
    /// Where its things are.
    pub places: Places,
    /// Whether the store is encrypted.
    pub store_encrypted: bool,
    /// Whether the service manager holds the socket.
    pub socket_passed: bool,
    /// How long it stays when nobody needs it; for ever if `None`.
    pub idle_end: Option<Duration>,
    /// What is pushed by itself, if anything is.
    pub remote: Option<RemotePolicy>,
    /// When it was started.
    pub started: String,
}

impl Home {
    /// A daemon that starts now.
    pub fn new(places: Places, socket_passed: bool, idle_end: Option<Duration>) -> Self {
        let started = crate::now();
        Self { places, store_encrypted: false, socket_passed, idle_end, remote: None, started }
    }
}
