//! The engine behind the trait.
//!
//! It speaks the words of the wire itself. What is decided here is what the daemon adds to an operation: that it is refused where nothing can
//! be done, kept within the store's budget, given the reserve on a full disk, and tidied up after.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use api::{
    AttachRequest, BranchOutcome, BranchRequest, CheckRequest, CheckpointOutcome, CheckpointRequest,
    CommitView, Commits, CopyOutOutcome, CopyOutRequest, Diff, Doctor, ErrorBody, ExecOutcome, ExecRequest,
    FileText, Finding, FindingState, ForgetOutcome, ForgetRequest, FreeLocalOutcome, GcOutcome, JobResult,
    PushOutcome, RestartRequest, RestoreRequest, RestoredOutcome, ResumeRequest, RollbackOutcome,
    RollbackRequest, Server, SessionFiles, SessionPatch, SessionView, SignalRequest, SnapshotCheck,
    SnapshotFiles, SnapshotRequest, StartRequest, StopRequest, StoreView, SuspendOutcome, SuspendRequest,
    TagRequest, Text, Variable, Version, exit,
};
use lifecycle::{
    Asked, Class, Did, Engine, EngineEvent, Errand, EventKind, LifecycleError, RecordError, SessionId,
    StepState, Watch, micros,
};
use serde_json::Value;

use crate::abroad;
use crate::backend::{Backend, Beyond, Failure, Happening, Outcome, Progress};
use crate::error::causes;
use crate::trial::trial;

impl From<LifecycleError> for Failure {
    fn from(error: LifecycleError) -> Self {
        let (status, exit) = match error.class() {
            Class::Usage => (400, exit::USAGE),
            Class::NotFound => (404, exit::NOT_FOUND),
            Class::Refused => (422, exit::FAILED),
            Class::Environment => (503, exit::FAILED),
            Class::Corruption => (500, exit::DAMAGED),
            Class::Key => (503, exit::KEY),
            Class::Conflict if matches!(error, LifecycleError::Busy { .. }) => (409, exit::BUSY),
            Class::Conflict => (409, exit::CONFLICT),
            Class::Bug => (500, exit::FAILED),
        };
        let body = ErrorBody {
            code: error.code().to_owned(),
            message: error.to_string(),
            causes: causes(&error).into_iter().chain(error.evidence()).collect(),
            hint: error.hint(),
            exit,
            field: None,
            files: files(&error),
        };
        let another_time = matches!(error, LifecycleError::Busy { .. } | LifecycleError::WrongState { .. });
        Self { status, body: Box::new(body), another_time }
    }
}

/// What is written down of sessions has no codes of its own: the pipelines have them.
impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        LifecycleError::from(error).into()
    }
}

/// The files that an error is about, as far as they are listed.
fn files(error: &LifecycleError) -> Vec<Text> {
    const LISTED: usize = 100;
    match error {
        LifecycleError::FilesChanged { paths } => {
            paths.iter().take(LISTED).map(|path| path.as_path().into()).collect()
        }
        _ => Vec::new(),
    }
}

/// Passes steps on in the daemon's words.
struct Steps<'a>(&'a dyn Progress);

impl Watch for Steps<'_> {
    fn step(&self, step: &'static str, state: StepState) {
        match state {
            StepState::Begun => self.0.begun(step),
            StepState::Progress { done, total } => self.0.progress(step, done, (total > 0).then_some(total)),
            // A step that failed took its time too; that it failed, the job says.
            StepState::Ended { took, .. } => self.0.done(step, micros(took)),
        }
    }

    fn warned(&self, warning: &str) {
        tracing::warn!("{warning}");
    }
}

/// The engine, for what makes no sense without CRIU. A session that could never be snapshotted is not started either; but
/// what runs can be looked at, used and ended.
fn able(engine: &Engine) -> Outcome<&Engine> {
    engine.unable().map_or(Ok(engine), |error| Err(error.into()))
}

/// There is one automatic snapshot more: another may go by the session's policy.
fn tidy_after(engine: &Engine, session: &str) {
    if let Ok(session) = lifecycle::SessionId::try_from(session.to_owned()) {
        Backend::tidy(engine, &session);
    }
}

fn finding(finding: lifecycle::Finding) -> Finding {
    Finding {
        item: finding.item.to_owned(),
        state: match finding.state {
            lifecycle::FindingState::Ok => FindingState::Ok,
            lifecycle::FindingState::Warn => FindingState::Warn,
            lifecycle::FindingState::Fail => FindingState::Fail,
        },
        evidence: finding.evidence,
        fix: finding.fix,
    }
}

impl Backend for Engine {
    fn version(&self) -> Version {
        Version {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            api: api::API_VERSION,
            criu: self.criu_version(),
            refusal: self.unable().map(|error| *Failure::from(error).body),
        }
    }

    fn doctor(&self) -> Outcome<Doctor> {
        let found = Self::doctor(self, &mut || trial(self).map_err(|error| base::explain(&error)));
        let works = lifecycle::works(&found);
        Ok(Doctor { works, findings: found.into_iter().map(finding).collect() })
    }

