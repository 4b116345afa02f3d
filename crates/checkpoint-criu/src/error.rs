//! What can go wrong between us and CRIU.
//!
//! Rules of this module:
//! * CRIU's own words are never thrown away: [`CriuError::Failed`] carries its first error, the telling lines of its log and the
//!   path of the whole log.
//! * A failure says what state the process tree was left in, because that is what the caller has to act on.
//! * The cause travels as `source` and is not repeated in the text, because the edge prints the chain.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::evidence::Evidence;

pub use base::Class;

/// The result of most calls here.
pub type Result<T, E = CriuError> = std::result::Result<T, E>;

/// What was asked of CRIU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Its version.
    Probe,
    /// A dump.
    Dump,
    /// A restore.
    Restore,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Probe => "probe",
            Self::Dump => "dump",
            Self::Restore => "restore",
        })
    }
}

/// What became of the processes when a call did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeState {
    /// Nothing was touched.
    Untouched,
    /// The tree that was to be dumped runs on.
    Running,
    /// The tree that was to be dumped has ended.
    Ended,
    /// Processes that were half restored have been ended; none is left.
    Cleared,
    /// It could not be found out, or not be set right; look at it.
    Unknown,
}

impl std::fmt::Display for TreeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Untouched => "no process was touched",
            Self::Running => "the processes run on",
            Self::Ended => "the processes have ended",
            Self::Cleared => "nothing of the restored processes is left",
            Self::Unknown => "the state of the processes is unknown",
        })
    }
}

/// An error of the CRIU engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CriuError {
    /// The operating system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// A verb: "open", "write" …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no CRIU.
    #[error("no criu program at {}", looked_at(looked_at_paths))]
    NotFound {
        /// Where it was looked for.
        looked_at_paths: Vec<PathBuf>,
    },
    /// This CRIU lacks what we rely on.
    #[error("criu at `{}` is version {found}, at least {needed} is needed", path.display())]
    TooOld {
        /// The program.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The oldest that works.
        needed: &'static str,
    },
    /// The worker could not be started.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The first word of the command.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The worker ended or spoke nonsense in the middle of a call.
    #[error("criu ({action}) {detail}; {tree}")]
    Protocol {
        /// What was asked.
        action: Action,
        /// What was seen.
        detail: String,
        /// What became of the processes.
        tree: TreeState,
        /// CRIU's log and what it said last.
        evidence: Box<Evidence>,
    },
    /// The time limit of a call ran out.
    #[error("criu ({action}) did not finish within {} s and was ended; {tree}", limit.as_secs_f32())]
    Timeout {
        /// What was asked.
        action: Action,
        /// The limit.
        limit: Duration,
        /// What became of the processes.
        tree: TreeState,
        /// CRIU's log and what it said last.
        evidence: Box<Evidence>,
    },
    /// CRIU said no.
    #[error("criu ({action}) failed{}; {tree}", evidence.summary())]
    Failed {
        /// What was asked.
        action: Action,
        /// CRIU's error number, 0 if it gave none.
        errno: i32,
        /// CRIU's own first error message.
        cr_errmsg: Option<String>,
        /// What became of the processes.
        tree: TreeState,
        /// CRIU's log, its telling lines and, for a well-known failure, what they mean.
        evidence: Box<Evidence>,
    },
    /// A hook of ours said no, so CRIU was told to give up.
    #[error("the {event} step failed during the {action}: {reason}; {tree}")]
    Hook {
        /// What was asked.
        action: Action,
        /// The event at which it was said, in CRIU's word.
        event: String,
        /// The hook's word.
        reason: String,
        /// What became of the processes.
        tree: TreeState,
    },
    /// The path that memory was to take said no. A plain dump or restore can be tried.
    #[error("memory could not take its way during the {action}: {reason}; {tree}")]
    Memory {
        /// What was asked.
        action: Action,
        /// The path's word.
        reason: String,
        /// What became of the processes.
        tree: TreeState,
    },
    /// An image file is not what CRIU writes.
    #[error("image `{}`: {detail}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// An option that cannot be.
    #[error("{what}")]
    Invalid {
        /// A sentence.
        what: String,
    },
    /// Processes stay stopped.
    #[error("processes {} below {pid} stay stopped", stopped.join(", "))]
    Stopped {
        /// The root of the tree.
        pid: i32,
        /// Those that stay stopped.
        stopped: Vec<String>,
    },
    /// What CRIU learns about the kernel could not be kept.
    #[error("cannot prepare criu's knowledge of this kernel: {detail}")]
    Kernel {
        /// What went wrong.
        detail: String,
    },
}

fn looked_at(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
    shown.join(", ")
}

impl CriuError {
    /// Attaches what was being done to an I/O error.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// The image at `path` is not what CRIU writes.
    pub(crate) fn image(path: impl AsRef<Path>, detail: impl Into<String>) -> Self {
        Self::Image { path: path.as_ref().to_path_buf(), detail: detail.into() }
    }

    /// The stable code, the name of a page under `docs/errors/`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "IJ-K001",
            Self::NotFound { .. } => "IJ-K002",
            Self::TooOld { .. } => "IJ-K003",
            Self::Start { .. } => "IJ-K004",
            Self::Kernel { .. } => "IJ-K005",
            Self::Failed { action: Action::Restore, .. } => "IJ-K011",
            Self::Failed { .. } => "IJ-K010",
            Self::Timeout { .. } => "IJ-K012",
            Self::Protocol { .. } => "IJ-K013",
            Self::Hook { .. } => "IJ-K014",
            Self::Stopped { .. } => "IJ-K015",
            Self::Memory { .. } => "IJ-K016",
            Self::Image { .. } => "IJ-K020",
            Self::Invalid { .. } => "IJ-K021",
        }
    }

    /// What kind of trouble this is.
    pub const fn class(&self) -> Class {
        match self {
            Self::Invalid { .. } => Class::Usage,
            Self::Image { .. } => Class::Corruption,
            _ => Class::Environment,
        }
    }

    /// What became of the processes; `None` for errors that have nothing to do with any.
    pub const fn tree(&self) -> Option<TreeState> {
        match self {
            Self::Protocol { tree, .. }
            | Self::Timeout { tree, .. }
            | Self::Failed { tree, .. }
            | Self::Hook { tree, .. }
            | Self::Memory { tree, .. } => Some(*tree),
            _ => None,
        }
    }

    /// CRIU's log and its telling lines, where there was a log.
    pub fn evidence(&self) -> Option<&Evidence> {
        match self {
            Self::Protocol { evidence, .. }
            | Self::Timeout { evidence, .. }
            | Self::Failed { evidence, .. } => Some(evidence),
            _ => None,
        }
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { .. } | Self::TooOld { .. } => {
                Some("install CRIU 4.2 or newer (`pip install \"infinijup[criu]\"` brings one along), or name one with INFINIJUP_CRIU".to_owned())
            }
            Self::Failed { evidence, .. }
            | Self::Timeout { evidence, .. }
            | Self::Protocol { evidence, .. } => Some(evidence.hint()),
            Self::Stopped { .. } => Some(
                "see who traces or freezes them: TracerPid in /proc/<pid>/status, and their cgroup"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
