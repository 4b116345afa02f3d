//! The end of processes, for certain.

use std::time::Duration;

use rustix::process::Signal;
use sandbox::process::Identity;

use crate::error::{LifecycleError, Result};
use crate::record::SessionId;

/// How long a process may take to be gone after SIGKILL. The kernel frees its memory in that time.
pub(super) const KILL_LIMIT: Duration = Duration::from_secs(60);

/// Ends these, and waits until they are gone.
pub(super) fn end_all(id: &SessionId, doomed: &[Identity]) -> Result<()> {
    for one in doomed {
        // One that is gone already needs no signal.
        let _gone = one.signal(Signal::KILL);
    }
    for one in doomed {
        if !one.wait_gone(KILL_LIMIT) {
            return Err(LifecycleError::Bug(format!(
                "process {} of session {id} did not end after SIGKILL",
                one.pid
            )));
        }
    }
    Ok(())
}
