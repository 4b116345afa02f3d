//! The machine and the daemon itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ErrorBody, RemoteView, Text};

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

/// The answer of `GET /v1/daemon`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DaemonView {
    /// The daemon's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it was started.
    pub started: String,
    /// What outlives a reboot.
    pub state: Text,
    /// What does not.
    pub run: Text,
    /// Where it listens.
    pub socket: Text,
    /// What its user may set, whether or not the file is there.
    pub settings: Text,
    /// Whether the store is encrypted.
    #[serde(default)]
    pub store_encrypted: bool,
    /// Whether the service manager holds the socket, and starts the daemon when somebody connects.
    pub socket_passed: bool,
    /// Seconds after which it ends when nobody needs it; never if `null`.
    #[serde(default)]
    pub idle_end_s: Option<f64>,
    /// Sessions that have processes; `null` if that cannot be told.
    #[serde(default)]
    pub sessions_running: Option<usize>,
    /// Operations that are under way.
    pub jobs_running: usize,
    /// Clients that listen to events or logs.
    pub streams: usize,
}

/// How good a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    /// As it should be.
    Ok,
    /// Something will not work, or not well.
    Warn,
    /// Snapshots do not work, or this one would not come up.
    Fail,
}

/// One thing that `doctor` or `check` looked at.
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

/// The answer of `GET /v1/commits/{id}/check`: whether a snapshot would come up here.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct SnapshotCheck {
    /// The snapshot.
    pub commit: String,
    /// Whether it would: no finding is `fail`.
    pub fits: bool,
    /// What is missing or different, and what to do.
    pub findings: Vec<Finding>,
}

/// The answer of `GET /v1/store`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct StoreView {
    /// The directory.
    pub path: Text,
    /// What it takes now; `null` if that cannot be told.
    #[serde(default)]
    pub used_bytes: Option<u64>,
    /// What it may take: `store_budget` of the settings, or half of what it takes and what is free.
    #[serde(default)]
    pub allowed_bytes: Option<u64>,
    /// The remote that snapshots are pushed to by themselves; `null` if they are not.
    #[serde(default)]
    pub remote: Option<RemoteView>,
}
