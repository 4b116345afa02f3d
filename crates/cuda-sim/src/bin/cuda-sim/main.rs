//! `cuda-sim`: the device server, and what tests need to work with it.
#![forbid(unsafe_code)]

fn main() {}
