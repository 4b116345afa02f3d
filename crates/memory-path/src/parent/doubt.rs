//! Why a dump without pages is not used.

use std::io;
use std::path::PathBuf;

use crate::pages::Task;

/// Why a dump without pages is not to be trusted, or cannot be made. A plain dump can always be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// The notes do not look as those of the build that this was written for.
    #[error("CRIU's notes about the kernel are not those of a known build: {detail}")]
    UnknownNotes {
        /// What is different.
        detail: String,
    },
    /// CRIU does not answer as it should before or after the notes were changed.
    #[error("CRIU does not take its notes as it should: {detail}")]
    Unconvinced {
        /// What it said.
        detail: &'static str,
    },
    /// A file could not be read or written.
    #[error("cannot {what} `{}`", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An image is not what CRIU writes.
    #[error("`{}` is no list of pages: {detail}", path.display())]
    Image {
        /// The image.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// Pages were left to us of a task that was not looked at while it stood still.
    #[error("pages of task {task} were left out, and nobody has looked at it")]
    NotLookedAt {
        /// The task.
        task: Task,
    },
    /// A page that was there at the freeze is nowhere.
    #[error("page {address:x} of task {task} is missing")]
    Missing {
        /// Whose page.
        task: Task,
        /// Its address.
        address: u64,
    },
    /// CRIU has left out another number of pages than its lists name.
    #[error("CRIU left out {told} pages, and its lists name {listed}")]
    Counts {
        /// By its own figures.
        told: u64,
        /// By its lists.
        listed: u64,
    },
}

impl Doubt {
    pub(super) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}
