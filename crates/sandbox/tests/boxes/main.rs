//! Real boxes: they need root, and say so where they have to be skipped.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "clippy.toml allows these in #[test] functions only, not in their helpers"
)]

mod common;
mod criu;
mod devices;
mod inside;
mod network;
