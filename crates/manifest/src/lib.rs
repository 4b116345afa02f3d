//! What a snapshot is.
//!
//! The store keeps bytes under ids and knows nothing of notebooks. This crate gives some of those bytes a meaning. There
//! are three kinds of manifest objects, and they form a Merkle tree: an id covers everything below it.
//!
//! ```text
//! commit ──► parent commits            who, when, why; a thread or a tag points here
//!   │
//!   └─► snapshot                       named sections: criu, memory, gpu, workspace, outside, notebook …
//!         ├─► memory maps, blobs       process memory and CRIU's images
//!         └─► tree ─► trees, blobs     the directories and files of the workspace
//! ```
//!
//! A fourth kind says which commits were forgotten ([`history::Grafts`]).
//!
//! `docs/format-manifest.md` describes the bytes. Three properties hold everywhere and have tests:
//! * **One value, one encoding.** The same value gives the same bytes and so the same id; decoding and encoding again is
//!   the identity. Everything else is refused.
//! * **Newer writers do not lose data.** Fields and sections that this version does not know are kept, and [`references`]
//!   finds the objects they point at, so that an old program's garbage collection leaves them alone.
//! * **What cannot be understood is refused, never skipped.** A newer format version, an unknown flag or an unknown kind
//!   of reference is an error with a way out.
//!
//! The objects do no I/O of their own: [`ObjectSource`] and [`ObjectSink`] are what they need of a store. [`stored`] ties them
//! to the real one, [`history::resolve`] looks names up in it, and [`host::probe`] reads `/proc`.
#![forbid(unsafe_code)]

mod canonical;
pub mod commit;
pub mod error;
pub mod history;
pub mod host;
mod names;
mod object;
mod reference;
pub mod snapshot;
pub mod stored;
pub mod tree;
mod wire;

pub use commit::{Author, CellNote, Commit, CommitReason, Figures};
pub use error::{ManifestError, ReadError, Result};
pub use names::{Tag, Thread};
pub use object::{FORMAT_VERSION, HEADER_LEN, Header, ManifestObject, ObjectSink, ObjectSource, SaveError};
pub use reference::{BlobRef, MapRef, Reference, Target, references};
pub use snapshot::{Root, RootTarget, Section, Snapshot, TypedSection};
pub use tree::{Entry, FileName, Node, Tree};
pub use wire::{ByteText, Extra};

use cas_core::Kind;

/// One directory.
pub const TREE: Kind = Kind(32);
/// Everything that one snapshot consists of.
pub const SNAPSHOT: Kind = Kind(33);
/// A snapshot's place in history.
pub const COMMIT: Kind = Kind(34);
/// What was forgotten.
pub const GRAFTS: Kind = Kind(35);

// The store must never take our kinds for its own.
const _: () = assert!(
    TREE.0 >= Kind::FIRST_OPAQUE
        && SNAPSHOT.0 >= Kind::FIRST_OPAQUE
        && COMMIT.0 >= Kind::FIRST_OPAQUE
        && GRAFTS.0 >= Kind::FIRST_OPAQUE
);
