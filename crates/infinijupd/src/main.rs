//! The daemon `infinijupd`.
#![forbid(unsafe_code)]

fn main() {}
