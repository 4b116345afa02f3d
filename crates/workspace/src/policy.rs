//! What a session wants captured.

use serde::{Deserialize, Serialize};

use std::io;
use std::path::PathBuf;

use crate::patterns::Patterns;
use crate::walk::MAX_NAMES;

/// The most patterns of one policy. They are compiled for each snapshot.
const PATTERNS: usize = 1000;
/// The longest pattern, in bytes.
const PATTERN: usize = 4096;

/// Which files belong to a session's snapshots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "lowercase")]
pub enum FilePolicy {
    /// The notebook, and every file that a process of the session has open for writing.
    Open,
    /// The working directory too.
    Tree {
        /// Patterns of what is captured; everything if empty.
        include: Vec<String>,
        /// Patterns of what is not.
        exclude: Vec<String>,
        /// Larger directories are refused.
        max_bytes: u64,
        /// Directories that are mounted there and belong to it, too, as the session sees them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        volumes: Vec<PathBuf>,
    },
    /// The working directory too, as far as that is what people work on: without what programs keep for themselves, and within bounds.
    Workspace,
    /// No file at all.
    None,
}

/// The most volumes of one policy.
const VOLUMES: usize = 100;

/// What `Workspace` leaves out: hidden directories, and those that programs fill and can fill again.
const NOT_WORKED_ON: [&str; 9] = [
    ".*/",
    "__pycache__/",
    "*.pyc",
    "node_modules/",
    "site-packages/",
    "venv/",
    "env/",
    "envs/",
    "lost+found/",
];
/// More files than that are no workspace but a whole home.
const WORKSPACE_FILES: usize = 100_000;
/// All of them together, and each.
const WORKSPACE_BYTES: u64 = 4 << 30;
const WORKSPACE_FILE_BYTES: u64 = 256 << 20;
/// Of a home, which holds everything that somebody has, only what lies directly in it is taken.
const DIRECTORIES: &str = "*/";

/// What is taken of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) patterns: Patterns,
    /// At most so many names.
    pub(crate) names: usize,
    /// At most so many bytes.
    pub(crate) bytes: u64,
    /// No larger file.
    pub(crate) file_bytes: u64,
}

impl FilePolicy {
    /// What is taken of the working directory, if it is. `is_home` if that is somebody's home.
    pub(crate) fn rules(&self, is_home: bool) -> io::Result<Option<Rules>> {
        Ok(match self {
            Self::Tree { include, exclude, max_bytes, .. } => Some(Rules {
                patterns: Patterns::new(include, exclude)?,
                names: MAX_NAMES,
                bytes: *max_bytes,
                file_bytes: u64::MAX,
            }),
            Self::Workspace => Some(Rules {
                patterns: match is_home {
                    true => Patterns::new(&[], &[DIRECTORIES.to_owned()])?,
                    false => Patterns::new(&[], &NOT_WORKED_ON.map(str::to_owned))?,
                },
                names: WORKSPACE_FILES,
                bytes: WORKSPACE_BYTES,
                file_bytes: WORKSPACE_FILE_BYTES,
            }),
            Self::Open | Self::None => None,
        })
    }

    /// Volumes of which everything is taken.
    pub fn volumes(&self) -> &[PathBuf] {
        match self {
            Self::Tree { volumes, .. } => volumes,
            Self::Open | Self::Workspace | Self::None => &[],
        }
    }

    /// Refuses patterns that could not be used, with the reason: when they are given, and not at the first snapshot.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Tree { include, exclude, volumes, .. } => {
                if volumes.len() > VOLUMES {
                    return Err(format!("at most {VOLUMES} volumes"));
                }
                let all = || include.iter().chain(exclude);
                if all().count() > PATTERNS {
                    return Err(format!("at most {PATTERNS} patterns of files"));
                }
                if all().any(|pattern| pattern.len() > PATTERN) {
                    return Err(format!("a pattern of files has at most {PATTERN} bytes"));
                }
                Patterns::new(include, exclude).map(drop).map_err(|error| error.to_string())
            }
            Self::Open | Self::Workspace | Self::None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_are_too_much_are_refused_beforehand() {
        let tree = |exclude: &str, count: usize| FilePolicy::Tree {
            include: Vec::new(),
            exclude: vec![exclude.to_owned(); count],
            max_bytes: 1,
            volumes: Vec::new(),
        };
        assert_eq!(FilePolicy::Open.check(), Ok(()));
        assert_eq!(tree("*.pyc", PATTERNS).check(), Ok(()));
        assert_eq!(tree(&"a".repeat(PATTERN), 1).check(), Ok(()));
        assert!(tree("*.pyc", PATTERNS + 1).check().is_err());
        assert!(tree(&"a".repeat(PATTERN + 1), 1).check().is_err());
    }
}
