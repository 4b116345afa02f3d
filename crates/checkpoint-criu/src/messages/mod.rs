//! CRIU's messages: those of its RPC, and those in its images. Made from the descriptions in `proto/`, and not to be changed by hand
//! (CONTRIBUTING.md); a test holds that they fit each other.
//!
//! They have the fields that we use and no others, so what is decoded and encoded again has lost something. Who changes images
//! changes them on wire level (`images/rewrite.rs`).

#![expect(unreachable_pub, reason = "generated: everything is public")]

#[rustfmt::skip]
pub(crate) mod files;
#[rustfmt::skip]
pub(crate) mod memory;
#[rustfmt::skip]
pub(crate) mod mounts;
#[rustfmt::skip]
pub(crate) mod process;
#[rustfmt::skip]
pub(crate) mod rpc;
#[rustfmt::skip]
pub(crate) mod sockets;
