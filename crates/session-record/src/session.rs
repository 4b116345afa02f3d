//! What a session is called, and which GPUs it is to have.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{RecordError, Result};

/// Names a session for ever: 12 hex digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

impl SessionId {
    const LEN: usize = 12;

    /// A new one.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; Self::LEN / 2];
        getrandom::fill(&mut bytes)
            .map_err(|error| RecordError::Bug(format!("the system has no random bytes: {error}")))?;
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

/// Which of the machine's GPUs a session may use, as its record has it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuWish {
    /// All that the machine has; none is fine too.
    All,
    /// None. What a record says that was written before sessions had GPUs.
    #[default]
    None,
    /// These, each by its index, its UUID or an unambiguous beginning of its UUID.
    List(Vec<String>),
}
