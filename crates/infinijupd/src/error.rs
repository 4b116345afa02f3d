//! What can go wrong in the daemon itself. What goes wrong in an operation comes from `lifecycle`, with its own codes.

use std::io;
use std::path::{Path, PathBuf};

use api::{ErrorBody, PlaceError, SettingsError, exit};

use crate::backend::Failure;

pub use base::Class;

/// An error of the daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The operating system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// A verb: "bind", "lock" …
        action: &'static str,
        /// What it was done to.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another daemon has this state directory or socket.
    #[error("`{}` belongs to a daemon that is running ({holder})", path.display())]
    AlreadyRunning {
        /// The lock file or socket.
        path: PathBuf,
        /// Who it is, as far as known.
        holder: String,
    },
    /// A flag or an environment variable makes no sense.
    #[error("{what}")]
    Settings {
        /// A sentence.
        what: String,
    },
    /// A request cannot be understood.
    #[error("the request makes no sense: {what}")]
    BadRequest {
        /// What is wrong with it.
        what: String,
        /// The field of its body that is, if it is one.
        field: Option<&'static str>,
    },
    /// A request has a field that this daemon does not know.
    #[error("the request has a field that this daemon does not know: `{field}`")]
    UnknownField {
        /// Its name.
        field: String,
    },
    /// There is no such job.
    #[error("there is no job `{id}`")]
    NoJob {
        /// As it was asked for.
        id: String,
    },
    /// There is no such path, or not with this method.
    #[error("{method} {path} is not part of this interface")]
    NoRoute {
        /// The method of the request.
        method: String,
        /// Its path.
        path: String,
        /// Whether the path is there with other methods.
        other_method: bool,
    },
    /// The body is larger than any request needs to be.
    #[error("the request's body is larger than {limit} bytes")]
    TooLarge {
        /// The most that is read.
        limit: usize,
    },
    /// The session's log is not a file that the daemon may show.
    #[error("the log of session {session} cannot be shown: {reason}")]
    Log {
        /// Which session.
        session: String,
        /// Why it cannot be shown.
        reason: String,
    },
    /// The daemon is about to end and takes on nothing new.
    #[error("the daemon is stopping")]
    Stopping,
    /// The caller has too much under way.
    #[error("{running} jobs are running, and no more than {limit} may be")]
    TooManyJobs {
        /// How many run.
        running: usize,
        /// How many may.
        limit: usize,
    },
    /// There is no room for one more.
    #[error("too much at once: {what}")]
    Crowded {
        /// What there is already.
        what: String,
    },
    /// The daemon has no place to be.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A bug of ours.
    #[error("internal error: {detail}")]
    Bug {
        /// What was found.
        detail: String,
    },
}

impl From<SettingsError> for DaemonError {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::Io { path, source } => Self::Io { action: "read", path, source },
            SettingsError::Write { path, source } => Self::Io { action: "write", path, source },
            other => Self::Settings { what: other.to_string() },
        }
    }
}

impl DaemonError {
    /// Attaches what was being done to an I/O error.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// The stable code, the name of a page under `docs/errors/`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "IJ-D001",
            Self::AlreadyRunning { .. } => "IJ-D002",
            Self::Settings { .. } => "IJ-D003",
            Self::BadRequest { .. } => "IJ-D010",
            Self::NoJob { .. } => "IJ-D012",
            Self::NoRoute { .. } => "IJ-D013",
            Self::TooLarge { .. } => "IJ-D014",
            Self::Log { .. } => "IJ-D016",
            Self::UnknownField { .. } => "IJ-D017",
            Self::Stopping => "IJ-D020",
            Self::TooManyJobs { .. } => "IJ-D021",
            Self::Crowded { .. } => "IJ-D022",
            Self::Place(error) => error.code(),
            Self::Bug { .. } => "IJ-D099",
        }
    }

    /// What kind of trouble this is.
    pub const fn class(&self) -> Class {
        match self {
            Self::Settings { .. }
            | Self::BadRequest { .. }
            | Self::UnknownField { .. }
            | Self::NoJob { .. }
            | Self::NoRoute { .. }
            | Self::TooLarge { .. } => Class::Usage,
            Self::Io { .. }
            | Self::AlreadyRunning { .. }
            | Self::Log { .. }
            | Self::Stopping
            | Self::TooManyJobs { .. }
            | Self::Crowded { .. }
            | Self::Place(_) => Class::Environment,
            Self::Bug { .. } => Class::Bug,
        }
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::AlreadyRunning { .. } => "stop that one first, or give this one its own --state and --run",
            Self::Settings { .. } => "`infinijupd --help` lists what can be set",
            Self::UnknownField { .. } => {
                "if the program that asked is newer than the daemon, restart the daemon; sessions live on"
            }
            Self::NoRoute { .. } => "GET /v1/openapi.json describes the interface of this daemon",
            Self::Stopping => "try again in a moment, when it has been started again",
            Self::TooManyJobs { .. } => "wait until some of them have ended",
            Self::Crowded { .. } => {
                "try again in a moment; a program that asks too much at once should wait for its answers"
            }
            Self::Place(error) => error.hint(),
            Self::Bug { .. } => "please report this, with the daemon's log",
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// The field of the request's body that it is about.
    fn field(&self) -> Option<&str> {
        match self {
            Self::BadRequest { field, .. } => *field,
            Self::UnknownField { field } => Some(field),
            _ => None,
        }
    }

    /// The HTTP status that goes with it.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Settings { .. } | Self::BadRequest { .. } | Self::UnknownField { .. } => 400,
            Self::NoJob { .. } => 404,
            Self::NoRoute { other_method: true, .. } => 405,
            Self::NoRoute { .. } => 404,
            Self::AlreadyRunning { .. } | Self::Log { .. } => 409,
            Self::TooLarge { .. } => 413,
            Self::TooManyJobs { .. } => 429,
            Self::Stopping | Self::Crowded { .. } => 503,
            Self::Io { .. } | Self::Place(_) | Self::Bug { .. } => 500,
        }
    }

    /// The exit code that a command should end with.
    pub const fn exit(&self) -> u8 {
        match self {
            Self::Settings { .. }
            | Self::BadRequest { .. }
            | Self::UnknownField { .. }
            | Self::TooLarge { .. } => exit::USAGE,
            Self::NoJob { .. } => exit::NOT_FOUND,
            Self::AlreadyRunning { .. }
            | Self::Stopping
            | Self::TooManyJobs { .. }
            | Self::Crowded { .. } => exit::BUSY,
            Self::Io { .. } | Self::Place(_) | Self::NoRoute { .. } | Self::Log { .. } | Self::Bug { .. } => {
                exit::FAILED
            }
        }
    }
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Self {
        let body = ErrorBody {
            code: error.code().to_owned(),
            message: error.to_string(),
            causes: causes(&error),
            hint: error.hint(),
            exit: error.exit(),
            field: error.field().map(ToOwned::to_owned),
            files: Vec::new(),
        };
        Self { status: error.status(), body: Box::new(body), another_time: false }
    }
}

/// The chain below an error, from the nearest to the deepest.
pub(crate) fn causes(error: &dyn std::error::Error) -> Vec<String> {
    std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_carries_the_whole_chain() {
        let failure = Failure::from(DaemonError::io("bind", "/x")(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(failure.body.code, "IJ-D001");
        assert_eq!(failure.body.message, "cannot bind `/x`");
        assert_eq!(failure.body.causes, ["permission denied"]);
        assert_eq!(failure.status, 500);
    }
}
