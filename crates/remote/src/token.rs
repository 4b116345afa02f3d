//! Numbers of 16 bytes that are never used twice: names of packs, segments and leases, and write ids.

use std::fmt;
use std::str::FromStr;

use cas_core::PackId;
use serde::{Deserialize, Serialize};

/// Sixteen bytes, written as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Token([u8; 16]);

impl Token {
    /// A new one.
    pub(crate) fn random() -> crate::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| cas_core::StoreError::NoEntropy { detail: error.to_string() })?;
        Ok(Self(bytes))
    }

    /// Wraps raw bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// What a pack is called in a remote: the first half of its id, in which there is a random salt.
    pub fn of_pack(id: &PackId) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&id.as_bytes()[..16]);
        Self(bytes)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cas_core::id::hex(&self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.to_string()
    }
}

impl FromStr for Token {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The other half is there for the parser only, which knows 32 bytes and one spelling.
        let whole = cas_core::id::unhex32(&format!("{text}{}", "0".repeat(32)));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&whole.ok_or("a name is 32 lower-case hex digits")?[..16]);
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Token {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}
