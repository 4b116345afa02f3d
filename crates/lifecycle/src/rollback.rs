//! The way back: a session's processes and files become what they were at a snapshot.
//!
//! Everything that could fail is tried first, with the old processes running. They are then stopped and snapshotted, and
//! ended only when that automatic snapshot is durable. If the restore fails after that, the automatic snapshot is brought
//! up again; if even that fails, the session is suspended at it. History only grows: a rollback is a commit with two
//! parents, the state that was left and the one that was gone back to.

use std::collections::BTreeSet;

use api::{RollbackOutcome, RollbackRequest, SessionState, SnapshotRequest};
use base::explain;
use checkpoint_criu::Leave;
use history::{UserStore, along};
use manifest::CommitReason;
use session_record::Record;
use workspace::{Plan, PutBack};

use crate::ending::TO_GO_BACK;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::gpu::Wanted;
use crate::pipeline::{Pipeline, Work};
use crate::restore::Aim;
use crate::restoring::RESTORING;
use crate::snapshot::STOP_AND_KEEP;
use crate::steps::{Steps, Watch};
use crate::suspend::RESUME;
use crate::swap::{Going, Safe, Swap, Taking, Why};
use session_record::events::EventKind;
use session_record::locks::Doing;

/// Stopped, kept, ended; and then what it was, or what it had been a moment before.
pub(crate) const ROLLBACK: Pipeline<Swap> = &[STOP_AND_KEEP, TO_GO_BACK, RESTORING];

impl Engine {
    /// Puts a session back to a snapshot.
    pub fn rollback(
        &self,
        which: &str,
        request: &RollbackRequest,
        watch: &dyn Watch,
    ) -> Result<RollbackOutcome> {
        let left = SnapshotRequest { notebook: request.notebook.clone(), ..SnapshotRequest::default() };
        along::check(&left)?;
        let (_held, mut record) = self.hold(which, Doing::Rollback)?;
        match self.go_back(&mut record, request, &left, watch) {
            // What is to be left ended by itself: there is nothing any more to be stopped and kept.
            Err(error) if self.has_ended_meanwhile(&mut record, &error)? => {
                self.go_back(&mut record, request, &left, watch)
            }
            done => done,
        }
    }

    /// Puts a session that is held back to a snapshot. On an error `record` is as the session is.
    fn go_back(
        &self,
        record: &mut Record,
        request: &RollbackRequest,
        left: &SnapshotRequest,
        watch: &dyn Watch,
    ) -> Result<RollbackOutcome> {
        let mut steps = Steps::new(watch);
        let given_up = match self.mend(record) {
            // What the driver has lost cannot be kept. Whoever forces a way back gives it up.
            Err(error @ LifecycleError::GpuStuck { .. }) if request.force => Some(explain(&error)),
            mended => mended.map(|()| None)?,
        };
        let store = self.inner.store.open()?;
        let target = store.resolve(&record.in_own_words(&request.to))?;
        record.check_ancestry(&store, &target, request.force)?;
        // What stands by has its files open; whether they are as they were is seen by putting them back.
        let standby = self.inner.standbys.of(&record.id, &target).filter(|_| request.files);
        if standby.is_none() {
            self.inner.standbys.end(&record.id, false);
        }
        let times = u32::from(standby.is_none());
        let mut aim = self.aim(record, &store, target, times, request.force, &mut steps)?;
        let closed_connections = match standby {
            Some((standby, ready)) => {
                aim.standby = Some(standby);
                ready.closed
            }
            None => image_store::closed_connections(aim.images()?.path(), |port| record.has_port(port))?,
        };
        if record.state == SessionState::Running && aim.standby.is_none() {
            // What is damaged may also be what the state that is left shares with it: nothing is ended for that.
            steps.run("check memory", || aim.images()?.check_missing())?;
        }
        let files = steps.run("check files", || self.plan_files(record, &store, &aim, request))?;
        let wanted = Wanted { wish: None, force: request.force, ends: record.init.map(|init| init.pid) };
        let placed = self.place_gpus(record, &aim.commit.short(), aim.gpu.as_ref(), wanted)?;

        let policy = record.policy_back(&aim.files, &self.habitat(record).places(record));
        let mut swap = Swap { going: Some(Going::to(aim, placed, request.files, &files)), ..Swap::default() };
        let pipeline = match record.state {
            SessionState::Running if given_up.is_none() => {
                let why =
                    Why { reason: CommitReason::BeforeRollback, request: left.clone(), variables: None };
                let parent = self.parent_files(&store, record)?;
                let taking = Taking::new(Leave::Stopped, policy, parent, why);
                swap.taking = Some(Taking { named: files.touches(), ..taking });
                ROLLBACK
            }
            SessionState::Running | SessionState::Suspended | SessionState::Ended | SessionState::Failed => {
                let commit = record.head_id()?.unwrap_or(target);
                swap.safe = Some(Safe { commit, files: Some(self.parent_files(&store, record)?) });
                RESUME
            }
            SessionState::Starting => {
                return Err(LifecycleError::WrongState {
                    session: record.name.clone(),
                    state: record.state.as_str(),
                    action: "go back",
                });
            }
        };
        if let Some(why) = given_up {
            steps.warn(format!("the state that was left could not be kept: {why}"));
        }
        let mut work = Work::new(self, record, steps);
        let done = work.run(pipeline, &mut swap);
        let (warnings, steps) = (work.steps.take_warnings(), work.steps.timings());
        self.looked_after(record, done)?;
        self.kernel_restored(record, &target.to_string(), request.note.as_deref());
        self.inner.events.tell(record, EventKind::RolledBack { commit: target.to_string() });
        Ok(RollbackOutcome {
            commit: record.head_id()?.unwrap_or(target).to_string(),
            automatic: swap.taking.and_then(|taking| taking.kept).map(|kept| kept.commit.to_string()),
            warnings: [files.warnings(), warnings].concat(),
            changed_by_others: files.changed_by_others.into_iter().map(Into::into).collect(),
            spared: files.spared.into_iter().map(Into::into).collect(),
            closed_connections,
            steps,
        })
    }

    /// What the files would need, and whether that may be done. Nothing is touched.
    pub(crate) fn plan_files(
        &self,
        record: &Record,
        store: &UserStore,
        aim: &Aim,
        request: &RollbackRequest,
    ) -> Result<Plan> {
        if !request.files {
            return Ok(Plan::default());
        }
        let places = self.habitat(record).places(record);
        let head = self.parent_files(store, record)?;
        let open = match record.init {
            Some(init) => {
                let tree = sandbox::process::tree(init.pid)?;
                let pids: Vec<i32> = tree.iter().map(|process| process.pid).collect();
                workspace::open_files(&pids, &places)?
            }
            None => Vec::new(),
        };
        let put_back = PutBack {
            store: store.store(),
            user: &record.owner,
            places: &places,
            policy: &record.policy_back(&aim.files, &places),
            to: &aim.files,
            head: Some(&head),
            running: record.init.is_some(),
            open: &open,
            at_work: &self.at_work(record, store)?,
            force: request.force,
            spared: &BTreeSet::new(),
        };
        let plan = put_back.plan()?;
        if !plan.blocked.is_empty() {
            let files = plan.blocked.iter().map(|file| format!("`{}` {}", file.path.display(), file.reason));
            return Err(LifecycleError::FilesInTheWay { commit: aim.commit.short(), files: files.collect() });
        }
        Ok(plan)
    }
}
