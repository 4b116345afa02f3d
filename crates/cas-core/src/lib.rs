//! The store that everything else trusts: content-addressed, append-only, crash-safe.
#![forbid(unsafe_code)]

pub mod error;
pub mod id;
pub mod progress;

pub use error::{Class, Result, StoreError};
pub use id::{IdHasher, Kind, ObjectId, PackId};
