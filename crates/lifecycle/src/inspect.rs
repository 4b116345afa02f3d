//! Looking without touching: what this machine can do, and where things are.

use std::path::PathBuf;

use doctor::Finding;

use crate::engine::Engine;
use crate::error::LifecycleError;

impl Engine {
    /// What this machine can and cannot do, with what `trial` says as the last item.
    pub fn doctor(&self, trial: &mut dyn FnMut() -> Result<String, String>) -> Vec<Finding> {
        self.inner.ports.doctor.examine(trial)
    }

    /// Why nothing can be snapshotted or restored here, if that is so.
    pub fn unable(&self) -> Option<LifecycleError> {
        self.checkpointer().ready().err()
    }

    /// Where the store is.
    pub fn store_directory(&self) -> PathBuf {
        self.inner.place.store()
    }

    /// Where the sessions have what is their own.
    pub fn sessions_directory(&self) -> PathBuf {
        self.inner.place.sessions()
    }

    /// CRIU's version, if there is one.
    pub fn criu_version(&self) -> Option<String> {
        self.checkpointer().version()
    }
}
