//! What is known of those that stand by.

use cas_core::ObjectId;
use policy::standby;
use session_record::{Record, SessionId};

/// Those that there are.
pub(crate) type Standbys = standby::Standbys<SessionId, ObjectId, Ready>;
/// One of them.
pub(crate) type Standby = standby::Standby<ObjectId, Ready>;

/// What is known of one that stands by.
#[derive(Clone)]
pub(crate) struct Ready {
    /// The session's record, but with the box and the processes that stand by.
    pub(crate) record: Record,
    /// Connections that were closed.
    pub(crate) closed: Vec<String>,
    pub(crate) bytes: u64,
}
