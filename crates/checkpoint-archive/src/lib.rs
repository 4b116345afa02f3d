//! Checkpoint archives of containers: the files that `podman container checkpoint --export`, CRI-O and containerd write, and that
//! `podman container restore --import` and `checkpointctl` read.
//!
//! An archive is a tar file, plain or compressed, with a flat list of *members*: CRIU's images in `checkpoint/`, what the engine knew of the
//! container (`config.dump`, `spec.dump`), the files of its writable layer and of its volumes as tar files within. The same files as the
//! one layer of an OCI image, with annotations that say what they are, can be pushed to a registry. Both forms are read and written here.
//!
//! Whoever restores an archive does what its author wrote, as root, so restores of foreign ones have led to a row of CVEs: mounts,
//! devices and image names that came out of the archive, a link that led to a file of the host. So the reader here believes nothing:
//!
//! * It reads as a stream, and everything is bounded before it is allocated or passed on ([`Limits`]).
//! * A member has one of the names in [`Member`], is a plain file, and is there once. No link, no device, no path that leads elsewhere.
//! * What was understood in one way only: a tar header with two meanings, a JSON object with a key twice, is refused.
//! * What the archive says about the container is *evidence* ([`Claim`]), for people. Nothing here, and nothing that uses this,
//!   makes a container of it: that is done from the specification that lives on the machine.
//!
//! | file | subject |
//! |---|---|
//! | `members` | what may be in an archive, and under which names |
//! | `files` | the files of a container, from tar files within |
//! | `tar` | tar files, read strictly and written plainly |
//! | `stream` | compression, and how much may come out of it |
//! | `json` | JSON of strangers |
//! | `read`, `image` | the two forms of an archive, read |
//! | `write` | both, written |
//! | `describe` | what our archives say of themselves: `config.dump`, annotations |
//! | `claims` | what an archive would have liked |

#![forbid(unsafe_code)]

mod claims;
mod describe;
mod error;
mod files;
mod image;
mod json;
mod limits;
mod members;
mod read;
mod stream;
pub mod tar;
mod write;

pub use claims::{Claim, ClaimKind, claims};
pub use describe::{Described, annotations};
pub use error::{ArchiveError, Result};
pub use files::{Child, Directory, Files, check_memory_files, read_files};
pub use image::{Blobs, MemoryBlobs};
pub use json::parse as parse_json;
pub use limits::Limits;
pub use members::Member;
pub use read::{Found, Take, read_archive};
pub use stream::Compression;
pub use write::{ArchiveWriter, ImageWriter, Layer};
