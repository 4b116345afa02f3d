//! What the helper program does, one module a role.

use std::process::ExitCode;

/// The program's `main`.
pub fn main() -> ExitCode {
    ExitCode::FAILURE
}
