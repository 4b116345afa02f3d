//! Signals for a session's main command.
//!
//! No hold is taken: an interrupt must reach a kernel also while a snapshot of it is being stored. What exchanges the
//! processes is another matter. Then it is not known whom the signal would reach, and the caller is told what is under way.

use api::SignalRequest;
use rustix::process::Signal;
use sandbox::SandboxError;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};

impl Engine {
    /// Sends a signal to the main command of a session or to its process group.
    pub fn signal(&self, which: &str, request: SignalRequest) -> Result<()> {
        let signal = request.signal.number();
        let signal = Signal::from_named_raw(signal).ok_or_else(|| LifecycleError::BadRequest {
            detail: format!("{signal} is not the number of a signal that can be sent"),
        })?;
        let record = self.find(which)?;
        if let Some(doing) = self.inner.locks.doing(&record.id)
            && doing.exchanges_processes()
        {
            return Err(LifecycleError::Busy { session: record.name, doing: doing.phrase() });
        }
        let init = record.living_init("be signalled")?;
        match self.habitat(&record).signal(init, signal, request.group) {
            // It has just ended, and its record does not say so yet.
            Err(LifecycleError::Sandbox(SandboxError::Gone { .. })) => Err(LifecycleError::WrongState {
                session: record.name,
                state: "ended",
                action: "be signalled",
            }),
            sent => sent,
        }
    }
}
