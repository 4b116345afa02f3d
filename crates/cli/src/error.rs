//! What can go wrong in the command line itself. The rules are those of `cas_core::error`: a stable code with a page under
//! `docs/errors/`, a hint where there is a way out, and the cause as `source`, not in the text.

use std::io;

/// An error of the command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The arguments do not make sense together.
    #[error("{what}")]
    Usage { what: String },
    /// Nothing has this name.
    #[error("no thread, tag or commit is called `{revision}`")]
    RevisionNotFound { revision: String },
    /// Several things have this name.
    #[error("`{revision}` may mean {}", candidates.join(" or "))]
    RevisionAmbiguous { revision: String, candidates: Vec<String> },
    /// The history ends before that.
    #[error("`{revision}` goes back further than the history of this store")]
    HistoryEnds { revision: String },
    /// The snapshot has no such part.
    #[error("`{what}` is not in snapshot {revision}")]
    NotInSnapshot { what: String, revision: String },
    /// The store has no such object.
    #[error("no object has the id `{id}`")]
    ObjectNotFound { id: String },
    /// `verify` found something.
    #[error("the store has {count} {}", if *count == 1 { "problem" } else { "problems" })]
    ProblemsFound { count: usize },
    /// gc met something that it cannot read.
    #[error("{count} {} cannot be read, so what they lead to was kept", if *count == 1 { "object or pack" } else { "objects or packs" })]
    GcIncomplete { count: usize },
    /// Writers did not end in time.
    #[error("nothing was deleted: {sessions} {} still writing", if *sessions == 1 { "program is" } else { "programs are" })]
    WritersBusy { sessions: u64 },
    /// Some packs were damaged.
    #[error("{count} {} damaged; what could be read was kept", if *count == 1 { "pack is" } else { "packs are" })]
    RebuildIncomplete { count: usize },
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// Our own output could not be written.
    #[error("cannot write to stdout")]
    Output(#[source] io::Error),
}

impl CliError {
    /// The stable code, the name of a page under `docs/errors/`.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Usage { .. } => "IJ-C001",
            Self::RevisionNotFound { .. } => "IJ-C002",
            Self::RevisionAmbiguous { .. } => "IJ-C003",
            Self::HistoryEnds { .. } => "IJ-C004",
            Self::NotInSnapshot { .. } => "IJ-C005",
            Self::ObjectNotFound { .. } => "IJ-C006",
            Self::ProblemsFound { .. } => "IJ-C010",
            Self::GcIncomplete { .. } => "IJ-C011",
            Self::WritersBusy { .. } => "IJ-C012",
            Self::RebuildIncomplete { .. } => "IJ-C013",
            Self::Interrupted => "IJ-C020",
            Self::Output(_) => "IJ-C021",
        }
    }

    /// What to do next, where there is something to do.
    pub(crate) const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::RevisionNotFound { .. } | Self::HistoryEnds { .. } => {
                Some("`infinijup log --all` lists what there is")
            }
            Self::RevisionAmbiguous { .. } => {
                Some("write more digits of an id, or `threads/NAME` or `tags/NAME`")
            }
            Self::NotInSnapshot { .. } => {
                Some("`infinijup show REV` lists its parts, `infinijup show REV --files` its files")
            }
            Self::ProblemsFound { .. } => {
                Some("docs/errors/IJ-C010.md says what to do about each sort of problem")
            }
            Self::GcIncomplete { .. } => Some("run `infinijup store verify` to see what is affected"),
            Self::WritersBusy { .. } => Some("run it again later, or with a longer --wait"),
            Self::RebuildIncomplete { .. } => Some("run `infinijup store verify` to see what is affected"),
            Self::Usage { .. } | Self::ObjectNotFound { .. } | Self::Interrupted | Self::Output(_) => None,
        }
    }
}
