//! The end of processes, for certain, and what all habitats do with the control group of a session.

use std::time::Duration;

use lifecycle::{LifecycleError, Result, SessionId};
use rustix::process::Signal;
use sandbox::Cgroup;
use sandbox::process::Identity;

/// How long a process may take to be gone after SIGKILL. The kernel frees its memory in that time.
const KILL_LIMIT: Duration = Duration::from_secs(60);

/// Ends these and whatever is in the session's control group, and waits until they are gone.
pub(super) fn end_all(id: &SessionId, doomed: &[Identity]) -> Result<()> {
    end_boxes(id, doomed)?;
    if let Some(cgroup) = Cgroup::open(id.as_str())? {
        cgroup.kill(KILL_LIMIT)?;
    }
    Ok(())
}

/// Ends these and what ends with them, and waits until they are gone.
pub(super) fn end_boxes(id: &SessionId, doomed: &[Identity]) -> Result<()> {
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

/// Thaws what somebody froze.
pub(super) fn thaw_group(id: &SessionId) {
    if let Ok(Some(cgroup)) = Cgroup::open(id.as_str()) {
        let _not_frozen = cgroup.thaw();
    }
}

/// Removes the control group, which nobody is in any more.
pub(super) fn remove_group(id: &SessionId) -> Result<()> {
    remove_group_named(id.as_str())
}

/// The same for one with another name.
pub(super) fn remove_group_named(name: &str) -> Result<()> {
    match Cgroup::open(name)? {
        Some(cgroup) => Ok(cgroup.remove()?),
        None => Ok(()),
    }
}
