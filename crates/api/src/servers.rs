//! The servers that a session's processes run.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that listens in a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Server {
    /// The port that it listens on, inside.
    pub port: u16,
    /// The port of the machine's loopback that leads to it, for the session's own user.
    pub outside_port: u16,
}

/// The answer of `GET /v1/sessions/{id}/servers`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Servers {
    /// By port. Those of the kernel itself are not among them.
    pub servers: Vec<Server>,
}
