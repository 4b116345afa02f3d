//! What can go wrong with a kernelspec or a connection file. The rules are those of `cas_core::error`: a stable code with a
//! page under `docs/errors/`, a class, a hint where there is a way out, and the cause as `source`, not in the text.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use base::Class;

/// The result of most calls here.
pub type Result<T, E = JupyterError> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JupyterError {
    /// The operating system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// A verb: "read", "write" …
        action: &'static str,
        /// What it was done to.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No kernelspec has this name.
    #[error("there is no kernelspec `{name}`")]
    NotFound {
        /// The name.
        name: String,
        /// What there is instead.
        known: Vec<String>,
        /// Where was looked.
        searched: Vec<PathBuf>,
    },
    /// Not a name for a kernelspec.
    #[error("`{name}` cannot name a kernelspec: only letters, digits, `.`, `_` and `-` may be in it")]
    Name {
        /// The name.
        name: String,
    },
    /// A `kernel.json` makes no sense.
    #[error("kernelspec `{}` makes no sense: {detail}", path.display())]
    Kernelspec {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// A connection file makes no sense.
    #[error("connection file `{}` makes no sense: {detail}", path.display())]
    Connection {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// A kernel shall listen in a way that a snapshot cannot keep.
    #[error("connection file `{}` asks for transport `{transport}`, only `tcp` can be used", path.display())]
    Transport {
        /// The file.
        path: PathBuf,
        /// What it asks for.
        transport: String,
    },
    /// The operating system gave no random bytes.
    #[error("no random bytes for the key of a connection file: {detail}")]
    NoEntropy {
        /// Its word.
        detail: String,
    },
    /// There is no connection to a kernel now.
    #[error("the kernel cannot be reached")]
    Away,
    /// A kernel runs something; what is asked of it would wait behind that.
    #[error("the kernel is busy")]
    Busy,
    /// A kernel did not answer in time.
    #[error("the kernel did not answer within {} ms", limit.as_millis())]
    NoAnswer {
        /// How long it had.
        limit: Duration,
    },
    /// The thread that talks to kernels could not be started.
    #[error("cannot start the thread that talks to kernels")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
}

impl JupyterError {
    /// Attaches what was being done to an I/O error.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// The stable code, the name of a page under `docs/errors/`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "IJ-J001",
            Self::NotFound { .. } => "IJ-J002",
            Self::Name { .. } => "IJ-J003",
            Self::Kernelspec { .. } => "IJ-J010",
            Self::Connection { .. } => "IJ-J011",
            Self::Transport { .. } => "IJ-J012",
            Self::NoEntropy { .. } => "IJ-J020",
            Self::Thread { .. } => "IJ-J021",
            Self::Away => "IJ-J030",
            Self::Busy => "IJ-J031",
            Self::NoAnswer { .. } => "IJ-J032",
        }
    }

    /// What kind of trouble this is.
    pub const fn class(&self) -> Class {
        match self {
            Self::Io { .. }
            | Self::NoEntropy { .. }
            | Self::Away
            | Self::Busy
            | Self::NoAnswer { .. }
            | Self::Thread { .. } => Class::Environment,
            Self::NotFound { .. }
            | Self::Name { .. }
            | Self::Kernelspec { .. }
            | Self::Connection { .. }
            | Self::Transport { .. } => Class::Usage,
        }
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { known, .. } if !known.is_empty() => {
                Some(format!("there is {}", known.join(", ")))
            }
            Self::NotFound { .. } => {
                Some("install one, for example with `python3 -m ipykernel install --user`".to_owned())
            }
            Self::Transport { .. } => Some(
                "two branches of such a kernel would listen at the same path; let it use `tcp`".to_owned(),
            ),
            Self::Busy => Some("wait until its cell has ended, or interrupt it".to_owned()),
            _ => None,
        }
    }
}
