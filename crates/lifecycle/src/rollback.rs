//! The way back: a session's processes and files become what they were at a snapshot.
//!
//! Everything that could fail is tried first, with the old processes running. They are then stopped and snapshotted, and
//! ended only when that automatic snapshot is durable. If the restore fails after that, the automatic snapshot is brought
//! up again; if even that fails, the session is suspended at it. History only grows: a rollback is a commit with two
//! parents, the state that was left and the one that was gone back to.

use std::path::PathBuf;
use std::sync::Arc;

use cas_core::ObjectId;
use checkpoint_criu::Leave;
use history::UserStore;
use manifest::CommitReason;
use sandbox::process::Identity;
use workspace::{CaptureRequest, FilePolicy, Listing, Plan, PutBack};

use crate::dump::DumpPlan;
use crate::effects::happened;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::events::EventKind;
use crate::gpu::{OffGpu, Placed, Wanted, explain};
use crate::journal::{Entry, Phase};
use crate::locks::Doing;
use crate::ports::Checkpointer;
use crate::record::{Record, SessionState};
use crate::request::{Along, RollbackRequest};
use crate::restore::{Aim, closed_connections};
use crate::snapshot::{Kept, Why};
use crate::steps::{NoWatch, StepProgress, Steps, Watch};
use crate::view::RollbackOutcome;

/// A session's name means its own thread, also where a thread of an earlier session has the same name.
fn in_own_words(record: &Record, to: &str) -> String {
    match to.strip_prefix(record.name.as_str()) {
        Some(rest) if rest.is_empty() || rest.starts_with('~') => format!("{}{rest}", record.thread),
        _ => to.to_owned(),
    }
}

/// A session goes back to what it was, not to what another one was, unless that is really meant.
fn check_ancestry(record: &Record, store: &UserStore, target: &ObjectId, force: bool) -> Result<()> {
    let is_own = match record.head_id()? {
        Some(head) => store.is_ancestor(target, &head)?,
        None => false,
    };
    if is_own || force {
        return Ok(());
    }
    Err(LifecycleError::BadRequest {
        detail: format!(
            "snapshot {} is not in the history of session {}; branch it, or use --force to go there all the same",
            target.short(),
            record.name
        ),
    })
}

/// A tree that stands still, with its work off the GPU. It goes on when this is dropped, while a panic unwinds, unless it was
/// ended.
pub(crate) struct StoppedTree {
    checkpointer: Arc<dyn Checkpointer>,
    init: Identity,
    may_go_on: bool,
    /// Dropped after the tree goes on: the driver cannot bring back what is stopped.
    off: Option<OffGpu>,
}

impl StoppedTree {
    /// Ends it. `phase` is written down first, and says that its state is durable.
    pub(crate) fn end(
        mut self,
        engine: &Engine,
        record: &Record,
        entry: &Entry,
        phase: &Phase,
    ) -> Result<()> {
        entry.enter(phase)?;
        self.may_go_on = false;
        if let Some(off) = self.off.take() {
            off.ended();
        }
        engine.end_tree(record)
    }

    /// Lets it go on, and its work on the GPU. What the driver would not bring back is said by
    /// [`LifecycleError::GpuStuck`].
    fn go_on(mut self, entry: &Entry, steps: &mut Steps<'_>) -> Result<()> {
        self.may_go_on = false;
        self.checkpointer.release(self.init);
        match &mut self.off {
            Some(off) => off.back_for_good(entry, steps),
            None => Ok(()),
        }
    }
}

impl Drop for StoppedTree {
    fn drop(&mut self) {
        if self.may_go_on {
            self.checkpointer.release(self.init);
        }
    }
}

/// Where a session goes to.
pub(crate) struct To<'a> {
    pub(crate) aim: &'a Aim,
    pub(crate) placed: Placed,
}

/// Where a session can go back to if a restore fails.
pub(crate) struct Safe {
    pub(crate) commit: ObjectId,
    pub(crate) files: Listing,
}

