//! System calls that safe Rust cannot make: mappings, and copies between processes.
pub(crate) mod block;
pub(crate) mod region;
pub(crate) mod reserve;
