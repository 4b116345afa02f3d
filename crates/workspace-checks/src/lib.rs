//! The rules of this repository that no compiler knows, as functions that list what breaks them.
//!
//! Each module holds one rule and its unit tests, which show that the rule can be broken. `tests/repository.rs` applies
//! all of them to the repository as it is. A finding is one line for a person: what is wrong, where, and what to do.
#![forbid(unsafe_code)]

pub mod arrows;
pub mod circles;
mod code;
pub mod errors;
pub mod files;
pub mod links;
pub mod manifests;
pub mod metadata;
mod modules;
pub mod programs;
pub mod sizes;
pub mod unsafe_code;
