//! What a benchmark is told: where, how large, how often.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// One invocation.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Everything is made below this directory.
    pub(crate) dir: PathBuf,
    /// Length of image A in bytes.
    pub(crate) len: u64,
    /// What was asked for as a size, for benchmarks that have one of another kind.
    pub(crate) size_mib: Option<u64>,
    /// How often each contender runs.
    pub(crate) rounds: usize,
    /// Makes the image.
    pub(crate) seed: u64,
    /// Small sizes and loose bars of speed.
    pub(crate) smoke: bool,
    /// Nothing on standard output but the result.
    pub(crate) json_only: bool,
}

impl Run {
    /// Images are kept from run to run: making them takes longer than some benchmarks.
    pub(crate) fn images(&self) -> Result<PathBuf> {
        self.below("images")
    }

    /// Stores and repositories come and go here.
    pub(crate) fn work(&self) -> Result<PathBuf> {
        self.below("work")
    }

    fn below(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    /// The memory of the largest kernel, for benchmarks that have several.
    pub(crate) fn largest_kernel_mib(&self) -> u64 {
        self.size_mib.unwrap_or(if self.smoke { 256 } else { 8192 })
    }

    /// A line for people.
    pub(crate) fn say(&self, line: &str) {
        if !self.json_only {
            // Nobody is listening any more: the benchmark goes on, its result will fail to print.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }
}
