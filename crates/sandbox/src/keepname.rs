//! The library by which mapped files in `/dev/shm` keep a name: `keepname.c` says why.
//!
//! It is a file that processes of a session have mapped, so it belongs to every snapshot, as `infinijup-box` does: it lies beside
//! the copy of the program that boxes run from, and never changes there.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Its name beside the program.
pub const KEEPNAME_FILE: &str = "keepname.so";

/// The library itself.
pub const KEEPNAME: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepname.so"));

const PRELOAD: &str = "LD_PRELOAD";

/// Has the command load it, before what its environment names already.
pub(crate) fn preload(command: &mut Command, program: &Path) {
    let library = program.with_file_name(KEEPNAME_FILE);
    if !library.is_file() {
        return;
    }
    let mut value = OsString::from(library);
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    command.env(PRELOAD, value);
}
