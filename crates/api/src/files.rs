//! Files: those of a session that nobody else has, and those of a snapshot.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Text, Uncaptured};

/// A file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct FileNote {
    /// Its path inside the session.
    pub path: Text,
    /// How large it is.
    pub bytes: u64,
}

/// The answer of `GET /v1/sessions/{id}/files`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct SessionFiles {
    /// Where the files of its workspace are, as they can be opened from outside.
    pub directory: Text,
    /// Whether they are its own: a branch has copies, any other session works in the directory that it was started in.
    pub own: bool,
    /// Those of a branch that are in no snapshot.
    pub loose: Vec<FileNote>,
}

/// Files that no snapshot had are in one now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct KeptFiles {
    /// The snapshot, which has these files and nothing else.
    pub commit: String,
    /// The files.
    pub files: Vec<FileNote>,
}

/// The answer of `GET /v1/commits/{id}/files`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct SnapshotFiles {
    /// The files whose content it has, by path; the first so many that were asked for.
    pub files: Vec<FileNote>,
    /// How many there are.
    pub count: u64,
    /// How many bytes all of them have.
    pub bytes: u64,
}

/// The answer of `GET /v1/commits/{id}/file`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct FileText {
    /// As it was asked for.
    pub path: Text,
    /// How large it is.
    pub bytes: u64,
    /// All of it; null if it is longer than 1 MiB, or no text in UTF-8.
    pub text: Option<String>,
}

/// `POST /v1/commits/{id}/files`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CopyOutRequest {
    /// A directory that is there, absolute. Nothing in it is overwritten: a file whose name is taken gets a number.
    pub to: Text,
    /// Which files, by their paths inside the session; all if none is named.
    #[serde(default)]
    pub paths: Vec<Text>,
}

/// Files of a snapshot were copied.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct CopyOutOutcome {
    /// Each with where it is now.
    pub written: Vec<CopiedFile>,
    /// What could not be copied.
    pub skipped: Vec<Uncaptured>,
}

/// A file that was copied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct CopiedFile {
    /// Its path inside the session.
    pub path: Text,
    /// Where it is now.
    pub to: Text,
}
