//! Events: what happened, as it happens.
//!
//! `GET /v1/events` and `GET /v1/jobs/{id}/events` are streams of server-sent events. The `id:` of each is its number,
//! `event:` its kind, `data:` an [`Event`] as one line of JSON. A client that comes back with `Last-Event-ID` gets what
//! it missed, as far as the daemon still has it; if it has not, an event of the kind [`EventKind::Missed`] comes first.
//! So it does after a restart of the daemon. In `/v1/events` a job has no `result`; in its own stream it has.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Activity, Job, JobKind, SessionState, Step};

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A job began; `job` has it.
    JobBegan,
    /// A step began, went on or ended; `step` has it.
    JobStep,
    /// A job ended; `job` has it. The last event of a job's own stream.
    JobEnded,
    /// A session has another state now; `state` has it.
    SessionState,
    /// A snapshot was taken; `commit` has it.
    SnapshotTaken,
    /// A session was rolled back; `commit` has the snapshot it is at.
    RolledBack,
    /// A session was removed.
    SessionRemoved,
    /// Its name, its labels, its policy or the like are others now.
    SessionChanged,
    /// Its kernel began or ended its work; `activity` has it.
    SessionActivity,
    /// Tags or snapshots came or went.
    HistoryChanged,
    /// Events before this one are lost to this client.
    Missed,
    /// A kind that this program does not know yet.
    #[serde(other)]
    Other,
}

impl EventKind {
    /// As on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JobBegan => "job_began",
            Self::JobStep => "job_step",
            Self::JobEnded => "job_ended",
            Self::SessionState => "session_state",
            Self::SnapshotTaken => "snapshot_taken",
            Self::RolledBack => "rolled_back",
            Self::SessionRemoved => "session_removed",
            Self::SessionChanged => "session_changed",
            Self::SessionActivity => "session_activity",
            Self::HistoryChanged => "history_changed",
            Self::Missed => "missed",
            Self::Other => "other",
        }
    }
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number: later is larger.
    pub id: u64,
    /// When it happened.
    pub time: String,
    /// What happened; the fields that belong to it are set.
    pub kind: EventKind,
    /// In which session.
    #[serde(default)]
    pub session: Option<String>,
    /// The state that it has now.
    #[serde(default)]
    pub state: Option<SessionState>,
    /// By which job.
    #[serde(default)]
    pub job_id: Option<String>,
    /// What that job does.
    #[serde(default)]
    pub job_kind: Option<JobKind>,
    /// The job, when it began or ended.
    #[serde(default)]
    pub job: Option<Box<Job>>,
    /// The step.
    #[serde(default)]
    pub step: Option<Step>,
    /// The snapshot.
    #[serde(default)]
    pub commit: Option<String>,
    /// What its kernel is doing.
    #[serde(default)]
    pub activity: Option<Activity>,
    /// More, for people.
    #[serde(default)]
    pub detail: Option<String>,
}
