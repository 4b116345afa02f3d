//! The engine with the stand-in driver: real processes, real worker, real library calls; only the GPU is not there.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

mod activation;
mod attacks;
mod client;
mod cycle;
mod faults;
mod frozen;
mod levels;
mod machine;
mod storage;
mod user;
