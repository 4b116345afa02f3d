//! How much of the disk is taken, and what a full one must not prevent.

use std::io;

use cas_core::progress::Silent;
use staging::{allowed, disk_free};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};

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

/// Whether there was no room on a disk.
fn is_full(error: &LifecycleError) -> bool {
    let full = |error: &(dyn std::error::Error + 'static)| {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    };
    matches!(error, LifecycleError::NoRoom { .. })
        || std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source())
            .any(full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::io_error;

    #[test]
    fn what_a_full_disk_says_is_understood_however_deep() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(is_full(&io_error("write", "/x")(kind).into()));
            let deep = cas_core::StoreError::io("write", "/x")(kind.into());
            assert!(is_full(&LifecycleError::from(deep)));
        }
        assert!(!is_full(&io_error("write", "/x")(io::ErrorKind::PermissionDenied).into()));
    }
}
