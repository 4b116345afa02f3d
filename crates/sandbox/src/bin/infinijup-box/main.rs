//! The small program that stands inside a session.
#![forbid(unsafe_code)]

fn main() {}