    fn check(&self, which: &str, request: &CheckRequest) -> Outcome<SnapshotCheck> {
        let (commit, found) = Self::check(self, which, &request.map)?;
        let fits = found.iter().all(|one| one.state != lifecycle::FindingState::Fail);
        Ok(SnapshotCheck { commit, fits, findings: found.into_iter().map(finding).collect() })
    }

    fn trust(&self, which: &str) -> Outcome<CommitView> {
        let commit = Self::trust(self, which)?;
        tracing::info!(commit, "trusted");
        Backend::commit(self, &commit)
    }

    fn sessions(&self) -> Outcome<Vec<SessionView>> {
        Ok(Self::sessions(self))
    }

    fn session(&self, which: &str) -> Outcome<SessionView> {
        Ok(Self::session(self, which)?)
    }

    fn servers(&self, which: &str) -> Outcome<Vec<Server>> {
        Ok(Self::servers(self, which)?)
    }

    fn log(&self, which: &str) -> Outcome<PathBuf> {
        Ok(Self::log(self, which)?)
    }

    fn history(&self, which: Option<&str>, family: bool, limit: Option<usize>) -> Outcome<Commits> {
        let request = lifecycle::HistoryRequest { session: which, family, limit };
        Ok(Self::history(self, request)?)
    }

    fn commit(&self, which: &str) -> Outcome<CommitView> {
        Ok(self.look(|store| store.commit_view(store.resolve(which)?))?)
    }

    fn notebook(&self, which: &str) -> Outcome<Vec<u8>> {
        Ok(self.look(|store| store.notebook(&store.resolve(which)?))?)
    }

    fn variables(&self, which: &str) -> Outcome<Vec<Variable>> {
        Ok(self.look(|store| store.variables(&store.resolve(which)?))?)
    }

    fn tag(&self, request: TagRequest) -> Outcome<CommitView> {
        Ok(Self::tag(self, &request)?)
    }

    fn untag(&self, name: &str) -> Outcome<()> {
        Ok(Self::untag(self, name)?)
    }

    fn forget(&self, request: ForgetRequest, progress: &dyn Progress) -> Outcome<ForgetOutcome> {
        Ok(self.with_reserve(|| self.forget_snapshots(&request, &Steps(progress)))?)
    }

    fn gc(&self, progress: &dyn Progress) -> Outcome<GcOutcome> {
        Ok(self.with_reserve(|| Self::gc(self, &Steps(progress)))?)
    }

    fn diff(&self, a: &str, b: &str) -> Outcome<Diff> {
        Ok(self.look(|store| store.diff(&store.resolve(a)?, &store.resolve(b)?))?)
    }

    fn store(&self) -> Outcome<StoreView> {
        let (used_bytes, allowed_bytes) = self.room().ok().unzip();
        Ok(StoreView { path: self.place().store().into(), used_bytes, allowed_bytes, remote: None })
    }

    fn start(&self, request: StartRequest, progress: &dyn Progress) -> Outcome<SessionView> {
        Ok(Self::start(able(self)?, request, &Steps(progress))?)
    }

    fn snapshot(&self, which: &str, request: SnapshotRequest, progress: &dyn Progress) -> Outcome<JobResult> {
        able(self)?.within_budget()?;
        let taken = match Self::snapshot(self, which, &request, &Steps(progress)) {
            Err(LifecycleError::Skipped(skipped)) => return Ok(JobResult::Skipped(skipped)),
            taken => taken?,
        };
        if request.reason.is_some() {
            tidy_after(self, which);
        }
        Ok(JobResult::Snapshot(taken))
    }

    fn give_up(&self, which: &str) -> Outcome<bool> {
        Ok(Self::give_up(self, which)?)
    }

    fn rollback(
        &self,
        which: &str,
        request: RollbackRequest,
        progress: &dyn Progress,
    ) -> Outcome<RollbackOutcome> {
        let done = Self::rollback(able(self)?, which, &request, &Steps(progress))?;
        tidy_after(self, which);
        Ok(done)
    }

    fn branch(
        &self,
        which: Option<&str>,
        request: BranchRequest,
        progress: &dyn Progress,
    ) -> Outcome<Vec<BranchOutcome>> {
        if request.from.is_none() {
            self.within_budget()?;
        }
        Ok(Self::branch(able(self)?, which, &request, &Steps(progress))?)
    }

    fn suspend(
        &self,
        which: &str,
        request: SuspendRequest,
        progress: &dyn Progress,
    ) -> Outcome<SuspendOutcome> {
        let engine = able(self)?;
        Ok(self.with_reserve(|| Self::suspend(engine, which, &request, &Steps(progress)))?)
    }

    fn resume(&self, which: &str, request: ResumeRequest, progress: &dyn Progress) -> Outcome<SessionView> {
        Ok(Self::resume(able(self)?, which, &request, &Steps(progress))?)
    }

    fn stop(&self, which: &str, request: StopRequest, _: &dyn Progress) -> Outcome<SessionView> {
        Ok(self.with_reserve(|| Self::stop(self, which, request))?)
    }

