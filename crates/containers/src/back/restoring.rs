//! What all runtimes are told and say about a restore.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use base::io_error;

use super::error::{BackError, Result};
use super::runc_state::DESCRIPTORS;

/// How much of a log is worth telling.
const SAID: u64 = 4096;
/// The first error of CRIU's log is looked for in so much of it.
const LOG: u64 = 4 << 20;

/// What a restore needs.
#[derive(Clone, Copy, Debug)]
pub struct Restore<'a> {
    /// Where the specification is that the container has now.
    pub bundle: &'a Path,
    /// The images.
    pub images: &'a Path,
    /// Where logs go: a directory of ours.
    pub work: &'a Path,
    /// The CRIU that a runtime is to use that we start ourselves.
    pub criu: &'a Path,
    /// A directory of ours for the program `criu` that it finds.
    pub programs: &'a Path,
    /// Whether file locks are taken again.
    pub file_locks: bool,
    /// What the container says to pipes goes there.
    pub log: &'a Path,
    /// The runtime is ended after this time.
    pub limit: Duration,
}

/// What the standard descriptors of the first process were.
pub(super) fn descriptors(images: &Path) -> Result<Vec<String>> {
    let path = images.join(DESCRIPTORS);
    let text = fs::read(&path).map_err(io_error("read", &path))?;
    serde_json::from_slice(&text).map_err(|error| BackError::State { path, why: error.to_string() })
}

/// The beginning of a log. One that cannot be read says nothing.
pub(super) fn beginning(path: &Path) -> String {
    some_of(path, SAID)
}

/// The first line of CRIU's log that says what is wrong.
pub(super) fn first_error(path: &Path) -> String {
    let text = some_of(path, LOG);
    // It says so whenever it may not raise its own limit, and goes on.
    let matters = |line: &&str| line.contains("Error (") && !line.contains("RLIMIT_NOFILE");
    text.lines().find(matters).map(|line| format!(" [CRIU: {line}]")).unwrap_or_default()
}

fn some_of(path: &Path, most: u64) -> String {
    let mut text = Vec::new();
    let _nothing = File::open(path).map(|file| file.take(most).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}
