//! Setting free what a dump that died has left stopped.

use std::time::Duration;

use crate::error::{CriuError, Result};
use crate::process;

/// Lets every process of the tree below `pid` run again that a dead dump has left stopped: a frozen cgroup is thawed, all
/// processes are continued. Harmless for a tree that runs (one with a handler for `SIGCONT` has it called) or is gone; a process that
/// its user has stopped goes on, too, because nothing tells it from one that a dump has stopped.
pub fn release(pid: i32) -> Result<()> {
    process::thaw(pid);
    if process::set_going(pid, Duration::from_secs(5)) {
        return Ok(());
    }
    let stopped: Vec<String> =
        process::tree(pid).iter().filter(|stat| stat.is_stopped()).map(|stat| stat.pid.to_string()).collect();
    Err(CriuError::Stopped { pid, stopped })
}
