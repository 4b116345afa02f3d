//! What can go wrong with a remote. Every variant has a stable code, a class, and where there is one a way out.

use base::Class;
use cas_core::{ObjectId, StoreError};

/// The result of most calls here.
pub type Result<T, E = RemoteError> = std::result::Result<T, E>;

/// An error of a remote.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The server did not answer, or not well.
    #[error("cannot {action} `{key}` in the remote")]
    Request {
        /// A verb: "read", "write" …
        action: &'static str,
        /// The object's key.
        key: String,
        /// Whether the same request may succeed in a moment.
        transient: bool,
        /// What was said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server does not let us in.
    #[error("the remote does not accept these credentials")]
    Denied {
        /// What was said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server ignores the conditions of conditional puts, or reads back something else.
    #[error("the server does not keep its word: {broken}")]
    Unreliable {
        /// Which promise was broken.
        broken: String,
    },
    /// The address cannot be one.
    #[error("`{address}` is not the address of a remote: {reason}")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing of ours at this place.
    #[error("there is no remote at this address")]
    NotARemote,
    /// Ids are computed with another secret there.
    #[error("the remote belongs to a store with another key ({})", if *sealed { "it is encrypted" } else { "it is not encrypted" })]
    OtherDomain {
        /// Whether that one is encrypted.
        sealed: bool,
    },
    /// The remote was written by a newer version.
    #[error("the remote has format version {found}, this program reads up to {supported}")]
    TooNew {
        /// Version there.
        found: u32,
        /// Highest version we know.
        supported: u32,
    },
    /// None of the passphrases and key files that were given opens what is in the remote.
    #[error("the passphrase or key file does not open this remote")]
    WrongKey,
    /// The remote is encrypted, and nothing was given to open it.
    #[error("the remote is encrypted, and no passphrase or key file was given")]
    KeyNeeded,
    /// A key was given, and what is there was not sealed with any.
    #[error("a key was given, but this remote is not encrypted")]
    NotEncrypted,
    /// The remote is encrypted, and nobody has left a wrapped key there.
    #[error("the remote is encrypted, and its key is not there")]
    NoKey,
    /// What was read is not what was written.
    #[error("damaged object `{key}` in the remote: {detail}")]
    Damaged {
        /// The object's key.
        key: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A ref leads to something that is not there.
    #[error("the remote lacks object {id}")]
    Missing {
        /// The object.
        id: ObjectId,
    },
    /// Somebody else moved the ref.
    #[error("`{name}` in the remote is at {}, and what was pushed does not descend from that", show(found))]
    RefMoved {
        /// The ref.
        name: String,
        /// Where it is.
        found: Option<ObjectId>,
    },
    /// There is no such ref.
    #[error("the remote has no `{name}`")]
    NoSuchRef {
        /// Its name.
        name: String,
    },
    /// The writer stood still for too long and was given up by a collection.
    #[error("the push stood still for too long, and a collection has given it up")]
    LeaseLost,
    /// Whether a put was done could not be found out.
    #[error("it could not be found out whether `{key}` was written")]
    Unsettled {
        /// The object's key.
        key: String,
    },
    /// Others change the same object all the time.
    #[error("`{key}` in the remote is changed by others all the time")]
    Contended {
        /// The object's key.
        key: String,
    },
    /// More would come than may.
    #[error("the remote has more to send than the {limit} bytes that may come")]
    TooMuch {
        /// How much may.
        limit: u64,
    },
    /// What a store without encryption pushes can be read by the server, and nobody has agreed to that.
    #[error("the store is not encrypted, and whoever can read the remote could read what is pushed")]
    Unencrypted,
    /// No remote is called this.
    #[error("no remote is called `{name}`")]
    NoSuchRemote {
        /// The name.
        name: String,
    },
    /// Another remote is called this.
    #[error("`{name}` is {address} already")]
    NameTaken {
        /// The name.
        name: String,
        /// The other one's address.
        address: String,
    },
    /// The local store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn show(id: &Option<ObjectId>) -> String {
    id.map_or_else(|| "nothing".to_owned(), |id| id.short())
}

impl RemoteError {
    /// The object is not what was written.
    pub(crate) fn damaged(key: &str, detail: impl Into<String>) -> Self {
        Self::Damaged { key: key.to_owned(), detail: detail.into() }
    }

    /// Whether the same may succeed in a moment.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Request { transient: true, .. })
    }

    /// Whether a request may still be on its way: then a writer must not give its lease back.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Unsettled { .. })
    }

    /// The stable code, the name of a page under `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Request { .. } => "IJ-R001",
            Self::Denied { .. } => "IJ-R002",
            Self::Unreliable { .. } => "IJ-R003",
            Self::Address { .. } => "IJ-R004",
            Self::NotARemote => "IJ-R010",
            Self::OtherDomain { .. } => "IJ-R011",
            Self::TooNew { .. } => "IJ-R012",
            Self::WrongKey => "IJ-R013",
            Self::KeyNeeded => "IJ-R014",
            Self::NotEncrypted => "IJ-R015",
            Self::NoKey => "IJ-R016",
            Self::Damaged { .. } => "IJ-R020",
            Self::Missing { .. } => "IJ-R021",
            Self::RefMoved { .. } => "IJ-R030",
            Self::NoSuchRef { .. } => "IJ-R031",
            Self::LeaseLost => "IJ-R040",
            Self::Unsettled { .. } => "IJ-R041",
            Self::Contended { .. } => "IJ-R042",
            Self::TooMuch { .. } => "IJ-R050",
            Self::Unencrypted => "IJ-R060",
            Self::NoSuchRemote { .. } => "IJ-R061",
            Self::NameTaken { .. } => "IJ-R062",
            Self::Store(error) => error.code(),
        }
    }

    /// What kind of trouble this is.
    pub fn class(&self) -> Class {
        match self {
            Self::Request { .. } | Self::Denied { .. } | Self::Unsettled { .. } => Class::Environment,
            Self::WrongKey | Self::KeyNeeded => Class::Key,
            Self::Unreliable { .. }
            | Self::OtherDomain { .. }
            | Self::NotEncrypted
            | Self::TooMuch { .. }
            | Self::Unencrypted => Class::Refused,
            Self::Address { .. } | Self::TooNew { .. } | Self::NameTaken { .. } => Class::Usage,
            Self::NotARemote | Self::NoKey | Self::NoSuchRef { .. } | Self::NoSuchRemote { .. } => {
                Class::NotFound
            }
            Self::Damaged { .. } | Self::Missing { .. } => Class::Corruption,
            Self::RefMoved { .. } | Self::LeaseLost | Self::Contended { .. } => Class::Conflict,
            Self::Store(error) => error.class(),
        }
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Request { .. } | Self::Unsettled { .. } | Self::LeaseLost | Self::Contended { .. } => {
                Some("run the same command again: what has arrived is not sent again")
            }
            Self::Denied { .. } => Some(
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for the daemon, and check the bucket's policy",
            ),
            Self::Unreliable { .. } => Some("use a server with conditional puts: S3, SeaweedFS, R2, MinIO"),
            Self::NotARemote => Some("check the address, or make a remote there with `infinijup remote add`"),
            Self::OtherDomain { .. } => Some("use another prefix of the bucket for this store"),
            Self::WrongKey => Some("give the --passphrase-file or --key-file of the store that pushed there"),
            Self::KeyNeeded => Some("give its --passphrase-file or --key-file"),
            Self::NotEncrypted => {
                Some("check the address; if you mean to clone what is not encrypted, give no key")
            }
            Self::NoKey => Some("push once from a store that has the key"),
            Self::TooNew { .. } => Some("use a newer infinijup"),
            Self::Damaged { .. } | Self::Missing { .. } => {
                Some("`infinijup remote verify` shows how much is affected")
            }
            Self::RefMoved { .. } => Some("`infinijup fetch` shows what is there; push under another name"),
            Self::TooMuch { .. } => Some("free some space, or fetch fewer threads"),
            Self::Store(error) => error.hint(),
            Self::Unencrypted => {
                Some("encrypt the store (`infinijup store encrypt`), or push with --unencrypted")
            }
            Self::NoSuchRemote { .. } => Some("`infinijup remote list` shows those that there are"),
            Self::NameTaken { .. } => {
                Some("choose another name, or `infinijup remote remove` that one first")
            }
            Self::Address { .. } | Self::NoSuchRef { .. } => None,
        }
    }
}
