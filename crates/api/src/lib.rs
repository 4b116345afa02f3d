//! The wire between the daemon and its clients.
#![forbid(unsafe_code)]
