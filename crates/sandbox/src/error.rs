//! What can go wrong around a session's processes.
//!
//! As everywhere: a variant names the thing and what happened, the cause travels as `source`, and every variant has a
//! stable code with a page under `docs/errors/`.

use std::io;
use std::path::{Path, PathBuf};

pub use base::Class;

/// The result of most calls here.
pub type Result<T, E = SandboxError> = std::result::Result<T, E>;

/// An error around a session's processes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The operating system refused something that concerns a path.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// A verb: "mount", "open" …
        action: &'static str,
        /// What it was done to.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The operating system refused something that has no path.
    #[error("cannot {action}")]
    System {
        /// What was tried, with the pid or name it concerns.
        action: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody has this user id.
    #[error("no user has the id {uid}")]
    NoUser {
        /// The id.
        uid: u32,
    },
    /// `infinijup-box` is not where we look for it.
    #[error("the program `infinijup-box` was not found ({})", list(looked))]
    NoProgram {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// What was asked for cannot be.
    #[error("this cannot be a box: {detail}")]
    BadSpec {
        /// What is wrong with it.
        detail: String,
    },
    /// The process has ended, or its pid belongs to another one by now.
    #[error("process {pid} is gone")]
    Gone {
        /// Its pid.
        pid: i32,
    },
    /// A box did not come up.
    #[error("box `{id}` did not start: {detail}")]
    Launch {
        /// The box.
        id: String,
        /// The step that failed, and why.
        detail: String,
    },
    /// A command could not be run inside a box.
    #[error("cannot run a command in the box of process {pid}: {detail}")]
    Enter {
        /// The box's first process.
        pid: i32,
        /// The step that failed, and why.
        detail: String,
    },
    /// Ports could not be forwarded.
    #[error("cannot forward ports: {detail}")]
    Forward {
        /// The step that failed, and why.
        detail: String,
    },
    /// The way out of a network namespace could not be opened.
    #[error("pasta failed: {detail}")]
    Pasta {
        /// What it said.
        detail: String,
    },
}

impl SandboxError {
    /// The stable code, as in `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "IJ-B001",
            Self::System { .. } => "IJ-B002",
            Self::NoUser { .. } => "IJ-B003",
            Self::NoProgram { .. } => "IJ-B004",
            Self::BadSpec { .. } => "IJ-B005",
            Self::Gone { .. } => "IJ-B010",
            Self::Launch { .. } => "IJ-B020",
            Self::Enter { .. } => "IJ-B021",
            Self::Forward { .. } => "IJ-B030",
            Self::Pasta { .. } => "IJ-B031",
        }
    }

    /// What kind of trouble it is.
    pub fn class(&self) -> Class {
        match self {
            Self::NoUser { .. } | Self::BadSpec { .. } | Self::Gone { .. } => Class::Usage,
            _ => Class::Environment,
        }
    }

    /// A way out, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoProgram { .. } => Some(
                "install it beside infinijupd or in /usr/lib/infinijup, or name it with INFINIJUP_BOX"
                    .to_owned(),
            ),
            Self::Forward { .. } => {
                Some("a port may be in use: leave the choice of the port to infinijup".to_owned())
            }
            Self::Pasta { .. } => {
                Some("start the session without a way out, or with the host's network".to_owned())
            }
            Self::Io { source, .. } | Self::System { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Some("`infinijup doctor` says what this machine forbids, and what helps".to_owned())
            }
            _ => None,
        }
    }

    /// For `map_err`: wraps what the system said about a path.
    pub(crate) fn io<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source: source.into() }
    }

    /// For `map_err`: wraps what the system said about something without a path.
    pub(crate) fn system<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |source| Self::System { action: action.into(), source: source.into() }
    }
}

fn list(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "nowhere to look".to_owned();
    }
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    format!("looked at {}", paths.join(", "))
}
