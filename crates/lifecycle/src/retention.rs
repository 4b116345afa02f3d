//! Automatic snapshots go by themselves, as a session's policy says.
//!
//! Which of them go is a rule of `policy`'s; here is when it is applied.

use cas_core::progress::Silent;
use policy::retention::surplus;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::forget::ForgetOutcome;
use crate::record::SessionId;

/// How many forgotten snapshots wait in the store before gc is worth its while.
const WAITING: usize = 32;

impl Engine {
    /// After something was done by a session's policy: [`Engine::retain`], and gc when enough waits for it.
    pub fn tidy(&self, session: &SessionId) -> Result<ForgetOutcome> {
        let outcome = self.retain(session)?;
        if !outcome.forgotten.is_empty() {
            let store = self.inner.store.open()?;
            if store.forgotten_and_there()? >= WAITING {
                store.gc(&Silent)?;
            }
        }
        Ok(outcome)
    }

    /// Forgets the automatic snapshots that the session's policy does not keep. What a gc frees afterwards is not freed here.
    pub fn retain(&self, session: &SessionId) -> Result<ForgetOutcome> {
        let record = self.records().get(session).cloned();
        let record = record.ok_or_else(|| LifecycleError::NoSuchSession { which: session.to_string() })?;
        let (Some(keep), Some(head)) = (record.notes.policy.keep, record.head_id()?) else {
            return Ok(ForgetOutcome::default());
        };
        let store = self.inner.store.open()?;
        let surplus = surplus(&store.automatic(&record.thread, head)?, keep);
        if surplus.is_empty() {
            return Ok(ForgetOutcome::default());
        }
        self.forget_now(&store, &surplus, false)
    }
}
