//! Sleep: a session's processes end and free what they held; and its return.

use crate::along;
use crate::engine::{Engine, memory_of};
use crate::error::{LifecycleError, Result};
use crate::gpu::Wanted;
use crate::journal::Phase;
use crate::locks::Doing;
use crate::record::SessionState;
use crate::request::{ResumeRequest, RollbackRequest, SuspendRequest};
use crate::rollback::{Safe, To};
use crate::snapshot::Why;
use crate::steps::{Steps, Watch};
use crate::view::{SessionView, SuspendOutcome};

impl Engine {
    /// Takes a snapshot of a session and ends its processes.
    pub fn suspend(
        &self,
        which: &str,
        request: &SuspendRequest,
        watch: &dyn Watch,
    ) -> Result<SuspendOutcome> {
        along::check_message(&request.message)?;
        request.along.check()?;
        let reason = along::reason_of_suspend(request.reason.as_deref())?;
        let (_held, mut record) = self.hold(which, Doing::Suspend)?;
        let mut steps = Steps::new(watch);
        let init = record.living_init("be suspended")?;
        self.mend(&mut record)?;
        let store = self.inner.store.open()?;
        let freed_bytes = memory_of(init.pid).unwrap_or(0);
        let variables = self.variables_now(&record, &request.along);
        let (message, along) = (request.message.as_str(), &request.along);
        let why = Why { reason, message, tag: None, along, variables };
        let (entry, stopped, kept) = self.stop_and_keep(&mut record, &store, &[], &why, &mut steps)?;
        let phase = Phase::Ending { safe: kept.commit.to_string(), then: None, files: true };
        steps.run("end the processes", || stopped.end(self, &record, &entry, &phase))?;
        self.set_down(&mut record, SessionState::Suspended)?;
        entry.done()?;
        Ok(SuspendOutcome {
            commit: kept.commit,
            freed_bytes,
            freed_vram_bytes: kept.vram_bytes,
            steps: steps.timings(),
        })
    }

    /// Brings a session back from its newest snapshot.
    pub fn resume(&self, which: &str, request: &ResumeRequest, watch: &dyn Watch) -> Result<SessionView> {
        let (_held, mut record) = self.hold(which, Doing::Resume)?;
        let mut steps = Steps::new(watch);
        let wrong = |action| LifecycleError::WrongState {
            session: record.name.clone(),
            state: record.state.as_str(),
            action,
        };
        if record.state == SessionState::Running && record.gpu_trouble.is_some() {
            // Its processes are there and only its work on the GPU is not: that is what is brought back.
            steps.run("restore the GPU", || self.mend(&mut record))?;
            return Ok(self.view(&record));
        }
        if matches!(record.state, SessionState::Running | SessionState::Starting) {
            return Err(wrong("be resumed"));
        }
        let Some(head) = record.head_id()? else {
            return Err(wrong("be resumed: it was never snapshotted"));
        };
        let store = self.inner.store.open()?;
        let aim = self.aim(&record, &store, head, request.force, &mut steps)?;
        let back = RollbackRequest { force: request.force, ..RollbackRequest::to(head.to_string()) };
        steps.run("check files", || self.plan_files(&record, &store, &aim, &back))?;
        let wanted = Wanted { wish: request.gpus.as_ref(), force: request.force, ends: None };
        let placed = self.place_gpus(&record, &head.short(), aim.gpu.as_ref(), wanted)?;
        let safe = Safe { commit: head, files: aim.files.clone() };
        let phase = Phase::Restoring { commit: head.to_string(), safe: head.to_string(), files: true };
        let entry = self.inner.journal.begin(&record.id, &phase)?;
        let to = To { aim: &aim, placed };
        self.bring_up(&mut record, &store, to, &safe, true, entry, &mut steps)?;
        self.kernel_restored(&record, &head.to_string(), None);
        Ok(self.view(&record))
    }
}
