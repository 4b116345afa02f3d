//! Sleep: a session's processes end and free what they held; and its return.

use std::sync::Arc;

use api::{
    ResumeRequest, RollbackRequest, SessionState, SessionView, SnapshotRequest, SuspendOutcome,
    SuspendRequest,
};
use checkpoint_criu::Leave;
use history::along;
use sandbox::process::memory_of;
use session_record::Record;
use session_record::words::gpu_wish;

use crate::ending::TO_SLEEP;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::gpu::Wanted;
use crate::pipeline::{Pipeline, Work};
use crate::restoring::RESTORING;
use crate::snapshot::STOP_AND_KEEP;
use crate::steps::{Steps, Watch};
use crate::swap::{Going, Safe, Swap, Taking, Why};
use session_record::locks::Doing;

/// Stopped, kept, ended.
pub(crate) const SUSPEND: Pipeline<Swap> = &[STOP_AND_KEEP, TO_SLEEP];

/// What a session without processes becomes.
pub(crate) const RESUME: Pipeline<Swap> = &[RESTORING];

impl Engine {
    /// Takes a snapshot of a session and ends its processes.
    pub fn suspend(
        &self,
        which: &str,
        request: &SuspendRequest,
        watch: &dyn Watch,
    ) -> Result<SuspendOutcome> {
        let request = SnapshotRequest::from(request.clone());
        along::check(&request)?;
        let reason = along::reason_of_suspend(request.reason.as_deref())?;
        let (_held, mut record) = self.hold(which, Doing::Suspend)?;
        let init = record.living_init("be suspended")?;
        let policy = record.files_wanted(request.files.as_ref(), &self.habitat(&record).places(&record))?;
        self.mend(&mut record)?;
        let freed_bytes = memory_of(init.pid).unwrap_or(0);
        let variables = self.variables_now(&record, &request);
        let why = Why { reason, request, variables };
        let parent = self.parent_files(&self.inner.store.open()?, &record)?;
        let taking = Taking::new(Leave::Stopped, policy, parent, why);
        let mut swap = Swap { taking: Some(taking), ..Swap::default() };
        let mut work = Work::new(self, &mut record, Steps::new(watch));
        let done = work.run(SUSPEND, &mut swap);
        let steps = work.steps.timings();
        self.looked_after(&record, done)?;
        let kept = swap.taking.and_then(|taking| taking.kept);
        let Some(kept) = kept else {
            return Err(LifecycleError::Bug("a session was suspended without a snapshot".to_owned()));
        };
        let commit = kept.commit.to_string();
        Ok(SuspendOutcome { commit, freed_bytes, freed_vram_bytes: kept.outcome.vram_bytes, steps })
    }

    /// What became of an operation that may have stopped a session. If it runs, it is looked after again.
    pub(crate) fn looked_after(&self, record: &Record, done: Result<()>) -> Result<()> {
        if done.is_err() && record.state == SessionState::Running {
            self.running(record);
        }
        done
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
        let aim = self.aim(&record, &store, head, 1, request.force, &mut steps)?;
        let back = RollbackRequest { force: request.force, ..RollbackRequest::to(head.to_string()) };
        let files = steps.run("check files", || self.plan_files(&record, &store, &aim, &back))?;
        let wish = request.gpus.clone().map(gpu_wish);
        let wanted = Wanted { wish: wish.as_ref(), force: request.force, ends: None };
        let placed = self.place_gpus(&record, &head.short(), aim.gpu.as_ref(), wanted)?;
        let mut swap = Swap {
            safe: Some(Safe { commit: head, files: Some(Arc::clone(&aim.files)) }),
            going: Some(Going::to(aim, placed, true, &files)),
            ..Swap::default()
        };
        Work::new(self, &mut record, steps).run(RESUME, &mut swap)?;
        self.kernel_restored(&record, &head.to_string(), None);
        Ok(self.view(&record))
    }
}
