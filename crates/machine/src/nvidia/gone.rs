//! Workers of earlier daemons that hang in the driver.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandbox::process::Identity;

/// How long a worker of an earlier daemon may still be in a call. It ends by itself when the call does.
const WORKER_LIMIT: Duration = Duration::from_secs(120);

/// Workers that were waited for in vain: one that hangs is waited for once, not once for each session.
#[derive(Default, Debug)]
pub(super) struct Gone {
    hang: Mutex<BTreeSet<Identity>>,
}

impl Gone {
    pub(super) fn wait(&self, worker: Identity) {
        let hangs = || self.hang.lock().unwrap_or_else(PoisonError::into_inner);
        if hangs().contains(&worker) || !worker.is_alive() {
            return;
        }
        if !worker.wait_gone(WORKER_LIMIT) {
            hangs().insert(worker);
        }
    }
}