    fn restart(&self, which: &str, request: RestartRequest, progress: &dyn Progress) -> Outcome<SessionView> {
        Ok(Self::restart(able(self)?, which, &request, &Steps(progress))?)
    }

    fn signal(&self, which: &str, request: SignalRequest) -> Outcome<()> {
        Ok(Self::signal(self, which, request)?)
    }

    fn change(&self, which: &str, patch: SessionPatch) -> Outcome<SessionView> {
        Ok(Self::change(self, which, patch)?)
    }

    fn remove(&self, which: &str, discard_files: bool, _: &dyn Progress) -> Outcome<SessionView> {
        let was = Self::session(self, which)?;
        let kept_files = self.with_reserve(|| Self::remove(self, which, discard_files))?;
        Ok(SessionView { kept_files, ..was })
    }

    fn loose_files(&self, which: &str) -> Outcome<SessionFiles> {
        let session = Self::session(self, which)?;
        let (directory, own) = (session.workspace.unwrap_or(session.cwd), session.parent.is_some());
        Ok(SessionFiles { directory, own, loose: Self::loose_files(self, which)? })
    }

    fn snapshot_files(&self, which: &str, limit: usize) -> Outcome<SnapshotFiles> {
        Ok(Self::snapshot_files(self, which, limit)?)
    }

    fn file_text(&self, which: &str, path: &Path) -> Outcome<FileText> {
        Ok(Self::file_text(self, which, path)?)
    }

    fn copy_out(&self, which: &str, request: CopyOutRequest, _: &dyn Progress) -> Outcome<CopyOutOutcome> {
        Ok(Self::copy_out(self, which, &request)?)
    }

    fn exec(&self, which: &str, request: ExecRequest, _: &dyn Progress) -> Outcome<ExecOutcome> {
        Ok(Self::exec(self, which, &request)?)
    }

    fn attach(&self, request: AttachRequest, _: &dyn Progress) -> Outcome<SessionView> {
        Ok(Self::attach(able(self)?, &request)?)
    }

    fn checkpoint(&self, request: CheckpointRequest, _: &dyn Progress) -> Outcome<CheckpointOutcome> {
        Ok(Self::checkpoint(able(self)?, &request)?)
    }

    fn restore(&self, request: RestoreRequest, _: &dyn Progress) -> Outcome<RestoredOutcome> {
        Ok(able(self)?.restore_directory(&request)?)
    }

    fn beyond(&self, remote: &str) -> Outcome<Option<Beyond>> {
        abroad::beyond(self, remote)
    }

    fn push(&self, remote: &str, names: &[String], progress: &dyn Progress) -> Outcome<PushOutcome> {
        abroad::push(self, remote, names, progress)
    }

    fn free_local(&self, remote: &str, keep: u64, progress: &dyn Progress) -> Outcome<FreeLocalOutcome> {
        abroad::free_local(self, remote, keep, progress)
    }

    fn asked(&self) -> Option<Receiver<Asked>> {
        Self::asked(self)
    }

    fn answer(&self, session: &SessionId, id: &str, answer: Option<Value>) {
        Self::answer(self, session, id, answer);
    }

    fn due(&self) -> Option<Receiver<Errand>> {
        match Self::due(self) {
            Ok(due) => Some(due),
            Err(error) => {
                tracing::error!(%error, "policies of sessions are not kept");
                None
            }
        }
    }

    fn tidy(&self, session: &lifecycle::SessionId) {
        let (engine, session) = (self.clone(), session.clone());
        // Nobody waits for it. What is left over, also for want of a thread, is still there the next time.
        let tidy = move || drop(Self::tidy(&engine, &session));
        let _next_time = std::thread::Builder::new().name("tidy".to_owned()).spawn(tidy);
    }

    fn did(&self, session: &SessionId, did: Did) {
        Self::did(self, session, did);
    }

    fn happenings(&self) -> Option<Receiver<Happening>> {
        let events = self.subscribe();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for event in events {
                if sender.send(happening(event)).is_err() {
                    return;
                }
            }
        });
        Some(receiver)
    }
}

/// What happened, as the wire says it.
fn happening(event: EngineEvent) -> Happening {
    let happening = |kind| Happening {
        kind,
        state: None,
        session: event.session.to_string(),
        commit: None,
        activity: None,
    };
    match event.kind {
        EventKind::State(now) => Happening { state: Some(now), ..happening(api::EventKind::SessionState) },
        EventKind::Snapshot { commit } => {
            Happening { commit: Some(commit), ..happening(api::EventKind::SnapshotTaken) }
        }
        EventKind::RolledBack { commit } => {
            Happening { commit: Some(commit), ..happening(api::EventKind::RolledBack) }
        }
        EventKind::Changed => happening(api::EventKind::SessionChanged),
        EventKind::Activity(now) => {
            Happening { activity: Some(now), ..happening(api::EventKind::SessionActivity) }
        }
        EventKind::History => happening(api::EventKind::HistoryChanged),
        EventKind::Removed => happening(api::EventKind::SessionRemoved),
    }
}
