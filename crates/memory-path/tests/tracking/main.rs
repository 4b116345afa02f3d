//! The memory of real processes, followed with the rights of an ordinary user.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "clippy.toml allows these in #[test] functions only, not in their helpers"
)]

mod ahead;
mod assembled;
mod back;
mod common;
mod criu;
mod injector;
mod standing;
mod stress;
mod tracker;
