//! The machine and the daemon itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ErrorBody, Text};

/// The answer of `GET /v1/version`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// The daemon's.
    pub version: String,
    /// The wire's, see [`crate::API_VERSION`].
    pub api: u32,
    /// CRIU's, if there is one.
    #[serde(default)]
    pub criu: Option<String>,
    /// Why no operation can be done here, if so. Looking still works.
    #[serde(default)]
    pub refusal: Option<ErrorBody>,
}

/// How good a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    /// As it should be.
    Ok,
    /// Something will not work, or not well.
    Warn,
    /// Snapshots do not work.
    Fail,
}

/// One thing that `doctor` looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// What was looked at.
    pub item: String,
    /// How good it is.
    pub state: FindingState,
    /// What was seen.
    pub evidence: String,
    /// What to do.
    #[serde(default)]
    pub fix: Option<String>,
}

/// The answer of `GET /v1/doctor`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Doctor {
    /// Whether snapshots work here: no finding is `fail`.
    pub works: bool,
    /// Item by item.
    pub findings: Vec<Finding>,
}

/// The answer of `GET /v1/store`, for root only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct StoreView {
    /// The store of the user that was asked for.
    pub path: Text,
}
