//! What goes wrong with what is written down. Whoever keeps sessions gives these the codes of its own errors.

use std::path::PathBuf;

use base::IoError;
use history::HistoryError;
use sandbox::SandboxError;
use staging::StagingError;
use workspace::WorkspaceError;

/// The result of most calls here.
pub type Result<T, E = RecordError> = std::result::Result<T, E>;

/// Why something was not written down, or not read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A file that the daemon keeps about its sessions cannot be read.
    #[error("`{}` is damaged: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The session is not in a state in which this can be done.
    #[error("session {session} is {state}, and cannot {action}")]
    WrongState {
        /// Its name.
        session: String,
        /// The state that it is in.
        state: &'static str,
        /// What was asked for.
        action: &'static str,
    },
    /// Another operation on the same session is under way.
    #[error("session {session} is busy: {doing} is under way")]
    Busy {
        /// Its name.
        session: String,
        /// The operation, in words.
        doing: &'static str,
    },
    /// The request does not make sense.
    #[error("{detail}")]
    BadRequest {
        /// What is wrong with it.
        detail: String,
    },
    /// The history that sessions have.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A file that no snapshot has could not be put into one.
    #[error("`{}` is in no snapshot, and cannot be read to be kept in one", path.display())]
    NotKept {
        /// As the session sees it.
        path: PathBuf,
    },
    /// The files of a session.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// What is mounted.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The disk that it lies on.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// Nothing can be done to all records while operations wait to be finished.
    #[error("operations on these sessions were cut short: {}", sessions.join(", "))]
    Unfinished {
        /// Their ids.
        sessions: Vec<String>,
    },
    /// Our own mistake.
    #[error("{0}; this is a bug, please report it")]
    Bug(String),
}
