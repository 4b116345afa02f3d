//! How much of the disk is taken, and what a full one must not prevent.

use cas_core::progress::Silent;
use staging::{allowed, disk_free, is_full};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};

impl Engine {
    /// Refuses if the store has used its budget up.
    pub fn within_budget(&self) -> Result<()> {
        self.inner.reserve.fill();
        let (used, budget) = self.room()?;
        if used < budget {
            return Ok(());
        }
        let store = self.inner.store.open()?;
        if store.forgotten_and_there()? > 0 {
            store.gc(&Silent)?;
        }
        self.inner.used.forget();
        let (used, budget) = self.room()?;
        let store = self.inner.place.store();
        if used < budget { Ok(()) } else { Err(LifecycleError::OverBudget { store, used, budget }) }
    }

    /// What the store takes, or did a moment ago, and what it may take.
    pub fn room(&self) -> Result<(u64, u64)> {
        let used = self.inner.used.bytes(&self.inner.place.store());
        Ok((used, allowed(self.inner.config.store_budget, used, disk_free(&self.inner.place.state)?)))
    }

    /// Does something that a full disk must not prevent. If it fails for want of room, it is done once more with the reserve.
    pub fn with_reserve<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        let wants_room =
            |error: &LifecycleError| matches!(error, LifecycleError::NoRoom { .. }) || is_full(error);
        match work() {
            Err(error) if wants_room(&error) && self.inner.reserve.release() => work(),
            done => done,
        }
    }
}
