//! The daemon.
#![forbid(unsafe_code)]
