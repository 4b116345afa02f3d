//! `infinijup-gpu`: makes the driver's calls for the daemon, one process away from it.
#![forbid(unsafe_code)]

fn main() {}
