//! Whose the processes in the images of a session are, before CRIU is asked to make them.
//!
//! In a box CRIU cannot give a process another user, a group or a capability, because it has none to give. But it finds that out in the
//! last moment, thread by thread, when it can no longer go back: a process with several threads stays half made, and CRIU waits for it for
//! ever. So images that ask for it are refused first.

use std::path::Path;

use checkpoint_criu::images::Images;
use lifecycle::{LifecycleError, Result};
use verdict::fault;

/// More are not worth reading.
const MOST: usize = 10;

/// Refuses images with processes that are not of this user and group, as the box numbers them, or have a capability.
pub(crate) fn check(images: &Path, (uid, gid): (u32, u32)) -> Result<()> {
    let images = Images::open(images)?;
    let mut findings = Vec::new();
    for process in images.pstree()? {
        for thread in process.threads {
            // A zombie has no such image; what else is missing is CRIU's to complain about.
            let Ok(core) = images.core(thread) else { continue };
            let found = core.thread.and_then(|thread| thread.credentials);
            if let Some(fault) = found.and_then(|found| fault(&found, uid, gid)) {
                findings.push(format!("thread {thread} of process {} {fault}", process.pid));
            }
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    findings.truncate(MOST);
    Err(LifecycleError::Untrusted { uid, findings })
}
