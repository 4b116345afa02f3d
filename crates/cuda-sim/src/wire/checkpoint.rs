//! Requests about the checkpoint calls and faults.
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checkpoint {
    /// Nothing: answers success.
    Nothing,
}
