//! What goes wrong here. Who restores gives these the codes and the words of its own errors.

use base::IoError;
use sandbox::SandboxError;
use thiserror::Error;

/// Why images or processes are not trusted, or could not be looked at.
#[derive(Debug, Error)]
pub enum TrustError {
    /// They ask for more than their owner has.
    #[error("user {uid} may not have this: {}", findings.join("; "))]
    Refused {
        /// Whose they are.
        uid: u32,
        /// What they ask for.
        findings: Vec<String>,
    },
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A process could not be looked at or ended.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// The usual result here.
pub type Result<T, E = TrustError> = std::result::Result<T, E>;
