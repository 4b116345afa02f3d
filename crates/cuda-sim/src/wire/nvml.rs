//! Requests about the management library.
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nvml {
    /// Nothing: answers success.
    Nothing,
}
