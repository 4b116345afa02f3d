//! The longest time that a kernel was not able to run, as a thread inside of it sees it.

use std::path::Path;

use anyhow::{Context, Result};

use crate::live::Client;

/// A cell: a thread of the kernel keeps the longest time that it was not able to run.
pub(crate) const WATCH: &str = "
import threading, time
gap = 0.0
def watch():
    global gap
    last = time.perf_counter()
    while True:
        time.sleep(0.0005)
        now = time.perf_counter()
        if now - last > gap:
            gap = now - last
        last = now
threading.Thread(target=watch, daemon=True).start()
";

/// The longest gap while something is done to a kernel that runs [`WATCH`], in seconds.
pub(crate) fn longest_gap(
    client: &mut Client,
    file: &Path,
    work: impl FnOnce() -> Result<()>,
) -> Result<f64> {
    client.ask(file, "gap = 0.0", "gap")?;
    work()?;
    client.ask(file, "", "gap")?.parse().context("the kernel's gap is not a number")
}
