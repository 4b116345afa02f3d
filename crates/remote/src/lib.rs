//! Snapshots in object stores: push, fetch, verify, collect.
//!
//! A [`Remote`] is a part of a bucket and the local store that uses it. There is no server of ours: immutable packs and index segments,
//! and a few small objects that are changed by conditional put. `docs/format-remote.md` describes the objects, and the order in which
//! they are written and deleted, on which everything rests.
//!
//! The crate knows bytes and refs. What a commit is, the layers above say through [`cas_core::reach::References`].
#![forbid(unsafe_code)]

mod bucket;
mod census;
mod chosen;
#[cfg(feature = "s3")]
mod credentials;
mod error;
mod fetch;
mod gc;
mod group;
mod holds;
mod index;
mod keys;
mod last;
mod lease;
mod names;
mod offer;
mod parallel;
mod publish;
mod push;
mod read;
mod refs;
mod remote;
mod rewrite;
mod root;
mod stat;
#[cfg(test)]
mod tests;
#[cfg(feature = "s3")]
mod through;
mod token;
mod turn;
mod verify;
mod walk;

#[cfg(feature = "s3")]
pub use bucket::ObjectStoreBucket;
pub use bucket::{Address, Condition, Limited, Listed, Objects, Patience, Put, Version, probe};
pub use error::{RemoteError, Result};
pub use fetch::{FetchOptions, FetchReport, Fetched, HistoryOnly, Movement};
pub use gc::{GcOptions, GcReport};
pub use index::{IndexEntry, SegmentRef, ShortId, Tail};
pub use keys::{is_sealed, unlock};
pub use last::{LastPush, PushFailure};
pub use lease::LEASE_TIME;
pub use names::Named;
pub use publish::Published;
pub use push::{PushReport, Pushed};
pub use remote::{Introduction, Remote, View};
pub use stat::Stat;
#[cfg(feature = "s3")]
pub use through::ReadThrough;
pub use token::Token;
pub use verify::{Depth, VerifyReport};
