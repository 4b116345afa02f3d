//! Snapshots in the form that others have: checkpoint archives of containers.
//!
//! What such an archive *is* stands in the crate `checkpoint-archive`; here it becomes a snapshot (`incoming`), and a snapshot becomes one
//! (`outgoing`). CRIU's images go the way that they always go, so that memory is shared with every other snapshot. Files become trees. What the
//! archive says about its container is kept as it stood, in a section that nothing restores from.
//!
//! An archive from elsewhere is a foreign program: it gets no seal.

mod incoming;
mod outgoing;
mod spool;
#[cfg(test)]
mod tests;
mod trees;

pub use incoming::{ArchiveIn, Arrived};
pub use outgoing::{ArchiveForm, ArchiveOut, Written};
