//! What `infinijupd --encrypt-store` tells the command that runs it: one line of JSON each, on its stdout.

use serde::{Deserialize, Serialize};

use crate::{ErrorBody, Text};

/// One line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum EncryptionLine {
    /// A part of the work begins.
    Begin {
        /// Its name.
        task: String,
        /// How much there is to do, if that is known.
        total: Option<u64>,
    },
    /// So much more of it is done.
    Advance {
        /// Its name.
        task: String,
        /// In the unit of the task.
        done: u64,
    },
    /// It has ended.
    End {
        /// Its name.
        task: String,
    },
    /// The store is encrypted.
    Done {
        /// It was so before.
        already: bool,
        /// Commits that have other ids now.
        commits: usize,
        /// Where the store is.
        store: Text,
        /// What opens it.
        key_file: Text,
    },
    /// It is as it was.
    Failed {
        /// What went wrong.
        error: Box<ErrorBody>,
    },
}
