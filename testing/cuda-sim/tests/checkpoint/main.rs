//! The checkpoint calls on live processes, with a real CRIU, and every way in which they are to fail.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking, and say what they skip"
)]

mod errors;
mod faults;
mod frozen;
mod program;
mod round;
mod world;