impl Engine {
    /// Puts a session back to a snapshot.
    pub fn rollback(
        &self,
        which: &str,
        request: &RollbackRequest,
        watch: &dyn Watch,
    ) -> Result<RollbackOutcome> {
        let along = Along { notebook: request.notebook.clone(), ..Along::default() };
        along.check()?;
        let (_held, mut record) = self.hold(which, Doing::Rollback)?;
        match self.go_back(&mut record, request, &along, watch) {
            // What is to be left ended by itself: there is nothing any more to be stopped and kept.
            Err(error) if self.has_ended_meanwhile(&mut record, &error)? => {
                self.go_back(&mut record, request, &along, watch)
            }
            done => done,
        }
    }

    /// Puts a session that is held back to a snapshot. On an error `record` is as the session is.
    fn go_back(
        &self,
        record: &mut Record,
        request: &RollbackRequest,
        along: &Along,
        watch: &dyn Watch,
    ) -> Result<RollbackOutcome> {
        let mut steps = Steps::new(watch);
        let given_up = match self.mend(record) {
            // What the driver has lost cannot be kept. Whoever forces a way back gives it up.
            Err(error @ LifecycleError::GpuStuck { .. }) if request.force => Some(explain(&error)),
            mended => mended.map(|()| None)?,
        };
        let store = self.inner.store.open()?;
        let target = store.resolve(&in_own_words(record, &request.to))?;
        check_ancestry(record, &store, &target, request.force)?;
        let aim = self.aim(record, &store, target, request.force, &mut steps)?;
        let files = steps.run("check files", || self.plan_files(record, &store, &aim, request))?;
        let wanted = Wanted { wish: None, force: request.force, ends: record.init.map(|init| init.pid) };
        let placed = self.place_gpus(record, &aim.commit.short(), aim.gpu.as_ref(), wanted)?;
        let closed_connections = closed_connections(aim.images.path(), record)?;

        let (entry, safe, automatic) = match record.state {
            SessionState::Running if given_up.is_some() => {
                let commit = record.head_id()?.unwrap_or(target);
                let files = self.parent_files(&store, record)?;
                let phase = Phase::Restoring {
                    commit: target.to_string(),
                    safe: commit.to_string(),
                    files: request.files,
                };
                let entry = self.inner.journal.begin(&record.id, &phase)?;
                steps.run("end the old processes", || self.end_tree(record))?;
                record.init = None;
                steps.warn(format!(
                    "the state that was left could not be kept: {}",
                    given_up.unwrap_or_default()
                ));
                (entry, Safe { commit, files }, None)
            }
            SessionState::Running => {
                let (entry, stopped, kept) = self.stop_and_keep(
                    record,
                    &store,
                    &files.touches(),
                    &Why::automatic(CommitReason::BeforeRollback, along),
                    &mut steps,
                )?;
                let phase = Phase::Ending {
                    safe: kept.commit.to_string(),
                    then: Some(target.to_string()),
                    files: request.files,
                };
                steps.run("end the old processes", || stopped.end(self, record, &entry, &phase))?;
                record.init = None;
                entry.enter(&Phase::Restoring {
                    commit: target.to_string(),
                    safe: kept.commit.to_string(),
                    files: request.files,
                })?;
                let automatic = Some(kept.commit);
                (entry, Safe { commit: kept.commit, files: kept.files }, automatic)
            }
            SessionState::Suspended | SessionState::Ended | SessionState::Failed => {
                let commit = record.head_id()?.unwrap_or(target);
                let phase = Phase::Restoring {
                    commit: target.to_string(),
                    safe: commit.to_string(),
                    files: request.files,
                };
                let entry = self.inner.journal.begin(&record.id, &phase)?;
                let files = self.parent_files(&store, record)?;
                (entry, Safe { commit, files }, None)
            }
            SessionState::Starting => {
                return Err(LifecycleError::WrongState {
                    session: record.name.clone(),
                    state: record.state.as_str(),
                    action: "go back",
                });
            }
        };
        let to = To { aim: &aim, placed };
        let commit = self.bring_up(record, &store, to, &safe, request.files, entry, &mut steps)?;
        self.kernel_restored(record, &target.to_string(), request.note.as_deref());
        self.inner.events.tell(record, EventKind::RolledBack { commit: target.to_string() });
        Ok(RollbackOutcome {
            commit,
            automatic,
            warnings: [files.warnings(), steps.take_warnings()].concat(),
            changed_by_others: files.changed_by_others,
            closed_connections,
            steps: steps.timings(),
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
            policy: &record.files,
            to: &aim.files,
            head: Some(&head),
            running: record.init.is_some(),
            open: &open,
        };
        let plan = put_back.plan()?;
        if !plan.blocked.is_empty() {
            let files = plan.blocked.iter().map(|file| format!("`{}` {}", file.path.display(), file.reason));
            return Err(LifecycleError::FilesInTheWay { commit: aim.commit.short(), files: files.collect() });
        }
        if !request.force && !plan.changed_by_others.is_empty() {
            return Err(LifecycleError::FilesChanged { paths: plan.changed_by_others });
        }
        Ok(plan)
    }

    /// Stops the tree and keeps its state. When this returns, the tree stands still, and its state is durable and the
    /// session's newest snapshot; on an error it runs.
    pub(crate) fn stop_and_keep(
        &self,
        record: &mut Record,
        store: &UserStore,
        named: &[PathBuf],
        why: &Why<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<(Entry, StoppedTree, Kept)> {
        let init = record.living_init("be snapshotted")?;
        let parent = self.parent_files(store, record)?;
        let policy = record.files.clone();
        let entry = self.inner.journal.begin(&record.id, &Phase::Dumping { worker: None })?;
        let plan = DumpPlan { record, leave: Leave::Stopped, policy: &policy, named, parent: &parent };
        let error = match self.dump(&plan, &entry, steps) {
            Ok(mut taken) => {
                let checkpointer = Arc::clone(&self.inner.ports.checkpointer);
                let stopped = StoppedTree { checkpointer, init, may_go_on: true, off: taken.off.take() };
                let kept = self.keep(record, taken, store, why, steps).and_then(|kept| {
                    self.at_head(record, &kept)?;
                    Ok(kept)
                });
                match kept {
                    Ok(kept) => return Ok((entry, stopped, kept)),
                    Err(error) => stopped.go_on(&entry, steps).err().unwrap_or(error),
                }
            }
            Err(error) => error,
        };
        self.running(record);
        Err(self.conclude(record, entry, error)?)
    }

    /// Files and processes of `to`, or else of `safe`. The session has no processes when this is called, and its journal
    /// says `Restoring`. Returns the session's new head.
    #[expect(clippy::too_many_arguments, reason = "each is one thing that a way back needs")]
    pub(crate) fn bring_up(
        &self,
        record: &mut Record,
        store: &UserStore,
        to: To<'_>,
        safe: &Safe,
        files: bool,
        entry: Entry,
        steps: &mut Steps<'_>,
    ) -> Result<ObjectId> {
        let aim = to.aim;
        let own = (record.gpus.clone(), record.gpu_wish.clone());
        let result = self
            .try_bring_up(record, store, &to, safe, (files, &entry), steps)
            .and_then(|()| self.write_rollback(record, store, aim, safe));
        let error = match result {
            Ok(head) => {
                record.head = Some(head.to_string());
                record.state = SessionState::Running;
                record.exit = None;
                self.save(record)?;
                self.running(record);
                entry.done()?;
                return Ok(head);
            }
            Err(error) => error,
        };
        // Their place on the GPUs is free for the way back.
        drop(to.placed);
        self.end_tree(record)?;
        (record.gpus, record.gpu_wish) = own;
        // They may be what failed: the next attempt lays them out from the store, which checks every byte.
        self.inner.stages.forget(&aim.key);
        record.init = None;
        record.head = Some(safe.commit.to_string());
        let back = if aim.commit == safe.commit {
            None
        } else {
            let mut quiet = Steps::new(&NoWatch);
            self.aim(record, store, safe.commit, true, &mut quiet)
                .and_then(|aim| {
                    let commit = aim.commit.short();
                    let placed = self.place_gpus(record, &commit, aim.gpu.as_ref(), Wanted::default())?;
                    let to = To { aim: &aim, placed };
                    self.try_bring_up(record, store, &to, safe, (files, &entry), &mut quiet)
                })
                .ok()
        };
        let (session, commit, source) = (record.name.clone(), aim.commit.short(), Box::new(error));
        if back.is_some() {
            record.state = SessionState::Running;
            self.save(record)?;
            self.running(record);
            // It is the one that is being answered with this error.
            self.renew_kernel(record, None);
            entry.done()?;
            return Err(LifecycleError::PutBack { session, commit, source });
        }
        self.set_down(record, SessionState::Suspended)?;
        entry.done()?;
        Err(LifecycleError::LeftSuspended { session, commit, safe: safe.commit.short(), source })
    }

    fn try_bring_up(
        &self,
        record: &mut Record,
        store: &UserStore,
        to: &To<'_>,
        safe: &Safe,
        (files, entry): (bool, &Entry),
        steps: &mut Steps<'_>,
    ) -> Result<()> {
        let aim = to.aim;
        if files {
            let left = steps
                .run("put files back", || self.put_files_back(record, store, &aim.files, &safe.files))?;
            for (path, reason) in left {
                steps.warn(format!("`{}` was left as it is: {reason}", path.display()));
            }
        }
        self.restore_processes(record, aim.images.path(), true, &to.placed, entry, steps)
    }

    /// Makes the files what `to` says. What would be overwritten and is in no snapshot yet is kept first. Returns what was
    /// left as it is, and why.
    fn put_files_back(
        &self,
        record: &Record,
        store: &UserStore,
        to: &Listing,
        kept: &Listing,
    ) -> Result<Vec<(PathBuf, String)>> {
        let places = self.habitat(record).places(record);
        let put_back = PutBack {
            store: store.store(),
            user: &record.owner,
            places: &places,
            policy: &record.files,
            to,
            head: None,
            running: false,
            open: &[],
        };
        let uncovered = put_back.uncovered(kept)?;
        if uncovered.is_empty() {
            return Ok(put_back.run(kept)?.kept);
        }
        let mut all = self.keep_files(record, store, &uncovered)?;
        all.merge(kept.clone());
        Ok(put_back.run(&all)?.kept)
    }

    /// A commit of nothing but files, on a thread of its own, for what no other snapshot holds.
    fn keep_files(&self, record: &Record, store: &UserStore, named: &[PathBuf]) -> Result<Listing> {
        let places = self.habitat(record).places(record);
        let staged = self.inner.stages.stage(0)?;
        let session = store.write(&[])?;
        let request = CaptureRequest {
            user: &record.owner,
            places: &places,
            policy: &FilePolicy::None,
            named,
            staging: staged.files(),
            parent: &Listing::default(),
        };
        let pending = workspace::begin(&request, &[])?;
        let captured = pending.finish(&session, &StepProgress::new(&NoWatch, "store files"))?;
        let snapshot = store.commit_files(
            session,
            &record.thread,
            &record.owner,
            &captured.workspace,
            &captured.outside,
        )?;
        Ok(Listing::of_snapshot(store.store(), &snapshot)?)
    }

    /// The commit that says that the session went back. Its state is that of the target: nothing is stored twice.
    fn write_rollback(&self, record: &Record, store: &UserStore, aim: &Aim, safe: &Safe) -> Result<ObjectId> {
        if aim.commit == safe.commit {
            return Ok(aim.commit);
        }
        if let Some(head) = store.head(&record.thread)?
            && store.commit_of(&head)?.parents == [safe.commit, aim.commit]
        {
            // It was written, and then the daemon was killed.
            return Ok(head);
        }
        let on = (record.id.as_str(), record.thread.as_str());
        let (commit, _) =
            store.commit_rollback(on, &safe.commit, &aim.commit, &record.owner, Some(&self.inner.sealer))?;
        happened("the way back is committed");
        Ok(commit)
    }
}
