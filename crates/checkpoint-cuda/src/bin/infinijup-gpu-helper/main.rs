//! `infinijup-gpu-helper`: makes one of the driver's checkpoint calls as root, for the owner of the process that it is about.
//!
//! Started by systemd for each connection to `/run/infinijup-gpu.sock`, with the connection as its standard input. It has no
//! options and reads no environment. `infinijup setup-gpu` installs it; docs/gpu-helper.md is for administrators.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use checkpoint_cuda::helper::serve_one;
use nix::sys::signal::{SigSet, Signal};

fn main() -> ExitCode {
    // A call that has begun is brought to its end: a caller of the driver that dies in mid-call leaves the target out of step.
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    let ready = signals.thread_block().is_ok();
    if ready && serve_one(io::stdin().as_fd()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
