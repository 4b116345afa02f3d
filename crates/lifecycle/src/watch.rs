//! Looking after what runs: the end of sessions that nobody ended.
//!
//! The first process of each session is watched through a pidfd, which the kernel makes readable when the process has ended,
//! whoever its parent is; so sessions that a daemon before us started are watched in the same way. A session that is in the
//! middle of an operation is left to the operation.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use sandbox::process::Identity;
use sandbox::{Ended, OrphanReaper};

use crate::error::{Result, io_error};

/// Who is told when the first process of a session has ended. The waiting itself, on pidfds, and the reaping of what
/// becomes our child are the sandbox's business.
pub(crate) struct Watcher {
    reaper: OrphanReaper,
    ends: Mutex<Option<Receiver<Ended>>>,
}

/// How long a child that somebody here started keeps its status for them.
const PATIENCE: Duration = Duration::from_secs(600);

impl Watcher {
    /// From here on, processes whose parent ends become children of ours.
    pub(crate) fn start() -> Result<Self> {
        let (send, receive) = channel();
        Ok(Self { reaper: OrphanReaper::start(PATIENCE, send)?, ends: Mutex::new(Some(receive)) })
    }

    /// Hands ends on, on a thread of its own, until `tell` says that nobody cares any more.
    pub(crate) fn report_to(&self, tell: impl Fn(Identity) -> bool + Send + 'static) -> Result<()> {
        let Some(ends) = self.ends.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        Ok(thread::Builder::new()
            .name("watcher".to_owned())
            .spawn(move || while ends.recv().is_ok_and(|ended| tell(ended.identity)) {})
            .map(drop)
            .map_err(io_error("start a thread for", "the watcher"))?)
    }

    /// Tells when this process ends. One that has ended already is told at once.
    pub(crate) fn look_after(&self, init: Identity) -> Result<()> {
        Ok(self.reaper.watch(init)?)
    }
}
