//! Device memory that goes past its process: into files, and from these into the store while they grow.
//!
//! The driver's worker writes the files ([`checkpoint_cuda::Beside`]); whoever stores them is told of each when it is there. From the end of the
//! checkpoint until the processes have their memory back, or have ended with their state durable, the files are the only copy of it. They
//! lie in the session's own directory, where the next daemon finds them, and are removed by nobody else than those who know this.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use checkpoint_cuda::Beside;
use lifecycle::ports::{DevicePart, GpuPlan, Storing};
use lifecycle::{LifecycleError, Result};

/// How soon to look again for files that are not there yet.
const AGAIN: Duration = Duration::from_millis(2);

/// Does `checkpoint`, and tells `storing` of the files that it makes as they come. What is told last is that all are whole.
pub(super) fn follow<T>(
    storing: &Storing,
    plan: &GpuPlan,
    checkpoint: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| tell_of_all(storing, plan, &over));
        let done = checkpoint();
        over.store(true, Ordering::Release);
        let told = watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let done = done?;
        told.map_err(LifecycleError::Bug)?;
        storing.is_whole();
        Ok(done)
    })
}

/// Processes are taken off one after the other, in the order of the plan.
fn tell_of_all(storing: &Storing, plan: &GpuPlan, over: &AtomicBool) -> std::result::Result<(), String> {
    for process in &plan.section.processes {
        let beside = Beside::of(storing.directory(), process.pid);
        let parts = loop {
            // Asked before the look: what was done then is there.
            let last = over.load(Ordering::Acquire);
            match beside.parts().map_err(|error| error.to_string())? {
                Some(parts) => break parts,
                None if last => return Err(format!("process {} left no device memory behind", process.pid)),
                None => thread::sleep(AGAIN),
            }
        };
        for part in parts {
            let (gpu, file) = (part.gpu.to_string(), beside.file(part.gpu));
            let told = storing.comes(DevicePart { pid: process.pid, gpu, bytes: part.bytes, file });
            told.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Makes room for the files of these processes, all of which run: what an earlier operation left there is of no use any more.
pub(super) fn clear(directory: &Path, plan: &GpuPlan) {
    for process in &plan.section.processes {
        remove(Beside::of(directory, process.pid).directory());
    }
}

/// Nobody needs them any more. What cannot be removed is removed with the session.
pub(super) fn remove(directory: &Path) {
    let _left = fs::remove_dir_all(directory);
}
