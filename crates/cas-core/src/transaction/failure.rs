//! How the threads of a write transaction learn that one of them has failed.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Result, StoreError};

/// What went wrong first. Told in full once, and in short to everybody after.
#[derive(Clone, Debug, Default)]
pub(super) struct Failure(Arc<Mutex<Option<StoreError>>>);

impl Failure {
    pub(super) fn set(&self, error: StoreError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub(super) fn check(&self) -> Result<()> {
        let mut failure = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(error) = failure.take() else { return Ok(()) };
        *failure = Some(error.transaction_failed());
        Err(error)
    }
}
