//! What a session wants captured.

use serde::{Deserialize, Serialize};

use crate::patterns::Patterns;

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
    },
    /// No file at all.
    None,
}

impl FilePolicy {
    /// Refuses patterns that could not be used, with the reason: when they are given, and not at the first snapshot.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Tree { include, exclude, .. } => {
                let all = || include.iter().chain(exclude);
                if all().count() > PATTERNS {
                    return Err(format!("at most {PATTERNS} patterns of files"));
                }
                if all().any(|pattern| pattern.len() > PATTERN) {
                    return Err(format!("a pattern of files has at most {PATTERN} bytes"));
                }
                Patterns::new(include, exclude).map(drop).map_err(|error| error.to_string())
            }
            Self::Open | Self::None => Ok(()),
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
        };
        assert_eq!(FilePolicy::Open.check(), Ok(()));
        assert_eq!(tree("*.pyc", PATTERNS).check(), Ok(()));
        assert_eq!(tree(&"a".repeat(PATTERN), 1).check(), Ok(()));
        assert!(tree("*.pyc", PATTERNS + 1).check().is_err());
        assert!(tree(&"a".repeat(PATTERN + 1), 1).check().is_err());
    }
}
