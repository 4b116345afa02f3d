//! What can go wrong with a manifest object. The rules are those of `cas_core::error`: a variant names the thing, the
//! cause travels as `source`, and every variant has a stable code, a class and, where there is one, a way out.

use std::path::PathBuf;

use cas_core::{Class, Kind, ObjectId};

/// The result of most calls here.
pub type Result<T, E = ManifestError> = std::result::Result<T, E>;

/// An error about what a manifest object says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The bytes do not start as ours do.
    #[error("this is not a manifest object: {detail}")]
    NotAManifest {
        /// What was found.
        detail: String,
    },
    /// Written by a newer version.
    #[error("{what} has format version {found}, this program reads up to {supported}")]
    TooNew {
        /// "commit", "section `gpu`" …
        what: String,
        /// Version found.
        found: u32,
        /// Highest version that we know.
        supported: u32,
    },
    /// The header has flags that change the meaning of what follows.
    #[error("{what} uses features that this program does not know (flags {flags:#06x})")]
    UnknownFlags {
        /// "commit" …
        what: String,
        /// All flags found.
        flags: u16,
    },
    /// One type of object was asked for, another one is there.
    #[error("expected a {expected}, found a {found}")]
    WrongType {
        /// What was asked for.
        expected: String,
        /// What the header says.
        found: String,
    },
    /// Too large to be parsed, or to be written.
    #[error("{what} has {len} bytes, at most {limit} are allowed")]
    TooLarge {
        /// "tree" …
        what: String,
        /// How large it is.
        len: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The header is right and the rest is not.
    #[error("malformed {what}: {detail}")]
    Malformed {
        /// "commit", "section `gpu`" …
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Not a name for a thread or a tag.
    #[error("`{name}` cannot name a {what}: {reason}")]
    RefName {
        /// "thread" or "tag".
        what: &'static str,
        /// The name, with control characters escaped.
        name: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// A value that has no encoding.
    #[error("cannot write this {what}: {detail}")]
    Invalid {
        /// "commit" …
        what: String,
        /// What cannot be written, and why.
        detail: String,
    },
    /// An object or a reference is of a kind that we do not know, so we cannot say what it points at.
    #[error("object kind {kind} is not known to this program")]
    UnknownKind {
        /// The kind: a number, or a name from a reference.
        kind: String,
    },
    /// A file that describes this machine could not be read.
    #[error("cannot read `{}`", path.display())]
    Probe {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that describes this machine says nothing that we understand.
    #[error("cannot make out {what} in `{}`", path.display())]
    ProbeText {
        /// "the page size" …
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
}

impl ManifestError {
    pub(crate) fn malformed(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Malformed { what: what.into(), detail: detail.into() }
    }

    pub(crate) fn invalid(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), detail: detail.into() }
    }

    pub(crate) fn unknown_kind(kind: Kind) -> Self {
        Self::UnknownKind { kind: kind.0.to_string() }
    }

    /// The stable code, the name of a page under `docs/errors/`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotAManifest { .. } => "IJ-M001",
            Self::TooNew { .. } => "IJ-M002",
            Self::UnknownFlags { .. } => "IJ-M003",
            Self::WrongType { .. } => "IJ-M004",
            Self::TooLarge { .. } => "IJ-M005",
            Self::Malformed { .. } => "IJ-M006",
            Self::UnknownKind { .. } => "IJ-M007",
            Self::RefName { .. } => "IJ-M010",
            Self::Invalid { .. } => "IJ-M011",
            Self::Probe { .. } => "IJ-M020",
            Self::ProbeText { .. } => "IJ-M021",
        }
    }

    /// What kind of trouble this is.
    pub const fn class(&self) -> Class {
        match self {
            Self::NotAManifest { .. } | Self::WrongType { .. } | Self::Malformed { .. } => Class::Corruption,
            Self::TooNew { .. }
            | Self::UnknownFlags { .. }
            | Self::UnknownKind { .. }
            | Self::TooLarge { .. }
            | Self::RefName { .. }
            | Self::Invalid { .. } => Class::Usage,
            Self::Probe { .. } | Self::ProbeText { .. } => Class::Environment,
        }
    }

    /// What to do next, where there is something to do.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TooNew { .. } | Self::UnknownFlags { .. } | Self::UnknownKind { .. } => {
                Some("use a newer infinijup")
            }
            Self::NotAManifest { .. } | Self::WrongType { .. } | Self::Malformed { .. } => Some(
                "run `infinijup store verify` to see how much is affected; other snapshots stay readable",
            ),
            Self::RefName { .. } => {
                Some("letters, digits, `-`, `_` and `/` between parts are always allowed")
            }
            Self::Probe { .. } => Some("this needs /proc, mounted and readable"),
            _ => None,
        }
    }
}

/// Loading an object failed: the store could not give it, or what it gave could not be understood.
#[derive(Debug, thiserror::Error)]
pub enum ReadError<E> {
    /// The store's own error.
    #[error("cannot load {what} {}", id.short())]
    Source {
        /// "commit" …
        what: &'static str,
        /// The object.
        id: ObjectId,
        /// What the store said.
        source: E,
    },
    /// The object is there and wrong.
    #[error("cannot read {what} {}", id.short())]
    Object {
        /// "commit" …
        what: &'static str,
        /// The object.
        id: ObjectId,
        /// What is wrong with it.
        source: ManifestError,
    },
}

impl<E> ReadError<E> {
    /// Which object it is about.
    pub const fn id(&self) -> &ObjectId {
        match self {
            Self::Source { id, .. } | Self::Object { id, .. } => id,
        }
    }
}
