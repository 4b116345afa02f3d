//! Requests about modules and launches.
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Module {
    /// Nothing: answers success.
    Nothing,
}
