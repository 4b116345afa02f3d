//! What can go wrong in a store.
//!
//! Rules of this module:
//! * A variant names the thing (path, id, ref) and what happened; the cause travels as `source` and is not repeated in the
//!   text, because the edge prints the chain.
//! * Every variant has a stable code ([`StoreError::code`], a page under `docs/errors/`), a class that decides exit code
//!   and retry ([`StoreError::class`]) and, where there is one, a way out ([`StoreError::hint`]).
//! * Damage is never mapped to "not found": an object that is there but wrong is [`StoreError::Damaged`].

use std::io;
use std::path::{Path, PathBuf};

use crate::id::{ObjectId, PackId};

pub use base::Class;

/// The result of most calls here.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// A verb: "write", "sync" …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no store at this path.
    #[error("no store at `{}`", path.display())]
    NotAStore {
        /// Where one was looked for.
        path: PathBuf,
    },
    /// `init` found something already there.
    #[error("`{}` already holds a store", path.display())]
    AlreadyAStore {
        /// The store's directory.
        path: PathBuf,
    },
    /// The store was written by a newer version.
    #[error("store `{}` has format version {found}, this program reads up to {supported}", path.display())]
    FormatTooNew {
        /// The store's directory.
        path: PathBuf,
        /// Version in the store.
        found: u32,
        /// Highest version we know.
        supported: u32,
    },
    /// Stored bytes are not what was written.
    #[error("damaged {what} in `{}`: {detail}", path.display())]
    Damaged {
        /// "pack header", "object", "ref" …
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// An object's content cannot be understood, though it is what was written.
    #[error("object {id} is malformed: {detail}")]
    Malformed {
        /// The object.
        id: ObjectId,
        /// What is wrong with it.
        detail: String,
    },
    /// The store does not have this object.
    #[error("object {id} is not in the store")]
    MissingObject {
        /// The object.
        id: ObjectId,
    },
    /// An object is in another place, and could not be read there.
    #[error("object {} is not here but in `{place}`, and could not be read there", id.short())]
    Beyond {
        /// The object.
        id: ObjectId,
        /// What the place is called.
        place: String,
        /// Whether it is there and is not what it should be.
        damaged: bool,
        /// What was said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Data is in another place, which cannot be opened.
    #[error("data of this snapshot is not here but in `{place}`, which cannot be opened")]
    NoBeyond {
        /// What the place is called.
        place: String,
        /// What was said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The catalogue names a pack that is not there.
    #[error("pack {pack} is missing")]
    MissingPack {
        /// The pack.
        pack: PackId,
    },
    /// The store is encrypted and no key was given.
    #[error("store `{}` is encrypted and no key was given", path.display())]
    KeyNeeded {
        /// The store's directory.
        path: PathBuf,
    },
    /// The key does not open the store.
    #[error("the key given does not open the store `{}`", path.display())]
    WrongKey {
        /// The store's directory.
        path: PathBuf,
    },
    /// What opens the store was changed after this handle was opened.
    #[error("the keys of store `{}` were rotated since it was opened", path.display())]
    KeysRotated {
        /// The store's directory.
        path: PathBuf,
    },
    /// A key was given for, or a key operation asked of, a store without encryption.
    #[error("store `{}` is not encrypted", path.display())]
    NotEncrypted {
        /// The store's directory.
        path: PathBuf,
    },
    /// The key that sealed a pack was erased.
    #[error("the key of pack {pack} (epoch {epoch}) was erased")]
    KeyErased {
        /// The pack.
        pack: PackId,
        /// Its key's number.
        epoch: u32,
    },
    /// A ref is not what the caller thought it was.
    #[error("ref `{name}` is {}, not {} as expected", show(found), show(expected))]
    RefConflict {
        /// Full name.
        name: String,
        /// What the caller expected.
        expected: Option<ObjectId>,
        /// What is there.
        found: Option<ObjectId>,
    },
    /// Not a name for a ref.
    #[error("`{name}` cannot name a ref: {reason}")]
    RefName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no such ref.
    #[error("there is no ref `{name}`")]
    RefMissing {
        /// Full name.
        name: String,
    },
    /// Somebody else holds a lock that this needs.
    #[error("`{}` is locked by {holder}", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Who holds it, as far as known.
        holder: String,
    },
    /// The catalogue's database failed.
    #[error("catalogue: cannot {action}")]
    Catalogue {
        /// A verb phrase.
        action: &'static str,
        /// SQLite's word.
        source: rusqlite::Error,
    },
    /// Reading what should be stored failed.
    #[error("cannot read {what} that is to be stored")]
    Source {
        /// "page 0x7f12…000", "file" …
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// An argument is out of range.
    #[error("{what}")]
    Invalid {
        /// A sentence.
        what: String,
    },
    /// The operating system gave no random bytes.
    #[error("no random bytes from the operating system: {detail}")]
    NoEntropy {
        /// Its word.
        detail: String,
    },
    /// A worker of a write transaction failed earlier; the transaction is over.
    #[error("the write transaction failed earlier: {detail}")]
    TransactionFailed {
        /// The first error, as text: it was returned in full where it happened.
        detail: String,
        /// What that one says to do next: who is told second must know it, too.
        hint: Option<&'static str>,
    },
    /// A bug of ours.
    #[error("internal error: {detail}")]
    Bug {
        /// What was found.
        detail: String,
    },
}

fn show(id: &Option<ObjectId>) -> String {
    id.map_or_else(|| "absent".to_owned(), |id| id.short())
}

impl StoreError {
    /// Attaches what was being done to an I/O error.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// Attaches what was being done to an SQLite error.
    pub fn catalogue(action: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Catalogue { action, source }
    }

    /// What everybody else is told after this error has ended a write transaction.
    pub(crate) fn transaction_failed(&self) -> Self {
        match self {
            Self::TransactionFailed { detail, hint } => {
                Self::TransactionFailed { detail: detail.clone(), hint: *hint }
            }
            error => Self::TransactionFailed { detail: error.to_string(), hint: error.hint() },
        }
    }

    /// Something in `path` is not what was written.
    pub fn damaged(what: &'static str, path: impl AsRef<Path>, detail: impl Into<String>) -> Self {
        Self::Damaged { what, path: path.as_ref().to_path_buf(), detail: detail.into() }
    }

    /// The stable code, the name of a page under `docs/errors/`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "IJ-S001",
            Self::NotAStore { .. } => "IJ-S002",
            Self::AlreadyAStore { .. } => "IJ-S003",
            Self::FormatTooNew { .. } => "IJ-S004",
            Self::Damaged { .. } => "IJ-S010",
            Self::Malformed { .. } => "IJ-S011",
            Self::MissingObject { .. } => "IJ-S012",
            Self::MissingPack { .. } => "IJ-S013",
            Self::Beyond { .. } | Self::NoBeyond { .. } => "IJ-S014",
            Self::KeyNeeded { .. } => "IJ-S020",
            Self::WrongKey { .. } => "IJ-S021",
            Self::NotEncrypted { .. } => "IJ-S022",
            Self::KeyErased { .. } => "IJ-S023",
            Self::KeysRotated { .. } => "IJ-S024",
            Self::RefConflict { .. } => "IJ-S030",
            Self::RefName { .. } => "IJ-S031",
            Self::RefMissing { .. } => "IJ-S032",
            Self::Locked { .. } => "IJ-S040",
            Self::Catalogue { .. } => "IJ-S050",
            Self::Source { .. } => "IJ-S060",
            Self::Invalid { .. } => "IJ-S061",
            Self::NoEntropy { .. } => "IJ-S062",
            Self::TransactionFailed { .. } => "IJ-S070",
            Self::Bug { .. } => "IJ-S099",
        }
    }

    /// What kind of trouble this is.
    pub fn class(&self) -> Class {
        match self {
            Self::Io { .. } | Self::Locked { .. } | Self::Source { .. } | Self::NoEntropy { .. } => {
                Class::Environment
            }
            Self::NotAStore { .. }
            | Self::AlreadyAStore { .. }
            | Self::FormatTooNew { .. }
            | Self::NotEncrypted { .. }
            | Self::RefName { .. }
            | Self::RefMissing { .. }
            | Self::Invalid { .. } => Class::Usage,
            Self::Beyond { damaged: true, .. }
            | Self::Damaged { .. }
            | Self::Malformed { .. }
            | Self::MissingObject { .. }
            | Self::MissingPack { .. } => Class::Corruption,
            Self::KeyNeeded { .. }
            | Self::WrongKey { .. }
            | Self::KeyErased { .. }
            | Self::KeysRotated { .. } => Class::Key,
            Self::RefConflict { .. } => Class::Conflict,
            Self::Catalogue { source, .. } => match source.sqlite_error_code() {
                Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                    Class::Corruption
                }
                _ => Class::Environment,
            },
            Self::TransactionFailed { .. } | Self::Beyond { .. } | Self::NoBeyond { .. } => {
                Class::Environment
            }
            Self::Bug { .. } => Class::Bug,
        }
    }

    /// Whether somebody else is in the way, and waiting may be all that it takes.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Locked { .. } => true,
            Self::Catalogue { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
            ),
            _ => false,
        }
    }

    /// Whether the disk is full.
    fn is_out_of_space(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            // Every connection needs the log's index, a file of its own; SQLite has a code for "it cannot grow".
            Self::Catalogue { source: rusqlite::Error::SqliteFailure(error, _), .. } => {
                error.code == rusqlite::ErrorCode::DiskFull
                    || error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
            }
            _ => false,
        }
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { .. } | Self::Catalogue { .. } if self.is_out_of_space() => Some(
                "free some space (`infinijup gc --dry-run` shows what can go) and run the same command again",
            ),
            Self::NotAStore { .. } => {
                Some("create one with `infinijup store init`, or name another with --store")
            }
            Self::FormatTooNew { .. } => Some("use a newer infinijup"),
            Self::Damaged { what: "catalogue", .. } => {
                Some("the catalogue can be made anew from the packs: `infinijup store rebuild`")
            }
            Self::Damaged { .. } | Self::MissingPack { .. } | Self::MissingObject { .. } => Some(
                "run `infinijup store verify` to see how much is affected; other snapshots stay readable",
            ),
            Self::Beyond { damaged: true, .. } => {
                Some("`infinijup remote verify` shows how much is affected")
            }
            Self::Beyond { .. } | Self::NoBeyond { .. } => Some(
                "see that the remote can be reached with the daemon's credentials, or bring the data with `infinijup fetch`",
            ),
            Self::Catalogue { .. } if self.class() == Class::Corruption => {
                Some("the catalogue can be made anew from the packs: `infinijup store rebuild`")
            }
            Self::KeyNeeded { .. } => {
                Some("give --passphrase-file or --key-file, or set INFINIJUP_PASSPHRASE_FILE")
            }
            Self::KeysRotated { .. } => Some(
                "open it again, with the new passphrase or key file; nothing was written under the old keys",
            ),
            Self::RefConflict { .. } => Some("look at what is there now (`infinijup log`) and decide again"),
            Self::Locked { .. } => Some("wait for it to end, then run the same command again"),
            Self::TransactionFailed { hint, .. } => *hint,
            Self::Bug { .. } => Some("please report this, with the output of `infinijup store stat --json`"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_has_the_same_way_out_whoever_meets_it() {
        let full = StoreError::io("write", "x")(io::ErrorKind::StorageFull.into());
        assert!(full.hint().unwrap().contains("space"));
        for code in [rusqlite::ffi::SQLITE_FULL, rusqlite::ffi::SQLITE_IOERR_SHMSIZE] {
            let source = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            let error = StoreError::catalogue("add packs")(source);
            assert_eq!(error.class(), Class::Environment);
            assert_eq!(error.hint(), full.hint());
        }
    }
}
