//! What a session wants captured.

use serde::{Deserialize, Serialize};

/// Which files belong to a session's snapshots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "lowercase")]
pub enum FilePolicy {
    /// The notebook, and every file that a process of the session has open for writing.
    Open,
    /// The working directory too.
    Tree {
        /// Patterns of what is captured; everything if empty.
        include: Vec<String>,
        /// Patterns of what is not.
        exclude: Vec<String>,
        /// Larger directories are refused.
        max_bytes: u64,
    },
    /// No file at all.
    None,
}
