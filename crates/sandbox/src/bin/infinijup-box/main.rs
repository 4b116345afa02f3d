//! `infinijup-box`: the helper that lives in other namespaces and with other credentials than the daemon.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    sandbox::roles::main()
}
