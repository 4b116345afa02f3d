//! Real boxes of an ordinary user. The tests need root to become that user, and say so where they have to be skipped.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "clippy.toml allows these in #[test] functions only, not in their helpers"
)]

mod common;
mod criu;
mod devices;
mod exec;
mod inside;
mod network;
mod start;
