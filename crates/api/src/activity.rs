//! Whether a kernel is at work.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a kernel is doing, as it said itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActivityState {
    /// It runs a cell.
    Busy,
    /// It waits for one.
    Idle,
    /// It has not said anything yet.
    #[default]
    Unknown,
}

/// A kernel's work.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Activity {
    /// What it is doing.
    pub state: ActivityState,
    /// Since when.
    pub since: String,
    /// The number of the cell that runs, or ran last.
    #[serde(default)]
    pub number: Option<u32>,
    /// The first line of that cell.
    #[serde(default)]
    pub cell: Option<String>,
}
