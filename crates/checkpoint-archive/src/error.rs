//! What can be wrong with an archive. Every variant has a stable code, a class, and where there is one a way out.

use base::{Class, IoError};

/// The result of most calls here.
pub type Result<T, E = ArchiveError> = std::result::Result<T, E>;

/// More of a stranger's text is not shown.
const SHOWN: usize = 120;

/// An error of an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// It is something else.
    #[error("this is no checkpoint archive: {detail}")]
    NotAnArchive {
        /// What is wrong.
        detail: String,
    },
    /// It is compressed in a way that is not read here.
    #[error("the archive is compressed with {name}, which is not read here")]
    Compression {
        /// "xz", "bzip2"
        name: &'static str,
    },
    /// It is cut short, or a checksum does not fit.
    #[error("the archive is damaged: {detail}")]
    Damaged {
        /// What is wrong.
        detail: String,
    },
    /// It has more of something than is taken.
    #[error("the archive has more {what} than the {most} that are taken")]
    TooMuch {
        /// "bytes", "members" …
        what: &'static str,
        /// How many are.
        most: u64,
    },
    /// A name in it leads elsewhere, or is none.
    #[error("the archive has the name `{name}`: {why}")]
    Name {
        /// The name, made harmless.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A link, a device, or something else where a file is expected.
    #[error("`{name}` in the archive is {what}")]
    Kind {
        /// Which.
        name: String,
        /// "a symbolic link", "a device"
        what: &'static str,
    },
    /// Two members have one name.
    #[error("`{name}` is in the archive twice")]
    Twice {
        /// Which.
        name: String,
    },
    /// A member is not what its name says.
    #[error("`{name}` in the archive cannot be understood: {detail}")]
    Unreadable {
        /// Which.
        name: String,
        /// What is wrong.
        detail: String,
    },
    /// A member without which it is none is not there.
    #[error("the archive has no `{name}`")]
    Missing {
        /// Which.
        name: &'static str,
    },
    /// The parts of an OCI image do not fit together.
    #[error("the image that the archive is in does not fit together: {detail}")]
    Image {
        /// What is wrong.
        detail: String,
    },
    /// CRIU's images in it ask for what no container of strangers gets.
    #[error("the images in the archive are refused: {}", findings.join("; "))]
    Untrusted {
        /// What was found.
        findings: Vec<String>,
    },
    /// Whoever took a member could not keep it, and knows why.
    #[error("what was read of the archive could not be kept")]
    NotKept,
    /// The snapshot that was to become an archive has no processes.
    #[error("snapshot {commit} has no processes, so there is nothing to make an archive of")]
    NoProcesses {
        /// The snapshot.
        commit: String,
    },
}

impl ArchiveError {
    /// Stable, with a page under `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "IJ-A001",
            Self::NotAnArchive { .. } => "IJ-A002",
            Self::Compression { .. } => "IJ-A003",
            Self::NoProcesses { .. } => "IJ-A004",
            Self::NotKept => "IJ-A005",
            Self::Damaged { .. } => "IJ-A010",
            Self::Missing { .. } => "IJ-A011",
            Self::Unreadable { .. } => "IJ-A012",
            Self::Image { .. } => "IJ-A013",
            Self::TooMuch { .. } => "IJ-A020",
            Self::Name { .. } => "IJ-A021",
            Self::Kind { .. } => "IJ-A022",
            Self::Twice { .. } => "IJ-A023",
            Self::Untrusted { .. } => "IJ-A024",
        }
    }

    /// What kind of trouble it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Io(_) | Self::NotKept => Class::Environment,
            Self::NotAnArchive { .. } | Self::Compression { .. } | Self::NoProcesses { .. } => Class::Usage,
            Self::Damaged { .. } | Self::Missing { .. } | Self::Unreadable { .. } | Self::Image { .. } => {
                Class::Corruption
            }
            Self::TooMuch { .. }
            | Self::Name { .. }
            | Self::Kind { .. }
            | Self::Twice { .. }
            | Self::Untrusted { .. } => Class::Refused,
        }
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Compression { .. } => Some("unpack it to a plain tar file first"),
            Self::TooMuch { what: "bytes", .. } => {
                Some("if you trust where it comes from, say with --at-most how large it may become")
            }
            Self::NoProcesses { .. } => {
                Some("`infinijup export` without --checkpoint-image takes every snapshot")
            }
            Self::Name { .. } | Self::Kind { .. } | Self::Twice { .. } | Self::Untrusted { .. } => {
                Some("no engine writes this; ask whoever made the archive")
            }
            _ => None,
        }
    }

    pub(crate) fn damaged(detail: impl Into<String>) -> Self {
        Self::Damaged { detail: detail.into() }
    }
}

/// A stranger's bytes as text that can be shown: without control characters, and not too long.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut safe: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        safe.push('…');
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_reach_the_terminal_as_it_is() {
        assert_eq!(shown(b"a\x1b[31m\xffb"), "a\\u{1b}[31m\u{fffd}b");
        assert_eq!(shown(&[b'x'; 200]).chars().count(), SHOWN + 1);
    }
}
