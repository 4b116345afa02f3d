//! How much of the disk is taken, and what a full one must not prevent.

use cas_core::progress::Silent;
use staging::disk_free;

use crate::budget::allowed;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::reserve::is_full;

impl Engine {
    /// Refuses if the store has used its budget up.
    pub fn within_budget(&self) -> Result<()> {
        self.inner.reserve.fill();
        let root = self.inner.place.store();
        let look = || -> Result<(u64, u64)> {
            let used = self.inner.used.bytes(&root);
            Ok((used, allowed(self.inner.config.store_budget, used, disk_free(&self.inner.place.state)?)))
        };
        let (used, budget) = look()?;
        if used < budget {
            return Ok(());
        }
        let store = self.inner.store.open()?;
        if store.forgotten_and_there()? > 0 {
            store.gc(&Silent)?;
        }
        self.inner.used.forget();
        let (used, budget) = look()?;
        if used < budget { Ok(()) } else { Err(LifecycleError::OverBudget { store: root, used, budget }) }
    }

    /// Does something that a full disk must not prevent. If it fails for want of room, it is done once more with the reserve.
    pub fn with_reserve<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        match work() {
            Err(error) if is_full(&error) && self.inner.reserve.release() => work(),
            done => done,
        }
    }
}
