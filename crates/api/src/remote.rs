//! What happens with remotes by itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Threads and tags were sent to a remote.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct PushOutcome {
    /// The remote's name.
    pub remote: String,
    /// How many objects it lacked.
    pub objects: u64,
    /// How much was sent.
    pub bytes: u64,
    /// The threads and tags that moved there: `threads/main`.
    pub moved: Vec<String>,
}

/// Data was let go of that a remote has, too.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct FreeLocalOutcome {
    /// The remote's name.
    pub remote: String,
    /// How many snapshots have their data only there now.
    pub snapshots: u64,
    /// How much less the store takes.
    pub freed_bytes: u64,
}

/// The remote that is pushed to by itself, as `GET /v1/store` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct RemoteView {
    /// Its name.
    pub name: String,
    /// When the last push ended, well or not; `null` if there was none.
    #[serde(default)]
    pub last_push: Option<String>,
    /// Why it failed, if it did.
    #[serde(default)]
    pub failed: Option<String>,
}
