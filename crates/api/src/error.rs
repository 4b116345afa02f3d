//! What a refusal or a failure looks like.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Text;

/// The body of every answer that is not a success, and the `error` of a failed job.
///
/// It has the fields of the command's `exit_error` line, and what a program needs to act on it without reading the message: `field`, `files`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// A page under `docs/errors/`; it never changes its meaning.
    #[schema(example = "IJ-D012")]
    pub code: String,
    /// What happened, for people.
    pub message: String,
    /// Why, from the nearest to the deepest.
    #[serde(default)]
    pub causes: Vec<String>,
    /// What to do next, where there is something to do.
    #[serde(default)]
    pub hint: Option<String>,
    /// The exit code that a command should end with, see [`exit`].
    pub exit: u8,
    /// The field of the request's body that is not known (IJ-D017) or cannot be so (IJ-D010); missing if it is about no field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "name")]
    pub field: Option<String>,
    /// The files that are in the way, at most 100 of them; missing if no files are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Text>,
}

impl fmt::Display for ErrorBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        for cause in &self.causes {
            write!(f, ": {cause}")?;
        }
        write!(f, " [{}]", self.code)
    }
}

impl std::error::Error for ErrorBody {}

/// The exit codes of `docs/scripting.md`.
pub mod exit {
    /// Failed, for a reason that has no code of its own.
    pub const FAILED: u8 = 1;
    /// The arguments do not make sense.
    pub const USAGE: u8 = 2;
    /// Done, but something is wrong.
    pub const FINDINGS: u8 = 3;
    /// There is no store.
    pub const NO_STORE: u8 = 10;
    /// Somebody else is in the way; try again later.
    pub const BUSY: u8 = 11;
    /// A key is needed, or the one given is wrong.
    pub const KEY: u8 = 12;
    /// Stored bytes that were needed are damaged or missing.
    pub const DAMAGED: u8 = 13;
    /// Somebody else changed the same thing first, or a name is in use.
    pub const CONFLICT: u8 = 14;
    /// Not found.
    pub const NOT_FOUND: u8 = 15;
}
