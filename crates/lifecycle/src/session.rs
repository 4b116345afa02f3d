//! What a session is called, and the words for its state and its network.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{LifecycleError, Result};

/// Names a session for ever: 12 hex digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

impl SessionId {
    const LEN: usize = 12;

    /// A new one.
    pub(crate) fn random() -> Result<Self> {
        let mut bytes = [0; Self::LEN / 2];
        getrandom::fill(&mut bytes)
            .map_err(|error| LifecycleError::Bug(format!("the system has no random bytes: {error}")))?;
        Ok(Self(cas_core::id::hex(&bytes)))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SessionId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // It becomes part of paths.
        let right =
            text.len() == Self::LEN && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if right { Ok(Self(text)) } else { Err("is not a session id".to_owned()) }
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What a session is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    /// Its processes are being made.
    Starting,
    /// It has processes.
    Running,
    /// It has none, and a snapshot to come back from.
    Suspended,
    /// It has ended by itself or was stopped.
    Ended,
    /// It was lost: its processes ended without anyone wanting it.
    Failed,
}

impl SessionState {
    /// As a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }
}

/// A session's network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Its own; the kernel's ports are forwarded from loopback.
    Private,
    /// The machine's. No branch can live beside its original then.
    Host,
}
